"""What `flint checkpoints` and `flint savepoint -d` find in directories."""

from __future__ import annotations

import enum
import json
import zlib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from flintstream.cli.main import cli
from flintstream.common.pickling import dumps
from flintstream.runtime.checkpoint.lease import JobLease
from flintstream.runtime.checkpoint.metadata import (
    CheckpointMetadata,
    DatabaseHandle,
    OperatorState,
    Piece,
    SubtaskState,
)
from flintstream.runtime.checkpoint.pieces import CheckpointTarget, PieceWriter
from flintstream.runtime.checkpoint.snapshot import OperatorSnapshot, StoredOperatorState
from flintstream.runtime.checkpoint.storage import storage_at
from flintstream.runtime.checkpoint.store import CompletedCheckpoints
from flintstream.runtime.state.backend import StoredKeyedState

JOB = "0123456789abcdef" * 2
OTHER_JOB = "f" * 32


class Colour(enum.Enum):
    """A key of a class of the program."""

    RED = 1


class Exploding:
    """A key whose reading would be noticed."""

    def __reduce__(self):
        return exec, ("raise AssertionError('code of the program was run')",)


@pytest.fixture(autouse=True)
def no_jobs(tmp_path, monkeypatch):
    monkeypatch.setenv("FLINT_JOBS_DIR", str(tmp_path / "jobs"))


