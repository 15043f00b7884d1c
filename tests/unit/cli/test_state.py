"""`flint state show`: what is in a savepoint, and the rows of a state, without Spark."""

from __future__ import annotations

import csv
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from tests.unit.state_processor.savepoints import Steps
from tests.unit.state_processor.test_readings import RECORDS, expected
from tests.unit.state_processor.test_writing import make

from flintstream.cli.main import cli
from flintstream.common import Types
from flintstream.datastream.functions import KeyedProcessFunction
from flintstream.datastream.state import ValueStateDescriptor
from flintstream.runtime.batch import Batch
from flintstream.runtime.checkpoint.metadata import METADATA, CheckpointMetadata
from flintstream.runtime.checkpoint.signing import SigningKeys
from flintstream.runtime.operators.process import ProcessOperator
from flintstream.state_processor import OperatorIdentifier, OperatorTransformation


def show(*arguments):
    result = CliRunner().invoke(cli, ["state", "show", *map(str, arguments)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def lines(text):
    return [line.split() for line in text.splitlines()]


@pytest.fixture(params=[("hashmap", True), ("rocksdb", False)], ids=["savepoint", "checkpoint of rocksdb"])
def location(request, tmp_path):
    backend, savepoint = request.param
    steps = Steps(tmp_path, state_backend=backend).feed(RECORDS)
    stored = steps.store(savepoint=savepoint)
    steps.close()
    return stored


def test_operators_states_types_and_keys_are_listed(location):
    code, text = show(location)
    assert code == 0
    found = lines(text)
    assert found[3] == ["OPERATOR", "UID", "PARALLELISM", "STATE", "KIND", "TYPE", "KEYS", "SIZE"]
    assert found[4][:7] == ["the", "counts", "counts", "2", "of", "16", found[4][6]]
    assert ["count", "keyed", "value", "Long", "40"] in [line[:5] for line in found]
    assert ["by", "kind", "keyed", "map", "MapTypeInfo<String,", "Integer>", "40"] in [line[:7] for line in found]
    assert show(location, "counts") == (code, text)
    assert show(location, OperatorIdentifier.for_uid("counts").operator_id) == (code, text)


def test_rows_are_printed_up_to_a_limit(location):
    code, text = show(location, "counts", "seen", "--limit", 3)
    assert code == 0
    assert lines(text)[0] == ["KEY", "VALUE"]
    assert len(text.splitlines()) == 5
    assert "Only the first 3 rows are shown" in text
    shown = text.splitlines()[1:4]
    assert all(eval(line.split()[0]) in expected() for line in shown)
    assert len(show(location, "counts", "count", "--limit", 100)[1].splitlines()) == 41


def test_rows_are_written_to_files(location, tmp_path):
    written = tmp_path / "rows.csv", tmp_path / "rows.parquet"
    code, text = show(location, "counts", "count", "--csv", written[0], "--parquet", written[1])
    assert (code, text) == (0, f"40 rows are in {written[0]}.\n40 rows are in {written[1]}.\n")
    counts = {key: len(values) for key, values in expected().items()}
    with open(written[0], newline="") as file:
        assert {row["key"]: int(row["value"]) for row in csv.DictReader(file)} == counts
    table = pq.read_table(written[1])
    assert table.schema.names == ["key", "value"]
    assert dict(zip(*table.to_pydict().values(), strict=True)) == counts
    assert show(location, "counts", "by kind", "--parquet", written[1])[0] == 0
    assert dict(pq.read_table(written[1]).to_pylist()[0]["value"]).keys() <= {"even", "odd"}


def test_rows_are_printed_as_csv_without_a_file(location):
    code, text = show(location, "counts", "count", "--csv")
    assert code == 0
    counts = {key: len(values) for key, values in expected().items()}
    assert {row["key"]: int(row["value"]) for row in csv.DictReader(text.splitlines())} == counts


def test_a_limit_holds_for_csv_and_files_too(location, tmp_path):
    written = tmp_path / "rows.parquet"
    code, text = show(location, "counts", "count", "--limit", 3, "--parquet", written, "--csv")
    assert code == 0
    assert text.splitlines()[0] == "key,value"
    assert len(text.splitlines()) == 5
    assert text.endswith(f"3 rows are in {written}.\n")
    assert pq.read_table(written).num_rows == 3


def test_mistakes_are_answered_with_what_exists(location, tmp_path):
    assert show(tmp_path / "none") == (
        1,
        f"Error: {tmp_path / 'none'} is not a checkpoint, a savepoint or a job's checkpoint directory\n",
    )
    assert "has no operator with the uid 'other'; it has 'counts'" in show(location, "other")[1]
    assert "has no state 'sum'; it has 'count', 'seen', 'by kind'" in show(location, "counts", "sum")[1]
    assert "need a UID and a STATE" in show(location, "--csv", "x.csv")[1]


class Untyped(KeyedProcessFunction):
    def open(self, runtime_context):
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value, ctx):
        self.last.update(value)


@pytest.mark.parametrize(
    ("values", "column"), [([1, 2.5], [1.0, 2.5]), ([1, "a"], ["1", "a"]), ([{"x": 1}, {"y": 2}], None)]
)
def test_columns_without_a_type_have_one_for_all_values_or_text(tmp_path, values, column):
    steps = Steps(tmp_path, lambda: ProcessOperator(Untyped(), keyed=True)).feed(enumerate(values))
    location = steps.store()
    steps.close()
    assert show(location, "counts", "last", "--parquet", tmp_path / "rows.parquet")[0] == 0
    rows = sorted(pq.read_table(tmp_path / "rows.parquet").to_pylist(), key=lambda row: row["key"])
    assert [row["key"] for row in rows] == [0, 1]
    assert [row["value"] for row in rows] == (column or [{"x": 1, "y": None}, {"x": None, "y": 2}])


def test_classes_that_are_not_here_are_named(tmp_path, monkeypatch):
    (tmp_path / "shapes.py").write_text("class Shape:\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    shapes = __import__("shapes")
    steps = Steps(tmp_path, lambda: ProcessOperator(Untyped(), keyed=True)).feed([(1, shapes.Shape())])
    location = steps.store()
    steps.close()
    command = [sys.executable, "-m", "flintstream", "state", "show", location]
    alone = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert alone.returncode == 0
    assert "its state cannot be read here: No module named 'shapes'" in alone.stderr
    assert " ? " in alone.stdout
    rows = subprocess.run([*command, "counts", "last"], capture_output=True, text=True, timeout=240)
    assert rows.returncode == 1
    assert "name the files of its classes with --pyFiles" in rows.stderr
    found = subprocess.run(
        [*command, "counts", "last", "--pyFiles", str(tmp_path / "shapes.py")],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert "<shapes.Shape object" in found.stdout


def test_lists_and_broadcast_state_have_rows_too(tmp_path):
    from tests.unit.state_processor.test_writing import Buffered, Frame, Rules

    lists = OperatorTransformation.bootstrap_with(Frame()).transform(Buffered())
    location = make(tmp_path / "1", lists, [Batch(["x", "y"]), Batch(["z"])], 2)
    assert ["lines", "list", "String", "3"] in [line[:4] for line in lines(show(location)[1])]
    assert lines(show(location, "made", "lines")[1]) == [["VALUE"], ["'x'"], ["'y'"], ["'z'"]]
    rules = OperatorTransformation.bootstrap_with(Frame()).transform(Rules())
    location = make(tmp_path / "2", rules, [Batch([("a", 1)])])
    assert lines(show(location, "made", "rules")[1]) == [["KEY", "VALUE"], ["'a'", "1"]]


def test_what_is_not_signed_is_refused_with_keys(location, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("k" * 64)
    keys.chmod(0o600)
    code, text = show(location, "-k", keys)
    assert code == 1
    assert "is not signed" in text
    path = f"{location}/{METADATA}"
    with open(path, "rb") as file:
        metadata = CheckpointMetadata.from_bytes(file.read(), path)
    with open(path, "wb") as file:
        file.write(metadata.to_bytes(SigningKeys.read(str(keys))))
    assert "has no digest of its file" in show(location, "-k", keys)[1]
