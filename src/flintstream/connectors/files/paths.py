"""Paths and URLs of files: finds and opens files, on a local disk or through fsspec."""

from __future__ import annotations

import bz2
import glob
import gzip
import lzma
import os
import shutil
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from fsspec.core import OpenFile

from flintstream.connectors.files.decompression import DecompressedFile, deflated, zstandard
from flintstream.runtime.file_systems import file_system_at

__all__ = [
    "FoundFile",
    "absolute",
    "check_exists",
    "compression_of",
    "exists",
    "find_files",
    "is_directory",
    "is_local",
    "join",
    "make_directory",
    "open_for_reading",
    "open_for_writing",
    "remove",
    "rename",
]

_COMPRESSIONS: dict[str, tuple[str, Callable[[str], Any]]] = {
    ".gz": ("gzip", gzip.open),
    ".gzip": ("gzip", gzip.open),
    ".bz2": ("bz2", bz2.open),
    ".xz": ("xz", lzma.open),
}
_DECOMPRESSED: dict[str, Callable[[IO[bytes]], DecompressedFile]] = {
    ".zst": zstandard,
    ".zstd": zstandard,
    ".deflate": deflated,
}
_UNSUPPORTED = (".zip", ".lz4", ".snappy")
_MAGIC = "*?["


@dataclass(frozen=True)
class FoundFile:
    """A file and its size in bytes."""

    path: str
    size: int


def is_local(path: str) -> bool:
    """Returns whether a path is local, not a URL."""
    return "://" not in path


def absolute(path: str | os.PathLike[str]) -> str:
    """Returns a path for slots: an absolute path for a local file (relative, `~`, `file://`), else the URL."""
    text = os.fspath(path)
    if not isinstance(text, str) or not text:
        raise ValueError(f"a file path must be a non-empty string, got {path!r}")
    if text.startswith("file:"):
        parsed = urllib.parse.urlsplit(text)
        if parsed.netloc not in ("", "localhost"):
            raise ValueError(f"{text}: a file URL has three slashes before an absolute path, as in file:///tmp/in")
        text = urllib.request.url2pathname(parsed.path)
    if not is_local(text):
        return text
    return os.path.abspath(os.path.expanduser(text))


def check_exists(path: str) -> None:
    """Refuses a path that does not exist, and a pattern without a match."""
    if is_local(path):
        found = os.path.exists(path) or (_is_pattern(path) and bool(glob.glob(path, recursive=True)))
    else:
        system, inner = _system(path)
        found = bool(system.glob(inner)) if _is_pattern(inner) else system.exists(inner)
    if not found:
        what = "no file matches the pattern" if _is_pattern(path) else "no such file or directory"
        raise FileNotFoundError(f"{what}: {path}")


def find_files(path: str) -> list[FoundFile]:
    """Returns all files of a path, sorted by name: the file, those in the directory and below, or the matches of the
    pattern.

    As in Flink, names that start with `.` or `_` are ignored, unless the path itself is such a name.
    """
    if is_local(path):
        files = list(_find_local(path))
    else:
        files = list(_find_remote(path))
    return sorted(files, key=lambda file: file.path)


def compression_of(path: str) -> str | None:
    """Returns the extension of a compressed file; None for a plain file."""
    extension = os.path.splitext(path)[1].lower()
    if extension in _UNSUPPORTED:
        raise NotImplementedError(
            f"{path}: files compressed as {extension} cannot be read; use {', '.join(sorted(_COMPRESSIONS | _DECOMPRESSED))}"
        )
    return extension if extension in _COMPRESSIONS or extension in _DECOMPRESSED else None


def open_for_reading(path: str) -> IO[bytes]:
    """Opens a file for reading, decompressed by its extension."""
    compression = compression_of(path)
    if compression in _DECOMPRESSED:
        return cast(IO[bytes], _DECOMPRESSED[compression](open(path, "rb") if is_local(path) else _open(path, "rb")))
    if not is_local(path):
        name = None if compression is None else _COMPRESSIONS[compression][0]
        return _open(path, "rb", name)
    if compression is None:
        return open(path, "rb", buffering=0)
    file: IO[bytes] = _COMPRESSIONS[compression][1](path)
    return file


def open_for_writing(path: str, exclusive: bool = False) -> IO[bytes]:
    """Creates a file for writing."""
    if is_local(path):
        return open(path, "xb" if exclusive else "wb")
    return _open(path, "xb" if exclusive else "wb")


def rename(old: str, new: str) -> None:
    """Renames a file; atomically on a local disk."""
    if is_local(old):
        os.replace(old, new)
    else:
        system, inner = _system(old)
        system.mv(inner, _system(new)[1])


def make_directory(path: str) -> None:
    """Creates a directory with its parents, if it does not exist."""
    if is_local(path):
        os.makedirs(path, exist_ok=True)
    else:
        system, inner = _system(path)
        system.makedirs(inner, exist_ok=True)


def remove(path: str) -> None:
    """Removes a file or a whole directory, if it exists."""
    if not is_local(path):
        system, inner = _system(path)
        if system.exists(inner):
            system.rm(inner, recursive=True)
    elif os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        Path(path).unlink(missing_ok=True)


def exists(path: str) -> bool:
    """Returns whether a file or directory exists."""
    if is_local(path):
        return os.path.exists(path)
    system, inner = _system(path)
    return bool(system.exists(inner))


def is_directory(path: str) -> bool:
    """Returns whether a directory exists."""
    if is_local(path):
        return os.path.isdir(path)
    system, inner = _system(path)
    return bool(system.isdir(inner))


def join(directory: str, name: str) -> str:
    """Joins a name to a directory."""
    return f"{directory.rstrip('/')}/{name}" if name else directory


def _system(url: str) -> tuple[Any, str]:
    """Returns a file system that knows no listing from before: other processes write and remove files, too."""
    system, inner = file_system_at(url)
    system.invalidate_cache()
    return system, inner


def _open(url: str, mode: str, compression: str | None = None) -> IO[bytes]:
    system, inner = _system(url)
    if mode != "rb":
        with suppress(PermissionError):  # One that exists may be enough.
            system.makedirs(system._parent(inner), exist_ok=True)
    return OpenFile(system, inner, mode, compression).open()  # type: ignore[no-any-return]


def _is_pattern(path: str) -> bool:
    return any(sign in path for sign in _MAGIC)


def _hidden(name: str) -> bool:
    return name.startswith((".", "_"))


def _find_local(path: str) -> Iterator[FoundFile]:
    if _is_pattern(path) and not os.path.exists(path):
        for match in glob.glob(path, recursive=True):
            if not _hidden(os.path.basename(match)):
                yield from _below(match)
        return
    if not os.path.exists(path):
        raise FileNotFoundError(f"no such file or directory: {path}")
    yield from _below(path)


def _below(path: str) -> Iterator[FoundFile]:
    if not os.path.isdir(path):
        with suppress(FileNotFoundError):  # removed since it was listed
            yield FoundFile(path, os.stat(path).st_size)
        return
    for directory, names, files in os.walk(path):
        names[:] = [name for name in names if not _hidden(name)]
        for name in files:
            if not _hidden(name):
                yield from _below(os.path.join(directory, name))


def _find_remote(url: str) -> Iterator[FoundFile]:
    system, inner = _system(url)
    roots = system.glob(inner) if _is_pattern(inner) else [inner]
    for root in roots:
        for path, info in system.find(root, detail=True).items():
            below = path[len(root) :].strip("/")
            if not any(_hidden(part) for part in below.split("/") if part):
                yield FoundFile(system.unstrip_protocol(path), int(info["size"]))
