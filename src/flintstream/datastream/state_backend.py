"""Descriptions of the state backends, equivalent to the key `state.backend.type`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from urllib.parse import urlsplit

__all__ = [
    "CustomStateBackend",
    "EmbeddedRocksDBStateBackend",
    "HashMapStateBackend",
    "PredefinedOptions",
    "StateBackend",
]

_TYPE = "state.backend.type"


class StateBackend(ABC):
    """Base class of state backend descriptions."""

    @abstractmethod
    def _options(self) -> dict[str, str]:
        """Returns the equivalent configuration options."""

    def __str__(self) -> str:
        return f"{type(self).__name__}()"


class HashMapStateBackend(StateBackend):
    """Keeps state as Python objects in the memory of the slots; `state.backend.type: hashmap`, the default."""

    def _options(self) -> dict[str, str]:
        return {_TYPE: "hashmap"}


class PredefinedOptions(Enum):
    """Predefined RocksDB options for different hardware.

    >>> PredefinedOptions.FLASH_SSD_OPTIMIZED.name
    'FLASH_SSD_OPTIMIZED'
    """

    DEFAULT = 0
    SPINNING_DISK_OPTIMIZED = 1
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    FLASH_SSD_OPTIMIZED = 3


class EmbeddedRocksDBStateBackend(StateBackend):
    """Keeps state in RocksDB on the slots' disks, for state larger than memory; `state.backend.type: rocksdb`.

    >>> EmbeddedRocksDBStateBackend(True).is_incremental_checkpoints_enabled()
    True
    """

    def __init__(self, enable_incremental_checkpointing: bool | None = None) -> None:
        if enable_incremental_checkpointing not in (None, True, False):
            raise TypeError(
                "EmbeddedRocksDBStateBackend: enable_incremental_checkpointing must be None, True or False, "
                f"got {enable_incremental_checkpointing!r}"
            )
        self._incremental = enable_incremental_checkpointing
        self._paths: list[str] = []
        self._options_factory: str | None = None
        self._predefined_options = PredefinedOptions.DEFAULT
        self._transfer_threads = 4

    def set_db_storage_paths(self, *paths: str) -> None:
        """Sets the local directories of RocksDB's files, as paths or `file:` URLs; none for the slots' temporary
        directories.
        """
        self._paths = [_local_directory(path) for path in paths]

    def get_db_storage_paths(self) -> list[str]:
        """Returns the local directories of RocksDB's files."""
        return list(self._paths)

    def is_incremental_checkpoints_enabled(self) -> bool:
        """Returns whether checkpoints are incremental."""
        return bool(self._incremental)

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        """Sets predefined options."""
        if not isinstance(options, PredefinedOptions):
            raise TypeError(f"EmbeddedRocksDBStateBackend: options must be one of PredefinedOptions, got {options!r}")
        self._predefined_options = options

    def get_predefined_options(self) -> PredefinedOptions:
        """Returns the predefined options."""
        return self._predefined_options

    def set_options(self, options_factory_class_name: str) -> None:
        """Sets the class name of an options factory."""
        self._options_factory = options_factory_class_name

    def get_options(self) -> str | None:
        """Returns the class name of the options factory."""
        return self._options_factory

    def get_number_of_transfer_threads(self) -> int:
        """Returns the number of threads that upload and download files."""
        return self._transfer_threads

    def set_number_of_transfer_threads(self, number_of_transfering_threads: int) -> None:
        """Sets the number of threads that upload and download files."""
        if number_of_transfering_threads < 1:
            raise ValueError(
                "EmbeddedRocksDBStateBackend: number_of_transfering_threads must be at least 1, "
                f"got {number_of_transfering_threads!r}"
            )
        self._transfer_threads = number_of_transfering_threads

    def _options(self) -> dict[str, str]:
        if self._options_factory is not None:
            raise NotImplementedError(
                f"EmbeddedRocksDBStateBackend.set_options({self._options_factory!r}): options factories are Java "
                "classes and not supported: use set_predefined_options() or the keys state.backend.rocksdb.*"
            )
        options = {
            _TYPE: "rocksdb",
            "state.backend.rocksdb.predefined-options": self._predefined_options.name,
            "state.backend.rocksdb.checkpoint.transfer.thread.num": str(self._transfer_threads),
        }
        if self._incremental is not None:
            options["execution.checkpointing.incremental"] = str(self._incremental).lower()
        if self._paths:
            options["state.backend.rocksdb.localdir"] = ",".join(self._paths)
        return options


class CustomStateBackend(StateBackend):
    """Not supported: a state backend written in Java."""

    def _options(self) -> dict[str, str]:
        raise NotImplementedError(
            f"{type(self).__name__}: Flink's custom backends are Java objects; use HashMapStateBackend or "
            "EmbeddedRocksDBStateBackend"
        )


def _local_directory(path: str) -> str:
    url = urlsplit(path)
    if url.scheme not in ("", "file"):
        raise ValueError(f"set_db_storage_paths: RocksDB's files must be on a local disk, got {path!r}")
    if not url.path.startswith("/"):
        raise ValueError(f"set_db_storage_paths: relative paths are not supported, got {path!r}")
    return url.path.rstrip("/") or "/"
