"""File sinks whose job is killed anywhere: each record is in one visible file, once, and no file is half visible."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flintstream.common import Encoder, Types
from flintstream.common.serialization import BulkWriterFactory
from flintstream.connectors.files import part_files, paths
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    FileSource,
    RollingPolicy,
    StreamFormat,
    StreamingFileSink,
)
from flintstream.datastream.formats.parquet import ParquetBulkWriters
from flintstream.runtime.faults import UserCodeError
from flintstream.testing import LocalJob, OneInputOperatorHarness

from ..s3_server import s3_server
from .drill import RECORDS, Drill, killed_everywhere, points_around
from .reading import read_all
from .totals import Total, Totals

ON_CHECKPOINT = RollingPolicy.on_checkpoint_rolling_policy()
GOING_ON = RollingPolicy.default_rolling_policy()
SMALL = RollingPolicy.default_rolling_policy(part_size=20)


class ByLastDigit(BucketAssigner):
    def get_bucket_id(self, element: Any, context: Any) -> str:
        return f"digit={int(element[-1]) % 2}"


@pytest.fixture(autouse=True)
def no_disk_to_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_files.os, "fsync", lambda file: None)


def text_sink(kind: Any, path: Any, policy: RollingPolicy, assigner: BucketAssigner | None = None) -> Any:
    builder = kind.for_row_format(str(path), Encoder.simple_string_encoder()).with_rolling_policy(policy)
    return builder.with_bucket_assigner(assigner or BucketAssigner.base_path_bucket_assigner()).build()


def bulk_sink(path: Any, factory: BulkWriterFactory) -> Any:
    builder = FileSink.for_bulk_format(str(path), factory)
    return builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()


def files(path: Path) -> list[Path]:
    return [file for file in sorted(path.rglob("*")) if file.is_file() and not file.name.startswith(".")]


def lines(path: Path) -> list[str]:
    read = [file.read_text() for file in files(path)]
    assert all(text.endswith("\n") for text in read), "a file is cut off"
    return [line for text in read for line in text.splitlines()]


def joined(path: Path) -> list[str]:
    found = []
    for file in files(path):
        *records, total = file.read_text().splitlines()
        assert total == f"total {len(records)}"
        found += records
    return found


def parquet(path: Path) -> list[str]:
    return [record for file in files(path) for record in pq.read_table(file)["text"].to_pylist()]


PARQUET = ParquetBulkWriters.for_row_type(Types.ROW_NAMED(["text"], [Types.STRING()]))
SINKS: dict[str, tuple[Callable[[Any], Any], Callable[[Path], list[str]]]] = {
    "on checkpoint": (lambda path: text_sink(FileSink, path, ON_CHECKPOINT), lines),
    "going on": (lambda path: text_sink(FileSink, path, GOING_ON), lines),
    "small files in buckets": (lambda path: text_sink(FileSink, path, SMALL, ByLastDigit()), lines),
    "going on in buckets": (lambda path: text_sink(FileSink, path, GOING_ON, ByLastDigit()), lines),
    "older": (lambda path: text_sink(StreamingFileSink, path, GOING_ON), lines),
    "older, on checkpoint": (lambda path: text_sink(StreamingFileSink, path, ON_CHECKPOINT), lines),
    "bulk": (lambda path: bulk_sink(path, Totals()), joined),
}


def drill(monkeypatch: pytest.MonkeyPatch, sink: str, path: Path, kill_at: Collection[int], **options: Any) -> Drill:
    shutil.rmtree(path, ignore_errors=True)
    make, read = SINKS[sink]
    made = Drill(lambda: make(path), lambda: read(path), kill_at, **options)
    original = made.run

    def run() -> Drill:
        with points_around(monkeypatch, part_files, "rename", made.point):
            return original()

    made.run = run  # type: ignore[method-assign]
    return made


@pytest.mark.parametrize("sink", ["on checkpoint", "going on", "small files in buckets", "older", "bulk"])
@pytest.mark.parametrize(
    "options",
    [
        {"late": True},
        {"parallelism": (2, 3), "gracefully": False},
        {"parallelism": (2, 1), "aborted": (1, 3)},
    ],
    ids=str,
)
def test_killed_anywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sink: str, options: dict[str, Any]) -> None:
    read = SINKS[sink][1]
    for done in killed_everywhere(lambda kill_at: drill(monkeypatch, sink, tmp_path, kill_at, **options)):
        assert sorted(read(tmp_path)) == RECORDS, f"after {done.points} points"


@pytest.mark.parametrize("sink", SINKS)
def test_killed_again_and_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sink: str) -> None:
    chosen = random.Random(7)
    for _ in range(6):
        kill_at = sorted(chosen.sample(range(1, 60), 4))
        parallelism = tuple(chosen.choices((1, 2, 3), k=5))
        done = drill(
            monkeypatch, sink, tmp_path, kill_at, parallelism=parallelism, aborted=(2,), gracefully=False
        ).run()
        assert sorted(SINKS[sink][1](tmp_path)) == RECORDS, f"killed at {kill_at}, parallelism {parallelism}"
        assert done.attempts > 1


def test_files_that_are_left_behind_stay_hidden_and_copies_are_cleared_away(tmp_path: Path) -> None:
    sink = text_sink(FileSink, tmp_path, GOING_ON)
    with OneInputOperatorHarness(sink) as first:
        first.process_element("a")
        kept = first.snapshot(1)
        first.process_element("lost")
    (left,) = tmp_path.iterdir()
    for _ in range(3):  # attempts that fail before their first checkpoint
        again = OneInputOperatorHarness(sink)
        again.restore(kept)
        with again:
            again.process_element("b")
    assert list(tmp_path.iterdir()) == [left]
    last = OneInputOperatorHarness(sink)
    last.restore(kept)
    with last:
        last.process_element("b")
        last.end_input()
        last.snapshot(2)
        assert left.exists(), "the last complete checkpoint knows it"
        last.notify_checkpoint_complete(2)
    (file,) = tmp_path.iterdir()
    assert file.read_text() == "a\nb\n"


def test_a_process_that_still_writes_does_no_harm(tmp_path: Path) -> None:
    sink = text_sink(FileSink, tmp_path, GOING_ON)
    zombie = OneInputOperatorHarness(sink)
    zombie.open()
    zombie.process_element("a")
    kept = zombie.snapshot(1)
    again = OneInputOperatorHarness(sink)
    again.restore(kept)
    with again:
        again.process_element("b")
        zombie.process_elements(["x"] * 10_000)
        again.end_input()
        again.snapshot(2)
        again.notify_checkpoint_complete(2)
        zombie.close()
    assert lines(tmp_path) == ["a", "b"]


def test_a_commit_that_fails_fails_the_job_and_is_done_after_the_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = text_sink(StreamingFileSink, tmp_path, ON_CHECKPOINT, ByLastDigit())

    def refuse(old: str, new: str) -> None:
        if "digit=1" in new:
            raise PermissionError(13, "not now", new)
        old_rename(old, new)

    old_rename = part_files.rename
    with OneInputOperatorHarness(sink) as harness:
        harness.process_elements(["a 0", "b 1", "c 2"])
        kept = harness.snapshot(1)
        monkeypatch.setattr(part_files, "rename", refuse)
        with pytest.raises(UserCodeError, match="not now"):
            harness.notify_checkpoint_complete(1)
    again = OneInputOperatorHarness(sink)
    again.restore(kept)
    with pytest.raises(UserCodeError, match=r"PermissionError.*not now"), again:
        pass
    monkeypatch.undo()
    last = OneInputOperatorHarness(sink)
    last.restore(kept)
    with last:
        assert sorted(lines(tmp_path)) == ["a 0", "b 1", "c 2"]


def test_numbers_go_on_after_a_restore_with_the_greatest_of_all_subtasks(tmp_path: Path) -> None:
    sink = text_sink(StreamingFileSink, tmp_path, ON_CHECKPOINT)
    kept = []
    for subtask, checkpoints in ((0, 1), (1, 3)):
        with OneInputOperatorHarness(sink, parallelism=2, subtask=subtask) as harness:
            for checkpoint in range(1, checkpoints + 1):
                harness.process_element(f"{subtask} {checkpoint}")
                last = harness.snapshot(checkpoint)
            kept.append(last)
    again = OneInputOperatorHarness(sink)
    again.restore(*kept)
    with again:
        assert [file.name for file in files(tmp_path)] == ["part-0-0", "part-1-0", "part-1-1", "part-1-2"]
        again.process_element("new")
        again.snapshot(4)
        again.notify_checkpoint_complete(4)
    assert [file.name for file in files(tmp_path)][0:2] == ["part-0-0", "part-0-3"]


def test_a_committed_file_that_someone_has_taken_away_is_only_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sink = text_sink(FileSink, tmp_path, ON_CHECKPOINT)
    with OneInputOperatorHarness(sink) as harness:
        harness.process_element("a")
        kept = harness.snapshot(1)
        harness.notify_checkpoint_complete(1)
    (file,) = files(tmp_path)
    file.unlink()
    again = OneInputOperatorHarness(sink)
    again.restore(kept)
    with again:
        assert f"{file} is gone" in caplog.text


def test_an_old_checkpoint_whose_file_was_completed_later_is_refused(tmp_path: Path) -> None:
    sink = text_sink(FileSink, tmp_path, GOING_ON)
    with OneInputOperatorHarness(sink) as harness:
        harness.process_element("a")
        old = harness.snapshot(1)
        harness.end_input()
        harness.snapshot(2)
        harness.notify_checkpoint_complete(2)
    again = OneInputOperatorHarness(sink)
    again.restore(old)
    with (
        pytest.raises(UserCodeError, match="the checkpoint contains 2 bytes of this file, which does not exist"),
        again,
    ):
        pass


@pytest.fixture(params=["memory", "s3"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a directory that does not exist."""
    if request.param == "memory":
        yield f"memory://exactly-once-{uuid4().hex}"
    else:
        with s3_server() as bucket:
            yield bucket