def flint(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def group(keys: list, values: bytes) -> bytes:
    return dumps({"entries": {"count": (keys, values, None)}, "removed": {}, "timers": ([], [])})


SNAPSHOT = OperatorSnapshot(
    {"count": StoredKeyedState("value", {}, False)},
    {3: group([Colour.RED, Exploding()], b"x" * 30_000), 7: group([1], b"y" * 12)},
    {"buffer": StoredOperatorState("split", {}, [b"abc", b"de"])},
)


def operators(target: CheckpointTarget) -> dict[str, OperatorState]:
    state = PieceWriter(target, "count", 0).write(SNAPSHOT, None)
    return {
        "a1": OperatorState("Source: numbers", None, 2, 128, {}, source=b"12345"),
        "b2": OperatorState("count", "my-count", 1, 128, {0: state}),
    }


def write_checkpoint(directory: Path, number: int, job_id: str = JOB) -> Path:
    storage = storage_at(str(directory / job_id))
    found = operators(CheckpointTarget(storage, "shared"))
    lease = JobLease(storage)
    attempt = lease.begin_attempt()
    store = CompletedCheckpoints(storage, 1, lease)
    store.add(CheckpointMetadata(number, 1_700_000_000_000, job_id, "my job", operators=found), attempt)
    return directory / job_id / f"chk-{number}"


def write_savepoint(directory: Path) -> Path:
    storage = storage_at(str(directory / "savepoint-012345-1"))
    metadata = CheckpointMetadata(9, 0, JOB, "my job", True, operators(CheckpointTarget(storage)))
    storage.write("_metadata", metadata.to_bytes())
    return directory / "savepoint-012345-1"


def test_a_checkpoint_is_shown_with_operators_and_states(tmp_path):
    location = write_checkpoint(tmp_path, 4)
    lines = flint("checkpoints", location).output.splitlines()
    assert lines[0] == str(location)
    assert lines[1] == f"  checkpoint 4 of job 'my job' ({JOB})"
    assert lines[2].endswith(" kB, 1 files")
    assert [line.split() for line in lines[3:]] == [
        ["OPERATOR", "UID", "PARALLELISM", "STATE", "KIND", "SIZE"],
        ["Source:", "numbers", "-", "2", "of", "128", "5", "B"],
        ["position", "source", "5", "B"],
        ["count", "my-count", "1", "of", "128", lines[6].split()[-2], "kB"],
        ["count", "value", "30.0", "kB"],
        ["buffer", "split", "5", "B"],
    ]


def test_json_says_the_same_and_no_code_of_the_program_is_run(tmp_path):
    location = write_savepoint(tmp_path)
    result = flint("checkpoints", "--json", location / "_metadata")
    assert result.exit_code == 0, result.output
    [report] = json.loads(result.output)
    assert (report["kind"], report["id"], report["status"], report["problems"]) == ("savepoint", 9, "complete", [])
    source, count = report["operators"]
    assert source["states"] == [{"name": "position", "kind": "source", "size": 5}]
    assert count["uid"] == "my-count"
    assert count["states"] == [
        {"name": "count", "kind": "value", "size": 30_012},
        {"name": "buffer", "kind": "split", "size": 5},
    ]


def test_classes_that_are_in_the_state_themselves_leave_its_size_open(tmp_path, monkeypatch):
    class Local:
        pass

    monkeypatch.setitem(SNAPSHOT.groups, 3, group([Local()], b"x"))
    [report] = json.loads(flint("checkpoints", "--json", write_checkpoint(tmp_path, 1)).output)
    assert report["status"] == "complete"
    assert report["operators"][1]["states"][0] == {"name": "count", "kind": "value", "size": None}


def test_all_jobs_and_savepoints_below_a_directory_are_found(tmp_path):
    expected = [write_checkpoint(tmp_path, 9), write_checkpoint(tmp_path, 10), write_checkpoint(tmp_path, 1, OTHER_JOB)]
    expected.append(write_savepoint(tmp_path))
    found = json.loads(flint("checkpoints", "--json", tmp_path).output)
    assert sorted(report["location"] for report in found) == sorted(map(str, expected))
    of_job = json.loads(flint("checkpoints", "--json", tmp_path / JOB).output)
    assert [report["id"] for report in of_job] == [9, 10]
    one = json.loads(flint("checkpoints", "--json", expected[0]).output)
    assert [report["id"] for report in one] == [9]


def state_file(checkpoint: Path) -> Path:
    [path] = (checkpoint.parent / "shared").iterdir()
    return path


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda path: path.unlink(), "a file of the checkpoint, is missing"),
        (lambda path: path.write_bytes(path.read_bytes()[:100]), "was truncated"),
        (
            lambda path: path.write_bytes(path.read_bytes().replace(b"xxx", b"xyx", 1)),
            "was altered: a checksum is wrong",
        ),
    ],
    ids=["missing", "cut off", "altered"],
)
def test_a_damaged_file_is_named_with_the_reason(tmp_path, damage, reason):
    location = write_checkpoint(tmp_path, 4)
    damage(state_file(location))
    result = flint("checkpoints", tmp_path)
    assert result.exit_code == 1
    assert f"{location}, damaged\n" in result.output
    named = [line for line in result.output.splitlines() if reason in line]
    assert named and all(str(location.parent / "shared") in line for line in named)
    [report] = json.loads(flint("checkpoints", "--json", location).output)
    assert report["status"] == "damaged"


def test_files_of_a_database_are_checked_although_their_states_have_no_sizes(tmp_path):
    storage = storage_at(str(tmp_path / "savepoint-1"))
    storage.write("000012.sst", b"rows")
    file = Piece(4, zlib.crc32(b"rows"), None, "000012.sst")
    handle = DatabaseHandle(
        states={"count": StoredKeyedState("value", {}, False)},
        files={"000012.sst": file},
        identities={},
        numbers={"count": 0},
        key_groups=(0, 128),
        timers={},
    )
    found = {"a": OperatorState("count", "c", 1, 128, {0: SubtaskState((handle,))})}
    storage.write("_metadata", CheckpointMetadata(1, 0, JOB, "my job", True, found).to_bytes())
    [report] = json.loads(flint("checkpoints", "--json", tmp_path).output)
    assert (report["status"], report["size"]) == ("complete", 4)
    assert report["operators"][0]["states"] == [{"name": "count", "kind": "value", "size": None}]
    storage.write("000012.sst", b"ROWS")
    [report] = json.loads(flint("checkpoints", "--json", tmp_path).output)
    assert report["problems"] == [f"{tmp_path}/savepoint-1/000012.sst was altered: a checksum is wrong"]


