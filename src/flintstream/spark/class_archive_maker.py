"""Makes a class archive, in a process of its own and of low priority; see :mod:`flintstream.spark.class_archive`.

A directory "making-…" beside the archive has the task and what Java writes, so that makers do not meet; the finished
archive is renamed. Whatever fails, there is no archive; failures are counted, so that not every program tries again.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["MAKING", "failures", "main", "note_failure", "unfinished"]

MAKING = "making-"
"""What the names of the directories of makers begin with."""

_MOST_SECONDS = 1800.0
_ABANDONED_SECONDS = 24 * 3600.0
_UNUSED_SECONDS = 30 * 24 * 3600.0
_FAILED_SECONDS = 30 * 24 * 3600.0
# The objects of an archive are written by G1 only; other collectors can read them.
_JAVA_OPTIONS = ["-Xshare:dump", "-Xmx512m", "-XX:+UseG1GC", "-Xlog:disable"]


def main(directory: str) -> None:
    """Makes the archive of the task in a directory, and removes the directory."""
    os.nice(19)
    making = Path(directory)
    try:
        task = json.loads((making / "task.json").read_text())
        archive = Path(task["archive"])
        _remove_old(archive.parent)
        with _alone(archive) as first:
            if first and not archive.exists():
                try:
                    _make(making, task["java"], task["class_path"], archive)
                except (OSError, subprocess.SubprocessError):
                    note_failure(archive)
                    raise
    finally:
        shutil.rmtree(making, ignore_errors=True)


def failures(archive: Path) -> int:
    """Returns how many archives of this name could recently not be made, or were refused by the JVM."""
    file = _failures_file(archive)
    try:
        return int(file.read_text()) if time.time() - file.stat().st_mtime < _FAILED_SECONDS else 0
    except (OSError, ValueError):
        return 0


def note_failure(archive: Path) -> None:
    """Counts an archive that could not be made, or was refused by the JVM."""
    _failures_file(archive).write_text(str(failures(archive) + 1))


def unfinished(directory: Path) -> int:
    """Returns how many archives are being made, or were within the last month when their makers were killed."""
    found = 0
    for path in directory.glob(f"{MAKING}*"):
        with suppress(OSError):
            found += time.time() - path.lstat().st_mtime < _FAILED_SECONDS
    return found


def _failures_file(archive: Path) -> Path:
    return archive.with_suffix(".failures")


def _make(making: Path, java: str, class_path: str, archive: Path) -> None:
    classes, new = making / "classes", making / "archive"
    _drop_unfinished_line(classes)
    command = [java, *_JAVA_OPTIONS, f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={new}"]
    devnull = subprocess.DEVNULL
    subprocess.run(
        [*command, "-cp", class_path], stdin=devnull, stdout=devnull, stderr=devnull, timeout=_MOST_SECONDS, check=True
    )
    # Java checks the header of an archive only: after a crash of the machine there must be no file with holes.
    with new.open("rb") as file:
        os.fsync(file.fileno())
    new.chmod(0o600)
    new.replace(archive)


def _drop_unfinished_line(classes: Path) -> None:
    """The JVM that wrote the list was killed, perhaps within a line."""
    text = classes.read_bytes()
    classes.write_bytes(text[: text.rfind(b"\n") + 1])


@contextmanager
def _alone(archive: Path) -> Iterator[bool]:
    """Yields whether no other process is making this archive."""
    with archive.with_suffix(".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        except OSError:
            pass  # A file system without locks: two makers do the same work, and one archive replaces the other.
        yield True


def _remove_old(directory: Path) -> None:
    """Removes what killed makers have left, and archives, with what belongs to them, that nobody uses any more."""
    now = time.time()
    for path in directory.iterdir():
        with suppress(OSError):
            found = path.lstat()
            age = now - max(found.st_atime, found.st_mtime)
            if path.name.startswith(MAKING) and age > _ABANDONED_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
            elif path.suffix in (".jsa", ".lock", ".failures") and age > _UNUSED_SECONDS:
                path.unlink()
