"""Directories that do not outlive their process for longer than the next start."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flintstream.common import owned_directories
from flintstream.common.owned_directories import OWNER, owned_directory, remove_abandoned, remove_all_owned
from flintstream.common.processes import start_time

MAKE = """
import sys
from flintstream.common.owned_directories import owned_directory
print(owned_directory(place=sys.argv[1]), flush=True)
"""
WAIT = "sys.stdin.read()"
FORK = """
import os
if os.fork() == 0:
    sys.stdin.read()
    os._exit(0)
os._exit(0)
"""


class Owner:
    """A process with a directory."""

    def __init__(self, place: Path, then: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", MAKE + then, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.path = Path(self.process.stdout.readline().strip())

    def kill(self) -> None:
        self.process.kill()
        self.end()

    def end(self) -> None:
        self.process.communicate(timeout=60)


@pytest.fixture
def owner(tmp_path):
    made = []

    def start(then: str = WAIT) -> Owner:
        made.append(Owner(tmp_path, then))
        return made[-1]

    yield start
    for each in made:
        each.kill()


@pytest.fixture(autouse=True)
def nothing_held(monkeypatch):
    monkeypatch.setattr(owned_directories, "_held", {})
    yield
    remove_all_owned()


def test_what_a_killed_process_has_left_goes_with_the_next_start(owner, tmp_path):
    killed, alive = owner(), owner()
    (killed.path / "blocks" / "1").mkdir(parents=True)
    killed.kill()
    assert killed.path.is_dir()
    own = owned_directory(place=str(tmp_path))
    assert set(tmp_path.iterdir()) == {alive.path, own}


def test_a_directory_goes_with_its_process(owner, tmp_path):
    process = owner()
    process.end()
    assert process.process.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_a_directory_is_kept_while_a_forked_child_of_its_owner_lives(owner, tmp_path):
    parent = owner(FORK)
    parent.process.wait(60)
    remove_abandoned(str(tmp_path))
    assert parent.path.is_dir()
    parent.end()  # The child reads to the end of its input.
    deadline = time.monotonic() + 60
    while parent.path.is_dir() and time.monotonic() < deadline:
        remove_abandoned(str(tmp_path))
    assert not parent.path.exists()


def test_a_process_may_remove_its_own_at_once(tmp_path):
    own = owned_directory(place=str(tmp_path))
    (own / "more").mkdir()
    remove_all_owned()
    assert not own.exists()


def abandoned(tmp_path: Path, content: str, name: str = "flint-abandoned") -> Path:
    path = tmp_path / name
    path.mkdir()
    (path / OWNER).write_text(content)
    return path


DEAD = json.dumps({"pid": 2**22 + 1, "started": 1, "host": os.uname().nodename})


def test_an_owner_that_is_known_to_be_dead_is_enough(tmp_path):
    path = abandoned(tmp_path, DEAD)
    remove_abandoned(str(tmp_path))
    assert not path.exists()


@pytest.mark.parametrize(
    "content",
    [
        json.dumps({"pid": os.getpid(), "started": start_time(os.getpid()), "host": os.uname().nodename}),
        json.dumps({"pid": 2**22 + 1, "started": 1, "host": "another.machine"}),
        "",
        "{}",
    ],
    ids=["alive without a lock", "of another machine", "just being made", "unknown"],
)
def test_what_may_be_alive_is_left_alone(tmp_path, content):
    path = abandoned(tmp_path, content)
    remove_abandoned(str(tmp_path))
    assert path.is_dir()


def test_one_whose_process_was_killed_while_it_was_made_goes_in_the_end(tmp_path):
    path = abandoned(tmp_path, "")
    os.utime(path / OWNER, (0, 0))
    remove_abandoned(str(tmp_path))
    assert not path.exists()


def test_what_is_not_ours_is_left_alone(tmp_path, monkeypatch):
    without_owner = tmp_path / "flint-jobs-1000"
    without_owner.mkdir()
    other_name = abandoned(tmp_path, DEAD, "spark-1")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    target = abandoned(elsewhere, DEAD)
    link = tmp_path / "flint-link"
    link.symlink_to(target)
    remove_abandoned(str(tmp_path))
    of_another = abandoned(tmp_path, DEAD)
    monkeypatch.setattr(os, "getuid", lambda: 1)
    remove_abandoned(str(tmp_path))
    for path in (without_owner, other_name, target, link, of_another):
        assert path.exists()


def test_a_forked_child_removes_nothing(tmp_path):
    own = owned_directory(place=str(tmp_path))
    child = os.fork()
    if child == 0:
        owned_directories._remove_at_exit(own, os.getppid())
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert own.is_dir()
