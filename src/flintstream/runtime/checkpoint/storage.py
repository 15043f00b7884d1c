"""Storage: the directory of checkpoints, on a local disk or at any URL that fsspec knows."""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any
from urllib.parse import unquote, urlsplit

from flintstream.runtime.permissions import Permissions

_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
"""Errors of file systems without links."""


class StorageError(OSError):
    """Checkpoint storage cannot be read or written; the message names the file and the option."""


class Storage(ABC):
    """Files by their path below a root. The driver and the slots each have a copy."""

    root: str

    @abstractmethod
    def write(self, path: str, data: bytes) -> None:
        """Writes a file atomically and durably."""

    @abstractmethod
    def upload(self, path: str, local_path: str) -> None:
        """Uploads a local file."""

    @abstractmethod
    def create(self, path: str, data: bytes) -> bool:
        """Creates a file atomically; returns False if it exists. Of several writers, exactly one succeeds."""

    @abstractmethod
    def read(self, path: str, start: int = 0, size: int | None = None) -> bytes:
        """Returns the bytes of a file, or a range of them."""

    @abstractmethod
    def download(self, path: str, local_path: str) -> None:
        """Downloads a file to a local one."""

    @abstractmethod
    def exists(self, path: str) -> bool:
        """Returns whether a file or directory exists."""

    @abstractmethod
    def names(self, path: str = "") -> list[str]:
        """Returns the names in a directory, sorted; empty if it does not exist."""

    @abstractmethod
    def sizes(self, path: str = "") -> dict[str, int]:
        """Returns the files in a directory with their sizes; empty if it does not exist."""

    @abstractmethod
    def remove(self, path: str) -> None:
        """Removes a file, or a directory with its contents, if it exists."""

    def remove_files(self, paths: Sequence[str]) -> None:
        """Removes files, if they exist."""
        for path in paths:
            self.remove(path)

    @abstractmethod
    def remove_if_empty(self, path: str) -> None:
        """Removes a directory if it is empty."""

    @abstractmethod
    def at(self, path: str) -> Storage:
        """Returns the storage of a directory below this one."""

    def locate(self, path: str) -> str:
        """Returns the full location of a file, for messages."""
        return f"{self.root.rstrip('/')}/{path}" if path else self.root


class LocalStorage(Storage):
    """A local directory, or one mounted on all machines."""

    def __init__(self, root: str, permissions: Permissions = Permissions.OWNER) -> None:
        self.root = os.path.abspath(root)
        self._permissions = permissions

    def write(self, path: str, data: bytes) -> None:
        with self._atomic_file(path) as file:
            file.write(data)

    def upload(self, path: str, local_path: str) -> None:
        with open(local_path, "rb") as source, self._atomic_file(path) as file:
            shutil.copyfileobj(source, file, 1 << 20)

    def create(self, path: str, data: bytes) -> bool:
        target = self._path(path)
        try:
            with self._temporary_file(target) as (hidden, file):
                _write_durably(file, data)
                created = _link(hidden, target)
        except OSError as error:
            raise _unwritable(target, error) from error
        if created:
            _sync_directory(os.path.dirname(target))
        return created

    def read(self, path: str, start: int = 0, size: int | None = None) -> bytes:
        with open(self._path(path), "rb") as file:
            file.seek(start)
            return file.read() if size is None else file.read(size)

    def download(self, path: str, local_path: str) -> None:
        shutil.copyfile(self._path(path), local_path)

    def exists(self, path: str) -> bool:
        return os.path.exists(self._path(path))

    def names(self, path: str = "") -> list[str]:
        try:
            return sorted(os.listdir(self._path(path)))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def sizes(self, path: str = "") -> dict[str, int]:
        try:
            with os.scandir(self._path(path)) as entries:
                return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}
        except (FileNotFoundError, NotADirectoryError):
            return {}

    def remove(self, path: str) -> None:
        target = self._path(path)
        if os.path.isdir(target):
            shutil.rmtree(target, ignore_errors=True)
        else:
            _remove_file(target)

    def remove_if_empty(self, path: str) -> None:
        try:
            os.rmdir(self._path(path))
        except OSError:
            pass  # It is not empty, or no longer exists.

    def at(self, path: str) -> LocalStorage:
        return LocalStorage(self._path(path), self._permissions)

    def _path(self, path: str) -> str:
        return os.path.join(self.root, path) if path else self.root

    @contextmanager
    def _atomic_file(self, path: str) -> Iterator[IO[bytes]]:
        """Opens a file for writing that appears under its name once it is durable, or not at all."""
        target = self._path(path)
        try:
            with self._temporary_file(target) as (hidden, file):
                yield file
                _write_durably(file, b"")
                os.replace(hidden, target)
            _sync_directory(os.path.dirname(target))
        except OSError as error:
            raise _unwritable(target, error) from error

    @contextmanager
    def _temporary_file(self, target: str) -> Iterator[tuple[str, IO[bytes]]]:
        """Returns a temporary file in the same directory, under a hidden name that is removed afterwards."""
        directory, name = os.path.split(target)
        hidden = os.path.join(directory, f".{name}.{uuid.uuid4().hex}")
        self._permissions.make_directory(directory)
        try:
            with self._permissions.create_file(hidden) as file:
                yield hidden, file
        finally:
            _remove_file(hidden)


