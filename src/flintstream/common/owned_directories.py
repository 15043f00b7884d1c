"""Temporary directories owned by a process, which holds a lock in them for its lifetime.

They are removed when their process exits. Directories left by a killed process are removed by the next process of the
same user that creates one in the same place: the lock of a dead process is free, even if its pid was reused.
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
"""An empty owner file of this age was left by a process killed while it created its directory."""
_REMOVAL_SECONDS = 5.0

_held: dict[Path, IO[str]] = {}


def owned_directory(prefix: str = PREFIX, place: str | None = None) -> Path:
    """Creates a private directory owned by this process; `prefix` begins with PREFIX.

    Abandoned directories in the same place, by default the temporary directory, are removed first.
    """
    place = tempfile.gettempdir() if place is None else place
    remove_abandoned(place)
    path = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
    file = (path / OWNER).open("x", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
    except OSError:
        pass  # A file system without locks: nobody can lock the file, so nobody considers the directory abandoned.
    json.dump({"pid": os.getpid(), "started": start_time(os.getpid()), "host": socket.gethostname()}, file)
    file.flush()
    _held[path] = file
    atexit.register(_remove_at_exit, path, os.getpid())
    return path


def remove_owned(path: Path) -> None:
    """Removes a directory owned by this process; any other is left alone."""
    file = _held.pop(path, None)
    if file is not None:
        shutil.rmtree(path, ignore_errors=True)
        file.close()


def remove_all_owned() -> None:
    """Removes all directories of this process, which is about to end and has killed its children."""
    deadline = time.monotonic() + _REMOVAL_SECONDS
    for path in list(_held):
        remove_owned(path)
        # A child that was just killed may still have been writing.
        while path.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
            shutil.rmtree(path, ignore_errors=True)


def remove_abandoned(place: str) -> None:
    """Removes abandoned directories of this user in a place."""
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
        return  # Not ours, or just being created or removed.
    with os.fdopen(descriptor, encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return  # Its process is alive, or that cannot be determined.
        if _is_abandoned(file):
            shutil.rmtree(path, ignore_errors=True)


def _is_abandoned(file: IO[str]) -> bool:
    """Returns whether the owner named in a file, whose lock is free, is certainly dead."""
    try:
        owner: dict[str, Any] = json.load(file)
        pid, started, host = owner["pid"], owner["started"], owner["host"]
    except (ValueError, KeyError, TypeError):
        return time.time() - os.fstat(file.fileno()).st_mtime > _UNFINISHED_SECONDS
    if host != socket.gethostname():
        return False  # A directory shared by several machines, where locks may not work across them.
    return started is None or start_time(pid) != started


def _remove_at_exit(path: Path, owner: int) -> None:
    if os.getpid() == owner:  # A forked child inherits the handler, and must not remove its parent's directories.
        remove_owned(path)