def test_behind_a_url_files_end_with_each_checkpoint(url: str) -> None:
    for kill_at in (
        (8, 19) if url.startswith("s3") else (0, 8, 13, 16, 19, 24)
    ):  # A request to the bucket takes its time.
        place = f"{url}/{kill_at}"
        source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), place).build()

        def read(place: str = place, source: Any = source) -> list[str]:
            return read_all(source) if paths.exists(place) else []

        Drill(lambda place=place: text_sink(FileSink, place, GOING_ON), read, (kill_at,), gracefully=False).run()
        assert sorted(read()) == RECORDS


def test_parquet_files_of_a_killed_job(tmp_path: Path) -> None:
    def make() -> Any:
        return bulk_sink(tmp_path, PARQUET)

    records = [(record,) for record in RECORDS]
    for kill_at in (0, 9, 13, 15):
        shutil.rmtree(tmp_path)
        drill = Drill(make, lambda: [(text,) for text in parquet(tmp_path)], (kill_at,), records=records)
        drill.run()
        assert sorted(parquet(tmp_path)) == RECORDS


def test_bulk_formats_roll_with_checkpoints_only(tmp_path: Path) -> None:
    builder = FileSink.for_bulk_format(str(tmp_path), Totals())
    assert builder.with_rolling_policy(ON_CHECKPOINT).build()
    with pytest.raises(ValueError, match=r"on_checkpoint_rolling_policy\(\), not a DefaultRollingPolicy"):
        builder.with_rolling_policy(GOING_ON)


