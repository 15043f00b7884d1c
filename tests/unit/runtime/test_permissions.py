"""Who may read what a job writes: nobody else, unless it is said so."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from flintstream.runtime.checkpoint.settings import CheckpointSettings
from flintstream.runtime.checkpoint.storage import storage_at
from flintstream.runtime.permissions import Permissions
from flintstream.runtime.state.rocksdb.options import RocksDBOptions
from flintstream.runtime.state.rocksdb.store import Store, slot_memory


@pytest.fixture(params=[0o022, 0o077, 0o000])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def modes_below(path: Path) -> tuple[set[int], set[int]]:
    """The modes of all files, and of all directories."""
    found = list(path.rglob("*"))
    return {mode(each) for each in found if each.is_file()}, {mode(each) for each in found if each.is_dir()}


@pytest.mark.parametrize(
    ("setting", "files", "directories"),
    [(None, 0o600, 0o700), ("owner", 0o600, 0o700), ("group", 0o640, 0o750)],
)
def test_checkpoints_have_the_modes_that_are_set(tmp_path, umask, setting, files, directories):
    configuration = {} if setting is None else {"flint.checkpoints.permissions": setting}
    permissions = CheckpointSettings.of(configuration).permissions
    (tmp_path / "local").write_bytes(b"1")
    storage = storage_at(str(tmp_path / "data" / "checkpoints"), permissions).at("job")
    storage.write("chk-1/_metadata", b"1")
    storage.create("attempt-1", b"")
    storage.upload("shared/deep/file", str(tmp_path / "local"))
    assert modes_below(tmp_path / "data") == ({files}, {directories})


def test_the_umask_decides_if_that_is_set(tmp_path, umask):
    storage_at(f"file://{tmp_path}/data", Permissions.UMASK).write("file", b"1")
    assert modes_below(tmp_path) == ({0o666 & ~umask}, {0o777 & ~umask})


def test_a_directory_that_is_there_keeps_its_mode_and_passes_its_group_on(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o2775)
    storage_at(str(shared), Permissions.GROUP).write("job/file", b"1")
    assert mode(shared) == 0o2775
    assert mode(shared / "job") == 0o2750


def test_of_two_who_make_a_directory_both_have_it(tmp_path, monkeypatch):
    def other_was_faster(path: str, mode: int) -> None:
        made(path, mode)
        raise FileExistsError(path)

    made = os.mkdir
    monkeypatch.setattr(os, "mkdir", other_was_faster)
    Permissions.OWNER.make_directory(str(tmp_path / "a" / "b"))
    assert (tmp_path / "a" / "b").is_dir()


def test_unknown_permissions_are_refused_with_those_there_are():
    with pytest.raises(
        ValueError, match=r"'flint\.checkpoints\.permissions' must be one of owner, group, umask, got '0644'"
    ):
        CheckpointSettings.of({"flint.checkpoints.permissions": "0644"})


def test_nobody_else_enters_the_directories_of_rocksdb(tmp_path, umask, monkeypatch):
    """Also where its files lie in a directory of the user's choice, which others may enter."""
    options = RocksDBOptions()
    place = tmp_path / "place"
    place.mkdir()
    place.chmod(0o755)
    store = Store(str(place / "state"), options, slot_memory(options))
    store.write({b"key": b"value"})
    store.link_to(str(place / "state-1"))
    assert {mode(place / name) for name in ("state", "state-1")} == {0o700}
    assert not [each for each in (place / "state-1").iterdir() if each.is_dir()]
    copy = Store(str(place / "state-1"), options, slot_memory(options), read_only=True)
    assert copy.get([b"key"]) == [b"value"]
    copy.close()
    store.destroy()