class UrlStorage(Storage):
    """A location at a URL, such as `s3://bucket/checkpoints`. Objects appear atomically.

    Credentials and endpoints are configured for fsspec, on the driver and in every slot: by the environment variables
    of the store's own library (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, ...), by variables such as
    `FSSPEC_S3_ENDPOINT_URL`, or by files in `~/.config/fsspec`.
    """

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/")
        self._opened: tuple[Any, str] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"root": self.root, "_opened": None}

    def _at(self, path: str) -> tuple[Any, str]:
        if self._opened is None:
            from flintstream.runtime.file_systems import file_system_at

            try:
                file_system, root = file_system_at(self.root)
            except (ImportError, ValueError) as error:
                raise StorageError(f"checkpoint storage {self.root!r} cannot be used: {error}") from error
            self._opened = file_system, root.rstrip("/")
        file_system, root = self._opened
        return file_system, f"{root}/{path}" if path else root

    def _to_write(self, path: str) -> tuple[Any, str]:
        file_system, target = self._at(path)
        # Paths that begin with a bucket need no directories, and creating them would create the bucket.
        if target.startswith("/"):
            file_system.makedirs(file_system._parent(target), exist_ok=True)
        return file_system, target

    def write(self, path: str, data: bytes) -> None:
        try:
            file_system, target = self._to_write(path)
            file_system.pipe_file(target, data)
        except Exception as error:
            raise _unwritable(self.locate(path), error) from error

    def upload(self, path: str, local_path: str) -> None:
        try:
            file_system, target = self._to_write(path)
            file_system.put_file(local_path, target)
        except Exception as error:
            raise _unwritable(self.locate(path), error) from error

    def create(self, path: str, data: bytes) -> bool:
        # Not every store supports exclusive creation: this at least detects an existing object.
        if self.exists(path):
            return False
        try:
            file_system, target = self._to_write(path)
            file_system.pipe_file(target, data, mode="create")
        except Exception as error:
            if isinstance(error, FileExistsError) and self.exists(path):
                return False
            raise _unwritable(self.locate(path), error) from error
        return True

    def read(self, path: str, start: int = 0, size: int | None = None) -> bytes:
        file_system, target = self._at(path)
        limits = {} if start == 0 and size is None else {"start": start, "end": None if size is None else start + size}
        if size == 0:
            return b""
        try:
            data: bytes = file_system.cat_file(target, **limits)
        except FileNotFoundError:
            raise
        except Exception as error:
            if limits and start >= file_system.size(target):
                return b""  # A range beyond the end of an object cannot be requested.
            raise StorageError(f"checkpoint storage: {self.locate(path)} cannot be read: {error}") from error
        return data

    def download(self, path: str, local_path: str) -> None:
        file_system, target = self._at(path)
        file_system.get_file(target, local_path)

    def exists(self, path: str) -> bool:
        file_system, target = self._at(path)
        file_system.invalidate_cache()
        found: bool = file_system.exists(target)
        return found

    def names(self, path: str = "") -> list[str]:
        file_system, target = self._at(path)
        file_system.invalidate_cache()
        try:
            found = file_system.ls(target, detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(entry.rstrip("/").rpartition("/")[2] for entry in found if entry.rstrip("/") != target)

    def sizes(self, path: str = "") -> dict[str, int]:
        file_system, target = self._at(path)
        file_system.invalidate_cache()
        try:
            found = file_system.ls(target, detail=True)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        return {entry["name"].rpartition("/")[2]: entry["size"] for entry in found if entry["type"] == "file"}

    def remove(self, path: str) -> None:
        file_system, target = self._at(path)
        file_system.invalidate_cache()
        try:
            file_system.rm(target, recursive=True)
        except FileNotFoundError:
            pass  # Removed already.

    def remove_files(self, paths: Sequence[str]) -> None:
        targets = [self._at(path)[1] for path in paths]
        if targets:
            self._at("")[0].rm(targets)

    def remove_if_empty(self, path: str) -> None:
        file_system, target = self._at(path)
        # Most stores with buckets have no directories, but some do.
        if target.startswith("/") and not self.names(path):
            with suppress(Exception):
                file_system.rmdir(target)

    def at(self, path: str) -> UrlStorage:
        return UrlStorage(f"{self.root}/{path}" if path else self.root)


def storage_at(location: str, permissions: Permissions = Permissions.OWNER) -> Storage:
    """Returns the storage of a directory or URL: `/data/checkpoints`, `file:///data/checkpoints`,
    `s3://bucket/checkpoints`.

    `permissions` apply to new files in a directory; at a URL, the store controls access.
    """
    parts = urlsplit(location)
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise StorageError(
                f"checkpoint storage {location!r} is on the host {parts.netloc!r}: a local directory is written with "
                f"three slashes, file:///{parts.netloc}{parts.path}"
            )
        return LocalStorage(unquote(parts.path), permissions)
    return UrlStorage(location) if "://" in location else LocalStorage(location, permissions)


def _remove_file(path: str) -> None:
    try:
        os.remove(path)
    except (FileNotFoundError, NotADirectoryError):
        pass  # Removed already.


def _unwritable(location: str, error: Exception) -> StorageError:
    return StorageError(f"checkpoint storage: {location} cannot be written: {error}")


def _write_durably(file: IO[bytes], data: bytes) -> None:
    file.write(data)
    file.flush()
    os.fsync(file.fileno())


def _link(hidden: str, target: str) -> bool:
    """Creates a second name for a written file, unless that name exists; returns False if it does."""
    try:
        os.link(hidden, target)
    except FileExistsError:
        # A network file system may have created the link although its first answer was lost.
        return os.stat(hidden).st_nlink > 1
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return _copy_exclusively(hidden, target)
    return True


def _copy_exclusively(source: str, target: str) -> bool:
    """The fallback for file systems without links. One writer succeeds, but readers may see an incomplete file."""
    mode = os.stat(source).st_mode & 0o777
    try:
        file = open(target, "xb", opener=lambda path, flags: os.open(path, flags, mode))
    except FileExistsError:
        return False
    try:
        with open(source, "rb") as content, file:
            _write_durably(file, content.read())
    except OSError:
        _remove_file(target)
        raise
    return True


def _sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
