"""Metadata of checkpoints: what was written is read, and nothing else is taken for it."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.common import Types
from flintstream.runtime.checkpoint import metadata as module
from flintstream.runtime.checkpoint.metadata import (
    CheckpointMetadata,
    CorruptCheckpointError,
    DatabaseHandle,
    KeyedHandle,
    OperatorState,
    Piece,
    SubtaskState,
)
from flintstream.runtime.checkpoint.storage import LocalStorage
from flintstream.runtime.checkpoint.store import read_checkpoint, readable_checkpoints
from flintstream.runtime.state.backend import StoredKeyedState

TYPES = [
    Types.LONG(),
    Types.PICKLED_BYTE_ARRAY(),
    Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.LIST(Types.DOUBLE())]),
    Types.MAP(Types.STRING(), Types.TUPLE([Types.INT(), Types.SQL_TIMESTAMP()])),
    Types.OBJECT_ARRAY(Types.BIG_DEC()),
]


def stored(type_info: Any) -> StoredKeyedState:
    return StoredKeyedState("value", type_info.create_serializer().snapshot_configuration().to_data(), False)


def example(path: str = "shared/one", checkpoint_id: int = 7, savepoint: bool = False) -> CheckpointMetadata:
    inline = Piece(3, 99, b"abc")
    in_file = Piece(10, 1, None, path, 5)
    states = {f"state {number}": stored(type_info) for number, type_info in enumerate(TYPES)}
    subtask = SubtaskState((KeyedHandle(states, {4: inline, 5: in_file}), KeyedHandle(states, {}, True)), inline)
    database = DatabaseHandle(
        states=states,
        files={"000012.sst": in_file},
        identities={"000012.sst": "d-000012.sst"},
        numbers={name: number for number, name in enumerate(states)},
        key_groups=(0, 64),
        timers={3: inline},
    )
    return CheckpointMetadata(
        checkpoint_id,
        1_700_000_000_000,
        "a" * 32,
        "my job",
        savepoint,
        {
            "b" * 32: OperatorState("Count", "count", 2, 128, {0: subtask, 1: SubtaskState((database,))}),
            "c" * 32: OperatorState("Source", None, 1, 128, {}, b"position"),
        },
    )


CONTENT = example().to_bytes()


def test_metadata_are_read_as_they_were_written():
    assert CheckpointMetadata.from_bytes(CONTENT, "there") == example()


def test_metadata_with_former_names_of_classes_are_read(monkeypatch):
    former = {"KeyedPart": KeyedHandle, "DatabasePart": DatabaseHandle}
    present = {kind: kind.__qualname__ for kind in former.values()}
    try:
        for name, kind in former.items():
            monkeypatch.setattr(module, name, kind, raising=False)
            kind.__qualname__ = name
        data = example().to_bytes()
    finally:
        for kind, name in present.items():
            kind.__qualname__ = name
    assert b"KeyedPart" in data and b"DatabasePart" in data
    assert CheckpointMetadata.from_bytes(data, "there") == example()


def test_sizes_and_files_are_those_of_all_pieces():
    metadata = example()
    assert metadata.size == (3 + 10 + 3) + (10 + 3)
    assert metadata.files() == {"shared/one"}
    assert not metadata.operators["c" * 32].empty
    assert OperatorState("Map", None, 1, 128, {0: SubtaskState()}).empty


def test_a_file_cut_off_at_any_byte_is_refused_by_name():
    for size in range(len(CONTENT)):
        with pytest.raises(CorruptCheckpointError, match=r"^/data/_metadata"):
            CheckpointMetadata.from_bytes(CONTENT[:size], "/data/_metadata")


@given(st.integers(0, len(CONTENT) - 1), st.integers(1, 255))
def test_a_file_altered_at_any_byte_is_refused_by_name(place, change):
    altered = bytearray(CONTENT)
    altered[place] ^= change
    with pytest.raises(CorruptCheckpointError, match=r"^/data/_metadata"):
        CheckpointMetadata.from_bytes(bytes(altered), "/data/_metadata")


@given(st.binary(max_size=200))
def test_any_other_file_is_refused_by_name(data):
    with pytest.raises(CorruptCheckpointError, match=r"^/data/_metadata"):
        CheckpointMetadata.from_bytes(data, "/data/_metadata")


def test_a_file_with_more_behind_it_is_refused():
    with pytest.raises(CorruptCheckpointError, match=r"truncated or extended"):
        CheckpointMetadata.from_bytes(CONTENT + b"\0", "/data/_metadata")


def test_another_version_of_the_format_is_named():
    header = module._HEADER
    fields = header.unpack_from(CONTENT)
    newer = header.pack(fields[0], 4, *fields[2:]) + CONTENT[header.size :]
    with pytest.raises(
        CorruptCheckpointError, match=r"/data/_metadata has format 4; this version reads formats 1 to 3"
    ):
        CheckpointMetadata.from_bytes(newer, "/data/_metadata")


def _file_with(module_name: str, name: str) -> bytes:
    """A well-formed file whose content calls something by its name."""

    def short(text: str) -> bytes:
        return b"\x8c" + bytes([len(text)]) + text.encode()

    content = b"\x80\x05" + short(module_name) + short(name) + b"\x93" + short("touch ran") + b"\x85R."
    return module._HEADER.pack(module._MARK, 1, len(content), hashlib.sha256(content).digest()) + content


@pytest.mark.parametrize(
    ("module_name", "name"),
    [
        ("os", "system"),
        ("builtins", "eval"),
        ("flintstream.runtime.checkpoint.snapshot", "pickle.loads"),
        ("flintstream.runtime.checkpoint.snapshot", "restore_snapshots"),
        ("flintstream.runtime.checkpoint.metadata", "pickle.loads"),
        ("flintstream.common.pickling", "dumps"),
    ],
)
def test_nothing_but_the_classes_of_metadata_is_read(tmp_path, monkeypatch, module_name, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CorruptCheckpointError, match=rf"refer to {module_name}\.{name}, which is not allowed there"):
        CheckpointMetadata.from_bytes(_file_with(module_name, name), "there")
    assert os.listdir(tmp_path) == []


# --- by their place ---


def write(directory: Path, metadata: CheckpointMetadata) -> Path:
    """A checkpoint of a job's directory, with its file."""
    storage = LocalStorage(str(directory))
    for path in metadata.files():
        storage.write(path, b"0123456789abcde")
    storage.write(f"chk-{metadata.checkpoint_id}/_metadata", metadata.to_bytes())
    return directory / f"chk-{metadata.checkpoint_id}"