def test_a_record_that_a_bulk_writer_refuses_is_named(tmp_path: Path) -> None:
    class Picky(Total):
        def add_element(self, element: Any) -> None:
            if element == "bad":
                raise ValueError("not this one")
            super().add_element(element)

    class Factory(BulkWriterFactory):
        def create(self, stream: Any) -> Picky:
            return Picky(stream)

    with (
        pytest.raises(UserCodeError, match=r"not this one(?s:.*)Record at fault: 'bad'"),
        OneInputOperatorHarness(bulk_sink(tmp_path, Factory())) as harness,
    ):
        harness.process_elements(["good", "bad", "worse"])
    assert files(tmp_path) == []


def test_a_record_that_does_not_fit_the_columns_is_named(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64())])
    with OneInputOperatorHarness(bulk_sink(tmp_path, ParquetBulkWriters.for_arrow_schema(schema))) as harness:
        harness.process_elements([{"id": 1}, {"id": "x"}])
        with pytest.raises(UserCodeError, match=r"\{'id': 'x'\} does not fit the columns of the Parquet file"):
            harness.snapshot(1)
        with pytest.raises(UserCodeError):  # nothing gets lost by trying again
            harness.snapshot(2)


def test_a_local_job_ends_with_a_checkpoint(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    env.from_collection(RECORDS, Types.STRING()).rebalance().sink_to(text_sink(FileSink, tmp_path, GOING_ON))
    LocalJob(env.generate_stream_graph()).run()
    assert sorted(lines(tmp_path)) == RECORDS
