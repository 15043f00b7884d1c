"""HDFS, over WebHDFS: checkpoints, savepoints and files of a cluster."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flintstream.connectors.files import paths
from flintstream.runtime.checkpoint.storage import StorageError, storage_at

from .hdfs import HdfsServer
from .remote_files import check_each_record_once

pytestmark = pytest.mark.timeout(900)  # The server may have to be downloaded first.


def test_a_storage_of_checkpoints(hdfs: HdfsServer, tmp_path: Path) -> None:
    storage = storage_at(hdfs.new_directory())
    assert (storage.names(), storage.sizes("x"), storage.exists("x")) == ([], {}, False)
    storage.write("a/one", b"0123456789")
    storage.write("a/one", b"9876543210")
    storage.write("a/empty", b"")
    (tmp_path / "local").write_bytes(b"x" * 3_000_000)
    (tmp_path / "nothing").touch()
    storage.upload("a/b c", str(tmp_path / "local"))
    storage.upload("a/nothing", str(tmp_path / "nothing"))
    assert storage.names("a") == ["b c", "empty", "nothing", "one"]
    assert storage.sizes("a") == {"b c": 3_000_000, "empty": 0, "nothing": 0, "one": 10}
    assert storage.names() == ["a"] and storage.exists("a") and storage.exists("a/one")
    assert (storage.read("a/one"), storage.read("a/one", 2, 3)) == (b"9876543210", b"765")
    assert (storage.read("a/one", 8), storage.read("a/one", 20, 5), storage.read("a/empty")) == (b"10", b"", b"")
    storage.download("a/b c", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == b"x" * 3_000_000
    with pytest.raises(FileNotFoundError):
        storage.read("a/none")
    storage.remove_files(["a/one", "a/empty"])
    storage.remove("a/none")
    storage.remove_if_empty("a")
    assert storage.at("a").names() == ["b c", "nothing"]
    storage.remove("a")
    storage.remove_if_empty("")
    assert not storage.exists("")


def test_of_several_writers_one_creates_a_file(hdfs: HdfsServer) -> None:
    storage = storage_at(hdfs.new_directory())
    with ThreadPoolExecutor(8) as pool:
        created = list(pool.map(lambda n: storage.at("").create("lease", str(n).encode()), range(8)))
    assert created.count(True) == 1
    assert storage.read("lease") == str(created.index(True)).encode()
    assert storage.names() == ["lease"]
    assert not storage.create("lease", b"again")


def test_a_file_is_not_taken_for_missing_when_nobody_answers(hdfs: HdfsServer) -> None:
    away = storage_at("webhdfs://127.0.0.1:1/tests")
    with pytest.raises(OSError, match="refused"):
        away.exists("x")
    with pytest.raises(StorageError, match=r"webhdfs://127.0.0.1:1/tests/x"):
        away.write("x", b"")


def test_files_are_opened_and_renamed(hdfs: HdfsServer) -> None:
    directory = hdfs.new_directory()
    with paths.open_for_writing(f"{directory}/a") as file:
        file.write(b"to be ")
        file.write(b"x" * 6_000_000)  # more than a chunk
    with paths.open_for_writing(f"{directory}/new", exclusive=True) as file:
        file.write(b"or not")
    with pytest.raises(FileExistsError):
        paths.open_for_writing(f"{directory}/new", exclusive=True)
    with pytest.raises(FileExistsError):
        paths.rename(f"{directory}/a", f"{directory}/new")
    with pytest.raises(FileNotFoundError):
        paths.rename(f"{directory}/none", f"{directory}/other")
    paths.rename(f"{directory}/a", f"{directory}/b")
    found = paths.find_files(directory)
    assert [(file.path, file.size) for file in found] == [(f"{directory}/b", 6_000_006), (f"{directory}/new", 6)]
    with paths.open_for_reading(f"{directory}/b") as file:
        assert file.read(6) == b"to be "
        assert file.read() == b"x" * 6_000_000


@pytest.mark.usefixtures("spark")
def test_a_job_that_fails_and_is_stopped_with_a_savepoint_writes_each_record_once(
    hdfs: HdfsServer, tmp_path: Path
) -> None:
    check_each_record_once(hdfs.new_directory(), tmp_path / "failed")
