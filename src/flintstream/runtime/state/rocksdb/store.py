"""The RocksDB database of a backend, and the memory that all databases of a slot share."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any
from weakref import WeakSet, WeakValueDictionary

from rocksdict import (
    AccessType,
    Cache,
    Checkpoint,
    Rdict,
    ReadOptions,
    WriteBatch,
    WriteBufferManager,
    WriteOptions,
)

from flintstream.runtime.permissions import Permissions
from flintstream.runtime.state.rocksdb.codec import after
from flintstream.runtime.state.rocksdb.options import RocksDBOptions, database_options

RawPairs = Iterable[tuple[bytes, bytes]]
"""Stored keys and values."""
_MANY = 1 << 16
"""Fewer keys are removed one by one: a range tombstone slows down reads until RocksDB has compacted it."""


class SlotMemory:
    """The memory that the backends of a slot share: RocksDB's blocks and write buffers, and a budget for entries."""

    def __init__(self, options: RocksDBOptions) -> None:
        self.blocks = Cache(options.block_cache_bytes)
        self.buffers = WriteBufferManager(options.write_buffer_bytes, False)
        self.users: WeakSet[Any] = WeakSet()
        """The backends; each gets an equal share of the budget."""
        self._entry_cache_bytes = options.entry_cache_bytes

    @property
    def entry_bytes(self) -> int:
        """Returns the budget of one backend for entries as Python objects."""
        return self._entry_cache_bytes // max(len(self.users), 1)


_SHARED: WeakValueDictionary[RocksDBOptions, SlotMemory] = WeakValueDictionary()
"""Shared by the process, which is the slot."""


def slot_memory(options: RocksDBOptions) -> SlotMemory:
    """Returns the memory of this slot for backends with these options."""
    memory = _SHARED.get(options)
    if memory is None:
        memory = _SHARED[options] = SlotMemory(options)
    return memory


class Store:
    """A key-value store of bytes on disk, without a write-ahead log: durability comes from checkpoints."""

    def __init__(self, directory: str, options: RocksDBOptions, memory: SlotMemory, read_only: bool = False) -> None:
        self.directory = directory
        self._memory = memory  # Must outlive the database.
        self._options = database_options(options, memory.blocks, memory.buffers)
        Permissions.OWNER.make_directory(directory)
        access = AccessType.read_only() if read_only else AccessType.read_write()
        self._database: Any = Rdict(directory, self._options, access_type=access)
        writing: Any = WriteOptions()
        writing.disable_wal = True  # An attribute, despite the package's stubs.
        self._write = writing

    def get(self, keys: list[bytes]) -> list[bytes | None]:
        """Returns the values of keys; faster if the keys are sorted."""
        found: list[bytes | None] = self._database.get(keys)
        return found

    def write(self, entries: dict[bytes, bytes], removed: Iterable[bytes] = ()) -> None:
        """Sets some keys and removes others."""
        batch = WriteBatch(raw_mode=True)
        put, delete = batch.put, batch.delete
        # RocksDB takes half the time for sorted keys.
        for key in sorted(entries):
            put(key, entries[key])
        for key in sorted(removed):
            delete(key)
        self._database.write(batch, self._write)

    def items(self, prefix: bytes, start: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """Yields all keys with a prefix, from `start` on, and their values, in order, from a snapshot."""
        reading = ReadOptions()
        reading.set_iterate_upper_bound(after(prefix))
        # The iterator reads its bound from `reading`, which must live as long.
        found = self._database.items(from_key=start or prefix, read_opt=reading)
        return _held(found, reading)

    def remove_range(self, start: bytes, end: bytes) -> None:
        """Removes all keys from `start` (inclusive) to `end` (exclusive)."""
        self._database.delete_range(start, end, self._write)

    def remove_all(self, prefix: bytes) -> None:
        """Removes all keys with a prefix."""
        keys = [key for key, _ in islice(self.items(prefix), _MANY)]
        if len(keys) < _MANY:
            self.write({}, keys)
        else:
            self.remove_range(prefix, after(prefix))

    def flush_soon(self) -> None:
        """Starts to write the contents of memory to a file; does not wait."""
        self._database.flush(False)

    def link_to(self, directory: str) -> None:
        """Creates a consistent copy in a directory, which must not exist; its large files are hard links."""
        Permissions.OWNER.make_directory(directory)
        # RocksDB creates a world-readable directory: it is created where others have no access.
        made = os.path.join(directory, "made")
        Checkpoint(self._database).create_checkpoint(made)
        for name in os.listdir(made):
            os.rename(os.path.join(made, name), os.path.join(directory, name))
        os.rmdir(made)

    def close(self) -> None:
        """Closes the database."""
        self._database.close()

    def destroy(self) -> None:
        """Closes the database and removes its files."""
        self.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def _held(items: Iterable[tuple[bytes, bytes]], needed: Any) -> Iterator[tuple[bytes, bytes]]:
    """Yields the items, keeping the objects they depend on alive."""
    yield from items
    del needed
