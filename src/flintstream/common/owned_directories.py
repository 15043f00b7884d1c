"""Temporary directories with an owner: a process that holds a lock in them for as long as it lives.

They are removed when their process exits. What a killed one has left is removed by the next process of the same user that
makes one in the same place: the lock of a dead process is free, whatever has become of its number.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import shutil
import socket
import tempfile
import time
from pathlib import Path
from typing import IO, Any

from flintstream.common.processes import start_time

PREFIX = "flint-"
OWNER = "owner"
LONGEST_SOCKET_PATH = 103
"""A Unix socket's path holds 108 bytes on Linux and 104 on macOS, with the zero behind it."""
_UNFINISHED_SECONDS = 3600.0
"""An owner's file without content this old is that of a process that was killed while it made its directory."""
_REMOVAL_SECONDS = 5.0

_held: dict[Path, IO[str]] = {}


def owned_directory(prefix: str = PREFIX, place: str | None = None) -> Path:
    """Makes a private directory that belongs to this process; `prefix` begins with PREFIX.

    First, those of dead processes in the same place, the temporary directory unless given, are removed.
    """
    place = tempfile.gettempdir() if place is None else place
    remove_abandoned(place)
    path = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
    file = (path / OWNER).open("x", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
    except OSError:
        pass  # A file system without locks: nobody can lock it, so nobody takes it for abandoned.
    json.dump({"pid": os.getpid(), "started": start_time(os.getpid()), "host": socket.gethostname()}, file)
    file.flush()
    _held[path] = file
    atexit.register(_remove_at_exit, path, os.getpid())
    return path


def remove_owned(path: Path) -> None:
    """Removes a directory of this process; what is none is left alone."""
    file = _held.pop(path, None)
    if file is not None:
        shutil.rmtree(path, ignore_errors=True)
        file.close()


def remove_all_owned() -> None:
    """Removes all directories of this process; it is about to end, and its children have been killed."""
    deadline = time.monotonic() + _REMOVAL_SECONDS
    for path in list(_held):
        remove_owned(path)
        # One that was just killed may still have been writing.
        while path.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
            shutil.rmtree(path, ignore_errors=True)


def remove_abandoned(place: str) -> None:
    """Removes the directories of this user in a place whose processes are dead."""
    try:
        entries = list(os.scandir(place))
    except OSError:
        return
    for entry in entries:
        try:
            own = entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_uid == os.getuid()
        except OSError:
            continue
        if own and entry.name.startswith(PREFIX):
            _remove_if_abandoned(Path(entry.path))


def _remove_if_abandoned(path: Path) -> None:
    try:
        descriptor = os.open(path / OWNER, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return  # None of ours, or just being made or removed.
    with os.fdopen(descriptor, encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return  # Its process lives, or it cannot be told.
        if _is_abandoned(file):
            shutil.rmtree(path, ignore_errors=True)


def _is_abandoned(file: IO[str]) -> bool:
    """Whether the owner that a file names, whose lock is free, is dead for certain."""
    try:
        owner: dict[str, Any] = json.load(file)
        pid, started, host = owner["pid"], owner["started"], owner["host"]
    except (ValueError, KeyError, TypeError):
        return time.time() - os.fstat(file.fileno()).st_mtime > _UNFINISHED_SECONDS
    if host != socket.gethostname():
        return False  # A directory of several machines, whose locks may not reach so far.
    return started is None or start_time(pid) != started


def _remove_at_exit(path: Path, owner: int) -> None:
    if os.getpid() == owner:  # A forked child inherits the handler, and must not remove what is its parent's.
        remove_owned(path)
