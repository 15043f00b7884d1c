"""RocksDBOptions: the memory and disk settings of the RocksDB backend, from Flink's options `state.backend.rocksdb.*`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rocksdict import (
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    DataBlockIndexType,
    DBCompactionStyle,
    DBCompressionType,
    Options,
    WriteBufferManager,
)

from flintstream.common.config_values import one_of, parse_boolean, parse_float, parse_integer, parse_memory_size
from flintstream.common.known_keys import check_keys

PREFIX = "state.backend.rocksdb."
_KB, _MB = 1 << 10, 1 << 20
_STYLES = ("LEVEL", "UNIVERSAL")
_COMPRESSIONS = {
    "NO_COMPRESSION": DBCompressionType.none,
    "SNAPPY_COMPRESSION": DBCompressionType.snappy,
    "LZ4_COMPRESSION": DBCompressionType.lz4,
    "ZSTD_COMPRESSION": DBCompressionType.zstd,
}


@dataclass(frozen=True)
class RocksDBOptions:
    """Settings; the defaults suit a solid-state disk."""

    memory: int = 512 * _MB
    """The memory of all RocksDB backends of a slot together: entries as Python objects, RocksDB's blocks and its write
    buffers. The estimate for the objects is rough.
    """
    entry_cache_ratio: float = 0.5
    """The fraction of the memory for entries as Python objects."""
    write_buffer_ratio: float = 0.5
    """The fraction of the rest for write buffers."""
    block_cache: int | None = None
    """The size of the block cache, if set explicitly."""
    block_size: int = 4 * _KB
    write_buffer_size: int = 64 * _MB
    write_buffers: int = 2
    write_buffers_to_merge: int = 1
    threads: int = 2
    open_files: int = -1
    bloom_bits: int = 10
    """Bits per key of the Bloom filters; 0 for no filters."""
    compaction_style: str = "LEVEL"
    dynamic_level_size: bool = True
    target_file_size: int = 64 * _MB
    level_base_size: int = 256 * _MB
    compression: str = "LZ4_COMPRESSION"
    storage_paths: tuple[str, ...] = ()
    """The local directories of the files; empty for the slot's own."""

    @staticmethod
    def predefined(name: str) -> RocksDBOptions:
        """Returns the settings of a `PredefinedOptions`, by its name."""
        try:
            return _PREDEFINED[name]
        except KeyError:
            raise _refusal("predefined-options", name, f"one of {', '.join(_PREDEFINED)}") from None

    @staticmethod
    def from_configuration(configuration: Mapping[str, str]) -> RocksDBOptions:
        """Reads the options of a job; those not starting with `state.backend.rocksdb.` are ignored."""
        given = {key[len(PREFIX) :]: text for key, text in configuration.items() if key.startswith(PREFIX)}
        options = RocksDBOptions.predefined(given.pop("predefined-options", "DEFAULT"))
        values: dict[str, Any] = {}
        for key, text in given.items():
            if key in _READERS:
                field, parse = _READERS[key]
                values[field] = parse(text, PREFIX + key)
            else:
                check_keys([PREFIX + key])  # A Flink option without effect here is accepted.
        if values.pop("use_bloom", True) is False:
            values["bloom_bits"] = 0
        return replace(options, **values)

    def __post_init__(self) -> None:
        for field, key in (("entry_cache_ratio", "entry-cache-ratio"), ("write_buffer_ratio", "write-buffer-ratio")):
            if not 0 < getattr(self, field) < 1:
                raise _refusal(f"memory.{key}", getattr(self, field), "a number between 0 and 1")
        for field, key in (("threads", "thread.num"), ("write_buffers", "writebuffer.count")):
            if getattr(self, field) < 1:
                raise _refusal(key, getattr(self, field), "at least 1")
        if self.memory < _MB:
            raise _refusal("memory.fixed-per-slot", self.memory, "at least 1 mb")

    @property
    def entry_cache_bytes(self) -> int:
        """Returns the memory for entries as Python objects."""
        return int(self.memory * self.entry_cache_ratio)

    @property
    def write_buffer_bytes(self) -> int:
        """Returns the memory for all write buffers."""
        return int((self.memory - self.entry_cache_bytes) * self.write_buffer_ratio)

    @property
    def block_cache_bytes(self) -> int:
        """Returns the memory for the block cache."""
        if self.block_cache is not None:
            return self.block_cache
        return self.memory - self.entry_cache_bytes - self.write_buffer_bytes

    def storage_path(self, subtask: int, otherwise: str) -> str:
        """Returns the directory of a subtask: the paths in turn, to spread the load over a slot's disks."""
        return self.storage_paths[subtask % len(self.storage_paths)] if self.storage_paths else otherwise


