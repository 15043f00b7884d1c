"""Where the state of a running job lives: descriptions, which `state.backend.type` chooses in the same words."""

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
    """Base of the descriptions."""

    @abstractmethod
    def _options(self) -> dict[str, str]:
        """The same as options of the configuration."""

    def __str__(self) -> str:
        return f"{type(self).__name__}()"


class HashMapStateBackend(StateBackend):
    """State as live Python objects in the memory of the slots; `state.backend.type: hashmap`, the default."""

    def _options(self) -> dict[str, str]:
        return {_TYPE: "hashmap"}


class PredefinedOptions(Enum):
    """Settings of RocksDB for kinds of machines.

    >>> PredefinedOptions.FLASH_SSD_OPTIMIZED.name
    'FLASH_SSD_OPTIMIZED'
    """

    DEFAULT = 0
    SPINNING_DISK_OPTIMIZED = 1
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    FLASH_SSD_OPTIMIZED = 3


class EmbeddedRocksDBStateBackend(StateBackend):
    """State in RocksDB on the slots' disks, for state larger than memory; `state.backend.type: rocksdb`.

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
        """The local directories for RocksDB's files, as paths or `file:` URLs; none for the slots' temporary directories."""
        self._paths = [_local_directory(path) for path in paths]

    def get_db_storage_paths(self) -> list[str]:
        """The local directories for RocksDB's files."""
        return list(self._paths)

    def is_incremental_checkpoints_enabled(self) -> bool:
        """Whether a checkpoint stores only what is new since the last one."""
        return bool(self._incremental)

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        """Settings for a kind of machine."""
        if not isinstance(options, PredefinedOptions):
            raise TypeError(f"EmbeddedRocksDBStateBackend: options must be one of PredefinedOptions, got {options!r}")
        self._predefined_options = options

    def get_predefined_options(self) -> PredefinedOptions:
        """Settings for a kind of machine."""
        return self._predefined_options

    def set_options(self, options_factory_class_name: str) -> None:
        """The name of a class that makes RocksDB's options."""
        self._options_factory = options_factory_class_name

    def get_options(self) -> str | None:
        """The name of a class that makes RocksDB's options."""
        return self._options_factory

    def get_number_of_transfer_threads(self) -> int:
        """How many threads upload and download files."""
        return self._transfer_threads

    def set_number_of_transfer_threads(self, number_of_transfering_threads: int) -> None:
        """How many threads upload and download files."""
        if number_of_transfering_threads < 1:
            raise ValueError(
                "EmbeddedRocksDBStateBackend: number_of_transfering_threads must be at least 1, "
                f"got {number_of_transfering_threads!r}"
            )
        self._transfer_threads = number_of_transfering_threads

    def _options(self) -> dict[str, str]:
        if self._options_factory is not None:
            raise NotImplementedError(
                f"EmbeddedRocksDBStateBackend.set_options({self._options_factory!r}): options factories are Java classes: "
                "use set_predefined_options() or the keys state.backend.rocksdb.*"
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
    """A state backend written in Java for Flink: there is none here."""

    def _options(self) -> dict[str, str]:
        raise NotImplementedError(
            f"{type(self).__name__}: state backends of Flink are Java objects; there are two here"
        )


def _local_directory(path: str) -> str:
    url = urlsplit(path)
    if url.scheme not in ("", "file"):
        raise ValueError(f"set_db_storage_paths: RocksDB's files are on local disks, got {path!r}")
    if not url.path.startswith("/"):
        raise ValueError(f"set_db_storage_paths: relative paths are not supported, got {path!r}")
    return url.path.rstrip("/") or "/"
