"""Storage: the directory under which checkpoints are kept, on local disks or behind any URL that fsspec knows."""

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
"""What file systems say that do not know links."""


class StorageError(OSError):
    """Checkpoint storage cannot be read or written; the message names the file and the option."""


class Storage(ABC):
    """Files by their path below a root. Slots and the driver each have a copy of the same one."""

    root: str

    @abstractmethod
    def write(self, path: str, data: bytes) -> None:
        """Writes a file as a whole, durably; nobody ever sees a part of it."""

    @abstractmethod
    def upload(self, path: str, local_path: str) -> None:
        """Copies a local file."""

    @abstractmethod
    def create(self, path: str, data: bytes) -> bool:
        """Writes a file as a whole unless there is one; false if there is. Of several writers, one succeeds."""

    @abstractmethod
    def read(self, path: str, start: int = 0, size: int | None = None) -> bytes:
        """The bytes of a file, or a range of them."""

    @abstractmethod
    def download(self, path: str, local_path: str) -> None:
        """Copies a file to a local one."""

    @abstractmethod
    def exists(self, path: str) -> bool:
        """Whether there is a file or directory."""

    @abstractmethod
    def names(self, path: str = "") -> list[str]:
        """The names of all that is in a directory, in order; none where there is no directory."""

    @abstractmethod
    def sizes(self, path: str = "") -> dict[str, int]:
        """The files in a directory, and how many bytes each has; none where there is no directory."""

    @abstractmethod
    def remove(self, path: str) -> None:
        """Removes a file, or a directory with all that is in it; what is gone already is fine."""

    def remove_files(self, paths: Sequence[str]) -> None:
        """Removes some files; what is gone already is fine."""
        for path in paths:
            self.remove(path)

    @abstractmethod
    def remove_if_empty(self, path: str) -> None:
        """Removes a directory if nothing is in it."""

    @abstractmethod
    def at(self, path: str) -> Storage:
        """The storage of a directory below this one."""

    def locate(self, path: str) -> str:
        """A file as users know it."""
        return f"{self.root.rstrip('/')}/{path}" if path else self.root


class LocalStorage(Storage):
    """A directory of this machine, or one that is mounted on all of them."""

    def __init__(self, root: str, permissions: Permissions = Permissions.OWNER) -> None:
        self.root = os.path.abspath(root)
        self._permissions = permissions

    def write(self, path: str, data: bytes) -> None:
        with self._whole(path) as file:
            file.write(data)

    def upload(self, path: str, local_path: str) -> None:
        with open(local_path, "rb") as source, self._whole(path) as file:
            shutil.copyfileobj(source, file, 1 << 20)

    def create(self, path: str, data: bytes) -> bool:
        target = self._path(path)
        try:
            with self._hidden(target) as (hidden, file):
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
            pass  # Something is in it, or it is gone.

    def at(self, path: str) -> LocalStorage:
        return LocalStorage(self._path(path), self._permissions)

    def _path(self, path: str) -> str:
        return os.path.join(self.root, path) if path else self.root

    @contextmanager
    def _whole(self, path: str) -> Iterator[IO[bytes]]:
        """A file to write into. It appears under its name once all of it is on the disk, or leaves nothing behind."""
        target = self._path(path)
        try:
            with self._hidden(target) as (hidden, file):
                yield file
                _write_durably(file, b"")
                os.replace(hidden, target)
            _sync_directory(os.path.dirname(target))
        except OSError as error:
            raise _unwritable(target, error) from error

    @contextmanager
    def _hidden(self, target: str) -> Iterator[tuple[str, IO[bytes]]]:
        """A file beside another one, under a name that nobody looks for and that is gone behind it."""
        directory, name = os.path.split(target)
        hidden = os.path.join(directory, f".{name}.{uuid.uuid4().hex}")
        self._permissions.make_directory(directory)
        try:
            with self._permissions.create_file(hidden) as file:
                yield hidden, file
        finally:
            _remove_file(hidden)


class UrlStorage(Storage):
    """A place behind a URL, such as `s3://bucket/checkpoints`. An object appears there as a whole or not at all.

    How to get there is fsspec's to know, and must be known wherever the job runs, on the driver and in every slot: from
    the variables of the environment that the store's own library reads (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, ...),
    from variables such as `FSSPEC_S3_ENDPOINT_URL`, or from the files in `~/.config/fsspec`.
    """

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/")
        self._opened: tuple[Any, str] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"root": self.root, "_opened": None}

    def _at(self, path: str) -> tuple[Any, str]:
        if self._opened is None:
            import fsspec

            try:
                file_system, root = fsspec.core.url_to_fs(self.root)
            except (ImportError, ValueError) as error:
                raise StorageError(f"checkpoint storage {self.root!r} cannot be used: {error}") from error
            self._opened = file_system, root.rstrip("/")
        file_system, root = self._opened
        return file_system, f"{root}/{path}" if path else root

    def _to_write(self, path: str) -> tuple[Any, str]:
        file_system, target = self._at(path)
        # A path that begins with the name of a bucket needs no directories, and making them would make the bucket.
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
        # Not every store knows how to create: this finds at least what is there already.
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
                return b""  # Behind the end of an object there is no range to ask for.
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
            pass  # Gone already.

    def remove_files(self, paths: Sequence[str]) -> None:
        targets = [self._at(path)[1] for path in paths]
        if targets:
            self._at("")[0].rm(targets)

    def remove_if_empty(self, path: str) -> None:
        file_system, target = self._at(path)
        # Where paths begin with a bucket there are no directories, but on some there are.
        if target.startswith("/") and not self.names(path):
            with suppress(Exception):
                file_system.rmdir(target)

    def at(self, path: str) -> UrlStorage:
        return UrlStorage(f"{self.root}/{path}" if path else self.root)


def storage_at(location: str, permissions: Permissions = Permissions.OWNER) -> Storage:
    """The storage of a directory or URL: `/data/checkpoints`, `file:///data/checkpoints`, `s3://bucket/checkpoints`.

    `permissions` are those of new files in a directory; who may read what is behind a URL is settled there.
    """
    parts = urlsplit(location)
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise StorageError(
                f"checkpoint storage {location!r} is on the host {parts.netloc!r}: a directory of this machine is written "
                f"with three slashes, file:///{parts.netloc}{parts.path}"
            )
        return LocalStorage(unquote(parts.path), permissions)
    return UrlStorage(location) if "://" in location else LocalStorage(location, permissions)


def _remove_file(path: str) -> None:
    try:
        os.remove(path)
    except (FileNotFoundError, NotADirectoryError):
        pass  # Gone already.


def _unwritable(location: str, error: Exception) -> StorageError:
    return StorageError(f"checkpoint storage: {location} cannot be written: {error}")


def _write_durably(file: IO[bytes], data: bytes) -> None:
    file.write(data)
    file.flush()
    os.fsync(file.fileno())


def _link(hidden: str, target: str) -> bool:
    """Gives a file that is written a second name, unless somebody has it; false if so."""
    try:
        os.link(hidden, target)
    except FileExistsError:
        # A network file system may have done it although the first answer was lost.
        return os.stat(hidden).st_nlink > 1
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return _copy_exclusively(hidden, target)
    return True


def _copy_exclusively(source: str, target: str) -> bool:
    """For file systems without links. Only one writer succeeds, though others may see the file before it is whole."""
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