def database_options(options: RocksDBOptions, cache: Cache, buffers: WriteBufferManager) -> Options:
    """Returns RocksDB's own options for one database."""
    made = Options(raw_mode=True)
    made.create_if_missing(True)
    made.set_write_buffer_manager(buffers)
    made.set_write_buffer_size(min(options.write_buffer_size, options.write_buffer_bytes))
    made.set_max_write_buffer_number(options.write_buffers)
    made.set_min_write_buffer_number_to_merge(options.write_buffers_to_merge)
    made.set_max_background_jobs(options.threads)
    made.set_max_open_files(options.open_files)
    # Avoids searching the write buffer for keys that are not in it.
    made.set_memtable_whole_key_filtering(True)
    made.set_memtable_prefix_bloom_ratio(0.05)
    style = DBCompactionStyle.universal if options.compaction_style == "UNIVERSAL" else DBCompactionStyle.level
    made.set_compaction_style(style())
    made.set_level_compaction_dynamic_level_bytes(options.dynamic_level_size)
    made.set_target_file_size_base(options.target_file_size)
    made.set_max_bytes_for_level_base(options.level_base_size)
    made.set_compression_type(_COMPRESSIONS[options.compression]())
    # A file with this many tombstones among so many entries in a row, or with such a share of them, is compacted soon, and
    # what they hide leaves the disk.
    made.add_compact_on_deletion_collector_factory(10_000, 5_000, 0.5)
    # RocksDB's own log would fill the disk of a job that runs for months.
    made.set_keep_log_file_num(2)
    made.set_max_log_file_size(4 * _MB)
    made.set_block_based_table_factory(_blocks(options, cache))
    return made


def _blocks(options: RocksDBOptions, cache: Cache) -> BlockBasedOptions:
    blocks = BlockBasedOptions()
    blocks.set_block_cache(cache)
    blocks.set_block_size(options.block_size)
    blocks.set_format_version(5)
    blocks.set_data_block_index_type(DataBlockIndexType.binary_and_hash())
    blocks.set_cache_index_and_filter_blocks(True)
    blocks.set_pin_l0_filter_and_index_blocks_in_cache(True)
    # Unpartitioned, the filter of a large file does not fit into the cache, and is read for each look-up.
    blocks.set_index_type(BlockBasedIndexType.two_level_index_search())
    blocks.set_partition_filters(True)
    blocks.set_metadata_block_size(4 * _KB)
    if options.bloom_bits:
        blocks.set_bloom_filter(options.bloom_bits, False)
    return blocks


def _refusal(key: str, value: Any, wanted: str) -> ValueError:
    return ValueError(f"'{PREFIX}{key}' must be {wanted}, got {value!r}")


def _rounded(value: Any, key: str) -> int:
    return round(parse_float(value, key))


def _paths(value: Any, key: str) -> tuple[str, ...]:
    paths = tuple(path.strip().removeprefix("file://") for path in re.split("[,;:](?!//)", str(value)) if path.strip())
    for path in paths:
        if not path.startswith("/"):
            raise ValueError(f"'{key}' must name absolute local directories, got {path!r}")
    return paths


_READERS: dict[str, tuple[str, Callable[[Any, str], Any]]] = {
    "localdir": ("storage_paths", _paths),
    "memory.fixed-per-slot": ("memory", parse_memory_size),
    "memory.entry-cache-ratio": ("entry_cache_ratio", parse_float),
    "memory.write-buffer-ratio": ("write_buffer_ratio", parse_float),
    "block.cache-size": ("block_cache", parse_memory_size),
    "block.blocksize": ("block_size", parse_memory_size),
    "writebuffer.size": ("write_buffer_size", parse_memory_size),
    "writebuffer.count": ("write_buffers", parse_integer),
    "writebuffer.number-to-merge": ("write_buffers_to_merge", parse_integer),
    "thread.num": ("threads", parse_integer),
    "files.open": ("open_files", parse_integer),
    "use-bloom-filter": ("use_bloom", parse_boolean),
    "bloom-filter.bits-per-key": ("bloom_bits", _rounded),
    "compaction.style": ("compaction_style", one_of(*_STYLES)),
    "compaction.level.use-dynamic-size": ("dynamic_level_size", parse_boolean),
    "compaction.level.target-file-size-base": ("target_file_size", parse_memory_size),
    "compaction.level.max-size-level-base": ("level_base_size", parse_memory_size),
    "compression.per.level": ("compression", one_of(*_COMPRESSIONS)),
}
"""For each option after the prefix, the field it sets and its parser. All but `memory.entry-cache-ratio` are Flink's;
`compression.per.level` accepts one name, for all levels.
"""

_PREDEFINED = {
    "DEFAULT": RocksDBOptions(),
    "SPINNING_DISK_OPTIMIZED": RocksDBOptions(threads=4),
    "SPINNING_DISK_OPTIMIZED_HIGH_MEM": RocksDBOptions(
        threads=4,
        memory=1024 * _MB,
        block_size=128 * _KB,
        write_buffers=4,
        write_buffers_to_merge=3,
        target_file_size=256 * _MB,
        level_base_size=1024 * _MB,
    ),
    "FLASH_SSD_OPTIMIZED": RocksDBOptions(threads=4),
}