def test_metadata_that_were_cut_off_do_not_hide_the_other_checkpoints(tmp_path):
    whole, broken = write_checkpoint(tmp_path, 1), write_checkpoint(tmp_path, 2)
    metadata = broken / "_metadata"
    metadata.write_bytes(metadata.read_bytes()[:-1])
    result = flint("checkpoints", tmp_path)
    assert result.exit_code == 1
    assert f"{whole}\n" in result.output
    assert f"{broken}: damaged\n  {metadata} was truncated" in result.output


def test_a_checkpoint_without_metadata_is_incomplete_which_is_no_error(tmp_path):
    (write_checkpoint(tmp_path, 1).parent / "chk-2").mkdir()
    result = flint("checkpoints", tmp_path / JOB)
    assert result.exit_code == 0
    assert "chk-2: incomplete\n" in result.output
    assert "chk-2: incomplete\n" in flint("checkpoints", tmp_path / JOB / "chk-2").output


def test_a_place_without_checkpoints_is_an_error(tmp_path):
    result = flint("checkpoints", tmp_path)
    assert result.exit_code == 1
    assert f"{tmp_path} has no checkpoints or savepoints." in result.output
    result = flint("checkpoints", "nowhere")
    assert result.exit_code == 1
    assert "there is no directory 'nowhere', and no running job has an id or a name" in result.output


def test_a_savepoint_is_removed_with_its_directory(tmp_path):
    location = write_savepoint(tmp_path)
    result = flint("savepoint", "-d", location)
    assert result.exit_code == 0, result.output
    assert not location.exists()


def test_files_that_are_not_the_savepoints_own_are_left(tmp_path):
    location = write_savepoint(tmp_path)
    (location / "notes.txt").write_text("mine")
    result = flint("savepoint", "-d", location)
    assert result.exit_code == 0
    assert "it has other files (notes.txt)" in result.output
    assert [path.name for path in location.iterdir()] == ["notes.txt"]


def test_what_is_no_savepoint_is_not_removed(tmp_path):
    location = write_checkpoint(tmp_path, 4)
    for path in (location, location.parent):
        result = flint("savepoint", "-d", path)
        assert result.exit_code == 1
        assert f"is not a savepoint: it is checkpoint 4 of job 'my job' ({JOB})" in result.output
    result = flint("savepoint", "-d", tmp_path)
    assert result.exit_code == 1
    assert f"{tmp_path} is not a checkpoint, a savepoint or a job's checkpoint directory" in result.output
    assert (location / "_metadata").exists()


def test_a_damaged_savepoint_is_not_removed(tmp_path):
    location = write_savepoint(tmp_path)
    (location / "_metadata").write_bytes(b"FLNT")
    result = flint("savepoint", "-d", location)
    assert result.exit_code == 1
    assert "is not the metadata of a checkpoint, or was truncated" in result.output
    assert location.exists()


@pytest.fixture
def job(tmp_path) -> Path:
    path = tmp_path / "job.py"
    path.write_text("import os\nprint(os.environ.get('FLINT_CONF_OVERRIDES'))\n")
    return path


@pytest.mark.parametrize("option", ["-s", "--fromSavepoint"])
def test_run_tells_the_program_what_to_go_on_from(tmp_path, job, monkeypatch, option):
    location = write_savepoint(tmp_path)
    monkeypatch.chdir(tmp_path)
    result = flint("run", option, location.name, "-n", job)
    assert json.loads(result.output) == {
        "execution.state-recovery.path": str(location),
        "execution.state-recovery.ignore-unclaimed-state": "true",
    }


def test_run_refuses_a_path_with_nothing_to_go_on_from(tmp_path, job):
    result = flint("run", "-s", tmp_path / "nowhere", job)
    assert result.exit_code == 1
    assert result.output == (
        f"Error: {tmp_path}/nowhere is not a checkpoint, a savepoint or a job's checkpoint directory\n"
    )


