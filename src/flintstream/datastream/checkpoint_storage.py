"""Descriptions of where checkpoints are kept, equivalent to the key `execution.checkpointing.storage`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from urllib.parse import urlsplit

from flintstream.common.flint_options import MAX_MEMORY_STATE_SIZE

__all__ = [
    "CheckpointStorage",
    "CustomCheckpointStorage",
    "FileSystemCheckpointStorage",
    "JobManagerCheckpointStorage",
]

_STORAGE = "execution.checkpointing.storage"
_THRESHOLD = "execution.checkpointing.data-inline-threshold"
_DEFAULT_THRESHOLD = 20 * 1024


class CheckpointStorage(ABC):
    """Base class of checkpoint storage descriptions."""

    def __init__(self) -> None:
        self._checkpoint_path: str | None = None

    def get_savepoint_path(self) -> str | None:
        """Returns the directory for savepoints; None if not configured."""
        return None

    @abstractmethod
    def _options(self) -> dict[str, str]:
        """Returns the equivalent configuration options."""


class JobManagerCheckpointStorage(CheckpointStorage):
    """Keeps checkpoints in the memory of the driver, for small state.

    >>> JobManagerCheckpointStorage().get_max_state_size()
    5242880
    """

    DEFAULT_MAX_STATE_SIZE = 5 * 1024 * 1024

    def __init__(self, checkpoint_path: str | None = None, max_state_size: int | None = None) -> None:
        super().__init__()
        size = self.DEFAULT_MAX_STATE_SIZE if max_state_size is None else max_state_size
        if size <= 0:
            raise ValueError(f"JobManagerCheckpointStorage: max_state_size must be greater than zero, got {size!r}")
        self._checkpoint_path = None if checkpoint_path is None else _checked_path(self, checkpoint_path)
        self._max_state_size = size

    def get_checkpoint_path(self) -> str | None:
        """Returns the directory for metadata; None to keep it in memory too."""
        return self._checkpoint_path

    def get_max_state_size(self) -> int:
        """Returns the maximum size of one state, in bytes."""
        return self._max_state_size

    def __str__(self) -> str:
        return f"JobManagerCheckpointStorage(max_state_size={self._max_state_size})"

    def _options(self) -> dict[str, str]:
        limit = {MAX_MEMORY_STATE_SIZE.key: f"{self._max_state_size} b"}
        if self._checkpoint_path is None:
            return {_STORAGE: "jobmanager", **limit}
        # All state goes through the driver's memory into the metadata, which are in the directory.
        return {
            _STORAGE: "filesystem",
            "execution.checkpointing.dir": self._checkpoint_path,
            _THRESHOLD: f"{self._max_state_size} b",
            **limit,
        }


class FileSystemCheckpointStorage(CheckpointStorage):
    """Keeps checkpoints in a directory of any file system, given by URL.

    >>> FileSystemCheckpointStorage("file:///tmp/checkpoints").get_checkpoint_path()
    'file:///tmp/checkpoints'
    """

    MAX_FILE_STATE_THRESHOLD = 1024 * 1024

    def __init__(
        self,
        checkpoint_path: str | None = None,
        file_state_size_threshold: int | None = None,
        write_buffer_size: int = -1,
    ) -> None:
        super().__init__()
        if checkpoint_path is None:
            raise ValueError("FileSystemCheckpointStorage: checkpoint_path must not be None")
        threshold = -1 if file_state_size_threshold is None else file_state_size_threshold
        if not -1 <= threshold <= self.MAX_FILE_STATE_THRESHOLD:
            raise ValueError(
                f"FileSystemCheckpointStorage: file_state_size_threshold must be from -1 (the default) to "
                f"{self.MAX_FILE_STATE_THRESHOLD}, got {threshold!r}"
            )
        self._checkpoint_path = _checked_path(self, checkpoint_path)
        self._threshold = None if threshold == -1 else threshold
        self._write_buffer_size = 4096 if write_buffer_size == -1 else write_buffer_size

    def get_checkpoint_path(self) -> str:
        """Returns the directory."""
        assert self._checkpoint_path is not None
        return self._checkpoint_path

    def get_min_file_size_threshold(self) -> int:
        """Returns the size in bytes below which state is stored inline in the metadata."""
        return _DEFAULT_THRESHOLD if self._threshold is None else self._threshold

    def get_write_buffer_size(self) -> int:
        """Returns the size of the write buffer in bytes."""
        return self._write_buffer_size

    def __str__(self) -> str:
        return f"FileSystemCheckpointStorage({self._checkpoint_path})"

    def _options(self) -> dict[str, str]:
        return {
            _STORAGE: "filesystem",
            "execution.checkpointing.dir": self.get_checkpoint_path(),
            # The configured threshold applies unless this object sets one.
            **({} if self._threshold is None else {_THRESHOLD: f"{self._threshold} b"}),
        }


class CustomCheckpointStorage(CheckpointStorage):
    """Not supported: a checkpoint storage written in Java. Use any URL that fsspec knows."""

    def _options(self) -> dict[str, str]:
        raise NotImplementedError(
            f"{type(self).__name__}: Flink's custom storages are Java objects; use FileSystemCheckpointStorage with "
            "a URL"
        )


def _checked_path(storage: CheckpointStorage, path: str) -> str:
    if not isinstance(path, str) or not urlsplit(path).scheme:
        raise ValueError(
            f"{type(storage).__name__}: checkpoint_path must be a URL with its scheme, such as "
            f"file:///tmp/checkpoints, got {path!r}"
        )
    below = path.rstrip("/")
    if not urlsplit(below).path.strip("/") and (not urlsplit(below).netloc or urlsplit(below).scheme == "file"):
        raise ValueError(f"{type(storage).__name__}: cannot use the root directory for checkpoints, got {path!r}")
    return below