@pytest.mark.parametrize("form", ["{}", "{}/", "{}/_metadata", "file://{}", "file://{}/_metadata"])
def test_a_checkpoint_is_read_by_its_directory_or_its_metadata(tmp_path, form):
    metadata, storage = read_checkpoint(form.format(write(tmp_path, example())))
    assert metadata == example()
    assert storage.root == str(tmp_path)
    assert storage.exists("shared/one")


def test_a_checkpoint_is_read_by_a_relative_path(tmp_path, monkeypatch):
    write(tmp_path, example())
    monkeypatch.chdir(tmp_path)
    assert read_checkpoint("chk-7")[1].root == str(tmp_path)


def test_a_checkpoint_behind_a_url_is_read():
    from flintstream.runtime.checkpoint.storage import storage_at

    storage = storage_at("memory://by-url/job")
    storage.write("shared/one", b"0123456789abcde")
    storage.write("chk-7/_metadata", example().to_bytes())
    for location in ("memory://by-url/job", "memory://by-url/job/chk-7", "memory://by-url/job/chk-7/_metadata"):
        metadata, found = read_checkpoint(location)
        assert metadata == example()
        assert found.exists("shared/one")


def test_the_directory_of_a_job_stands_for_its_latest_checkpoint(tmp_path):
    for number in (2, 10, 9):
        write(tmp_path, example(checkpoint_id=number))
    (tmp_path / "chk-11").mkdir()
    assert read_checkpoint(str(tmp_path))[0].checkpoint_id == 10


def cut_off(directory: Path) -> str:
    (directory / "_metadata").write_bytes((directory / "_metadata").read_bytes()[:-1])
    return "chk-3/_metadata was truncated"


def alter(directory: Path) -> str:
    content = bytearray((directory / "_metadata").read_bytes())
    content[-1] ^= 1
    (directory / "_metadata").write_bytes(content)
    return "chk-3/_metadata was altered"


def lose_a_file(directory: Path) -> str:
    (directory.parent / "shared" / "three").unlink()
    return "shared/three, a file of checkpoint 3, is missing"


def cut_a_file_off(directory: Path) -> str:
    os.truncate(directory.parent / "shared" / "three", 14)
    return "shared/three, a file of checkpoint 3, was truncated: it has 14 of 15 bytes"


def add_to_a_file(directory: Path) -> str:
    with (directory.parent / "shared" / "three").open("ab") as file:
        file.write(b"!")
    return "shared/three, a file of checkpoint 3, was altered: it has 16 bytes instead of 15"


HARMS = [cut_off, alter, lose_a_file, cut_a_file_off, add_to_a_file]


@pytest.mark.parametrize("harm", HARMS)
def test_an_older_checkpoint_is_never_used_in_place_of_the_last_one(tmp_path, harm):
    write(tmp_path, example("shared/two", 2))
    reason = harm(write(tmp_path, example("shared/three", 3)))
    told = f"(?s){tmp_path}/chk-3, the last checkpoint.*{re.escape(reason)}.*{tmp_path}/chk-2 is intact, but older"
    with pytest.raises(CorruptCheckpointError, match=told):
        read_checkpoint(str(tmp_path))
    assert read_checkpoint(str(tmp_path / "chk-2"))[0].checkpoint_id == 2


@pytest.mark.parametrize("harm", HARMS)
def test_a_checkpoint_that_is_not_whole_is_refused_where_it_was_asked_for(tmp_path, harm):
    write(tmp_path, example("shared/two", 2))
    directory = write(tmp_path, example("shared/three", 3))
    reason = harm(directory)
    with pytest.raises(CorruptCheckpointError, match=reason):
        read_checkpoint(str(directory))


def test_a_job_without_a_whole_checkpoint_is_refused_with_every_reason(tmp_path):
    reason = cut_off(write(tmp_path, example(checkpoint_id=3)))
    with pytest.raises(CorruptCheckpointError, match=rf"(?s){reason}.*There is no older one"):
        read_checkpoint(str(tmp_path))
    assert readable_checkpoints(LocalStorage(str(tmp_path)))[0] == []


def test_a_place_with_nothing_is_refused(tmp_path):
    for place in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(FileNotFoundError, match=rf"{place} is not a checkpoint, a savepoint or a job's"):
            read_checkpoint(str(place))


def test_a_savepoint_can_be_moved(tmp_path):
    savepoint = replace(example("one"), savepoint=True)
    storage = LocalStorage(str(tmp_path / "savepoint-abc"))
    storage.write("one", b"0123456789abcde")
    storage.write("_metadata", savepoint.to_bytes())
    shutil.move(tmp_path / "savepoint-abc", tmp_path / "elsewhere")
    metadata, found = read_checkpoint(str(tmp_path / "elsewhere"))
    assert metadata == savepoint
    assert found.read("one", 5, 10) == b"56789abcde"