def test_info_refuses_state_that_does_not_fit_and_runs_nothing(tmp_path, job):
    location = write_savepoint(tmp_path)
    job.write_text(
        "from flintstream.datastream import StreamExecutionEnvironment\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "env.from_collection([1]).print()\n"
        "env.execute()\n"
    )
    refused = flint("info", "-s", location, job)
    assert refused.exit_code == 1
    assert f"{location} has state that no operator of the program claims: 'Source: numbers'" in refused.output
    allowed = flint("info", "-s", location, "-n", job)
    assert allowed.exit_code == 0, allowed.output
    assert "Guarantees if something fails:" in allowed.output


# --- signatures ---


@pytest.fixture
def key_file(tmp_path) -> Path:
    path = tmp_path / "keys"
    path.write_text("k" * 64)
    path.chmod(0o600)
    return path


def test_whether_a_checkpoint_is_signed_and_by_whom_is_shown(tmp_path, key_file):
    location = write_savepoint(tmp_path)
    assert flint("checkpoints", location).output.splitlines()[2].endswith(" 1 files")
    unsigned = flint("checkpoints", "-k", key_file, location)
    assert unsigned.exit_code == 1
    assert unsigned.output.startswith(f"{location}, unsigned\n")
    assert f"{location}/_metadata is not signed, but flint.checkpoints.signing-key-file is set" in unsigned.output
    signed = flint("checkpoints", "--sign", "-k", key_file, location)
    assert (signed.exit_code, signed.output) == (0, f"{location} is signed.\n")
    assert flint("checkpoints", location).output.splitlines()[2].endswith("signed (not verified: no key was given)")
    valid = flint("checkpoints", "-k", key_file, location)
    assert valid.exit_code == 0 and valid.output.splitlines()[2].endswith(" 1 files, signed")
    [report] = json.loads(flint("checkpoints", "--json", "-k", key_file, location).output)
    assert (report["signature"], report["status"]) == ("valid", "complete")
    key_file.write_text("another key, which is long enough for that")
    invalid = flint("checkpoints", "-k", key_file, location)
    assert invalid.exit_code == 1
    assert "signature invalid" in invalid.output and "was signed with a key that is not in" in invalid.output


def test_the_keys_of_the_configuration_file_count_too(tmp_path, key_file, monkeypatch):
    location = write_checkpoint(tmp_path, 4)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "flint.yaml").write_text(f"flint.checkpoints.signing-key-file: {key_file}")
    monkeypatch.setenv("FLINT_CONF_DIR", str(tmp_path / "conf"))
    assert "is not signed" in flint("checkpoints", location).output
    assert flint("checkpoints", "--sign", location).exit_code == 0
    assert flint("checkpoints", tmp_path / JOB).exit_code == 0


def test_a_file_that_was_replaced_behind_a_signature_is_named(tmp_path, key_file):
    location = write_checkpoint(tmp_path, 4)
    assert flint("checkpoints", "--sign", "-k", key_file, location).exit_code == 0
    path = state_file(location)
    path.write_bytes(path.read_bytes().replace(b"xxx", b"xyx", 1))
    result = flint("checkpoints", "-k", key_file, location)
    assert result.exit_code == 1
    assert f"{path} was altered" in result.output


def test_of_a_job_the_last_checkpoint_is_signed_and_named(tmp_path, key_file):
    first, last = write_checkpoint(tmp_path, 1), write_checkpoint(tmp_path, 2)
    assert flint("checkpoints", "--sign", "-k", key_file, last.parent).output == f"{last} is signed.\n"
    assert flint("checkpoints", "-k", key_file, last).exit_code == 0
    assert flint("checkpoints", "-k", key_file, first).exit_code == 1


def test_what_is_damaged_is_not_signed(tmp_path, key_file):
    location = write_checkpoint(tmp_path, 4)
    path = state_file(location)
    path.write_bytes(path.read_bytes().replace(b"xxx", b"xyx", 1))
    result = flint("checkpoints", "--sign", "-k", key_file, location)
    assert result.exit_code == 1
    assert "was altered: a checksum is wrong" in result.output
    assert flint("checkpoints", "--sign", location).exit_code == 2, "without a key"
