"""Every storage keeps the same promises: local directories, URLs in memory, and S3 behind a server of its own."""

from __future__ import annotations

import errno
import os
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any
from uuid import uuid4

import pytest

from flintstream.runtime.checkpoint.databases import SharedFiles
from flintstream.runtime.checkpoint.lease import JobLease
from flintstream.runtime.checkpoint.metadata import CorruptCheckpointError
from flintstream.runtime.checkpoint.pieces import CheckpointTarget, PieceWriter, read_piece
from flintstream.runtime.checkpoint.snapshot import OperatorSnapshot
from flintstream.runtime.checkpoint.storage import LocalStorage, Storage, StorageError, UrlStorage, storage_at

from ...s3_server import s3_server


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with s3_server() as url:
        yield url


@pytest.fixture(params=["directory", "file URL", "memory", "s3"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """An empty storage of each kind."""
    if request.param == "directory":
        return storage_at(str(tmp_path / "checkpoints"))
    if request.param == "file URL":
        return storage_at(f"file://{tmp_path}/check%20points")
    root = "memory:/" if request.param == "memory" else request.getfixturevalue("s3")
    return storage_at(f"{root}/{uuid4().hex}")


def test_what_is_written_can_be_read_as_a_whole_and_in_ranges(storage):
    storage.write("shared/file", b"0123456789")
    assert storage.read("shared/file") == b"0123456789"
    assert storage.read("shared/file", 3, 4) == b"3456"
    assert storage.read("shared/file", 0, 2) == b"01"
    assert storage.read("shared/file", 7) == b"789"
    assert storage.read("shared/file", 4, 0) == b""
    assert storage.read("shared/file", 8, 100) == b"89"
    assert storage.read("shared/file", 10, 5) == b""


def test_an_empty_file_can_be_read(storage):
    storage.write("empty", b"")
    assert storage.read("empty") == b""
    assert storage.exists("empty")


def test_writing_again_replaces_a_file(storage):
    storage.write("file", b"a long first content")
    storage.write("file", b"second")
    assert storage.read("file") == b"second"


def test_a_missing_file_is_told_as_such(storage):
    storage.write("another", b"1")
    for arguments in (("nothing",), ("nothing", 2, 3), ("no/thing",)):
        with pytest.raises(FileNotFoundError):
            storage.read(*arguments)
    assert not storage.exists("nothing")
    assert not storage.exists("no/thing")


def test_a_file_is_created_only_once(storage):
    assert storage.create("deep/attempt-1", b"first")
    assert not storage.create("deep/attempt-1", b"second")
    assert storage.read("deep/attempt-1") == b"first"


def test_of_many_who_create_a_file_at_once_one_succeeds(tmp_path):
    storage = LocalStorage(str(tmp_path))
    barrier = Barrier(4)

    def create(number: int) -> bool:
        copy = pickle.loads(pickle.dumps(storage))
        barrier.wait()
        return copy.create("attempt-1", b"%d" % number)

    with ThreadPoolExecutor(4) as pool:
        created = list(pool.map(create, range(4)))
    assert sum(created) == 1
    assert storage.read("attempt-1") == b"%d" % created.index(True)


def test_a_creator_that_saw_no_file_is_refused_by_the_store_itself(storage, monkeypatch):
    """Between a look and a write another driver may have come."""
    storage.create("attempt-1", b"first")
    looks = iter([False, True])
    monkeypatch.setattr(storage, "exists", lambda path: next(looks))
    assert not storage.create("attempt-1", b"second")
    assert storage.read("attempt-1") == b"first"


def test_names_are_those_of_files_and_directories_in_order(storage):
    assert storage.names() == []
    storage.write("chk-2/_metadata", b"2")
    storage.write("chk-10/_metadata", b"10")
    storage.write("attempt-1", b"")
    assert storage.names() == ["attempt-1", "chk-10", "chk-2"]
    assert storage.names("chk-2") == ["_metadata"]
    assert storage.names("chk-3") == []


def test_removing_takes_a_file_or_a_directory_and_nothing_else(storage):
    for path in ("chk-1/a", "chk-1/deep/b", "chk-10/a", "file", "file2"):
        storage.write(path, b"x")
    storage.remove("chk-1")
    storage.remove("file")
    storage.remove("was never there")
    assert storage.names() == ["chk-10", "file2"]
    assert not storage.exists("chk-1")
    assert not storage.exists("chk-1/a")
    storage.remove("")
    assert storage.names() == []
    assert not storage.exists("chk-10/a")


def test_a_storage_below_another_sees_its_files(storage):
    below = storage.at("job").at("deeper")
    below.write("file", b"content")
    assert storage.read("job/deeper/file") == b"content"
    assert below.locate("file") == storage.locate("job/deeper/file")
    below.remove("")
    assert not storage.exists("job/deeper")


def test_local_files_are_copied_in_and_out(storage, tmp_path):
    source, target = tmp_path / "000012.sst", tmp_path / "copy"
    source.write_bytes(b"x" * 3_000_000)
    storage.upload("shared/one", str(source))
    assert storage.read("shared/one") == source.read_bytes()
    storage.download("shared/one", str(target))
    assert target.read_bytes() == source.read_bytes()


def test_a_storage_travels_to_slots(storage):
    storage.write("file", b"content")
    assert pickle.loads(pickle.dumps(storage)).read("file") == b"content"


def test_a_location_stands_for_the_same_storage_again(storage):
    storage.write("file", b"content")
    assert storage_at(storage.root).read("file") == b"content"


def test_a_lease_has_one_owner_in_every_storage(storage):
    first, second = JobLease(storage), JobLease(storage)
    assert not first.holds
    first.begin_attempt()
    assert first.holds
    second.begin_attempt()
    assert second.holds
    assert not first.holds
    assert storage.names("lease") == ["00000001", "00000002"]


def test_the_sizes_of_files_are_told(storage):
    storage.write("shared/one", b"123")
    storage.write("shared/two", b"")
    storage.write("shared/below/three", b"1")
    assert storage.sizes("shared") == {"one": 3, "two": 0}
    assert storage.sizes("nowhere") == {}


def test_pieces_are_read_back_and_what_is_missing_of_them_is_told(storage):
    groups = {3: b"three", 7: b"seven!"}
    writer = PieceWriter(CheckpointTarget(storage, "chk-1", "shared", inline_size=0), "Count", 0)
    (part,) = writer.write(OperatorSnapshot(groups=groups), SharedFiles()).keyed
    assert {group: read_piece(piece, storage) for group, piece in part.groups.items()} == groups
    (path,) = writer.files
    for size in (10, 5, 0):
        storage.write(path, b"threeseven!"[:size])
        with pytest.raises(
            CorruptCheckpointError, match=rf"{path} was truncated: it has {max(0, size - 5)} of 6 bytes"
        ):
            read_piece(part.groups[7], storage)


# --- what cannot be written ---


@pytest.mark.parametrize("writing", ["write", "upload", "create"])
def test_a_full_disk_is_told_with_the_path_and_leaves_nothing_behind(tmp_path, monkeypatch, writing):
    storage = LocalStorage(str(tmp_path / "checkpoints"))
    local = tmp_path / "local"
    local.write_bytes(b"content")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    arguments = {"write": b"content", "upload": str(local), "create": b"content"}
    with pytest.raises(StorageError, match=r"checkpoints/chk-1/file cannot be written: .*No space left"):
        getattr(storage, writing)("chk-1/file", arguments[writing])
    assert storage.names("chk-1") == []


@pytest.mark.parametrize("writing", ["write", "upload"])
def test_a_failed_write_leaves_the_file_that_was_there(tmp_path, monkeypatch, writing):
    storage = LocalStorage(str(tmp_path / "checkpoints"))
    storage.write("file", b"before")
    (tmp_path / "local").write_bytes(b"after")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StorageError):
            getattr(storage, writing)("file", str(tmp_path / "local") if writing == "upload" else b"after")
    assert storage.names() == ["file"]
    assert storage.read("file") == b"before"


@pytest.mark.parametrize("make", ["directory", "memory"])
@pytest.mark.parametrize("writing", ["write", "create"])
def test_a_file_in_place_of_the_directory_is_told_with_the_path(tmp_path, make, writing):
    root = str(tmp_path) if make == "directory" else f"memory://{uuid4().hex}"
    storage_at(root).write("checkpoints", b"a file")
    with pytest.raises(StorageError, match=r"checkpoints/chk-1/file cannot be written"):
        getattr(storage_at(root).at("checkpoints"), writing)("chk-1/file", b"content")


def test_a_directory_without_permission_is_told_with_the_path(tmp_path, monkeypatch):
    """Permission to whoever runs the tests may be unlimited, so the system's answer is played."""

    def refuse(path: str, *_: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(StorageError, match=r"data/chk-1/_metadata cannot be written: .*Permission denied"):
        LocalStorage(str(tmp_path / "data")).write("chk-1/_metadata", b"content")


def test_a_bucket_that_does_not_exist_is_told_and_not_made(s3):
    import fsspec

    storage = storage_at("s3://mistyped/checkpoints")
    for writing in ("write", "create"):
        with pytest.raises(
            StorageError, match=r"s3://mistyped/checkpoints/file cannot be written: .*bucket does not exist"
        ):
            getattr(storage, writing)("file", b"content")
    assert not fsspec.filesystem("s3").exists("mistyped")


def test_what_others_write_to_a_bucket_is_seen(s3):
    import boto3

    storage = storage_at(f"{s3}/seen")
    storage.write("a", b"1")
    assert storage.names() == ["a"]
    assert not storage.exists("b")
    boto3.client("s3").put_object(Bucket=s3.removeprefix("s3://"), Key="seen/b", Body=b"2")
    assert storage.exists("b")
    assert storage.names() == ["a", "b"]


def test_a_url_without_a_library_is_refused_with_the_reason():
    with pytest.raises(StorageError, match=r"'nosuch://place' cannot be used: .*nosuch"):
        storage_at("nosuch://place").read("file")


def test_a_file_url_with_a_host_is_refused():
    with pytest.raises(
        StorageError, match=r"'file://data/checkpoints' is on the host 'data': .*file:///data/checkpoints"
    ):
        storage_at("file://data/checkpoints")


def test_a_location_names_its_kind_of_storage(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert storage_at("relative").root == str(tmp_path / "relative")
    assert storage_at("file:///data/check%20points").root == "/data/check points"
    assert storage_at("file:/data").root == "/data"
    assert isinstance(storage_at("s3://bucket/x"), UrlStorage)
