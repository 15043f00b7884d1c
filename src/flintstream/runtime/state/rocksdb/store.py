"""A RocksDB database of a backend, and the memory that all databases of a slot share."""

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
"""Fewer keys are removed one by one: a range that was removed makes each reading slower until RocksDB has compacted it."""


class SlotMemory:
    """The memory that the backends of a slot share: RocksDB's blocks and write buffers, and a budget for entries."""

    def __init__(self, options: RocksDBOptions) -> None:
        self.blocks = Cache(options.block_cache_bytes)
        self.buffers = WriteBufferManager(options.write_buffer_bytes, False)
        self.users: WeakSet[Any] = WeakSet()
        """The backends; each gets the same part of the budget."""
        self._entry_cache_bytes = options.entry_cache_bytes

    @property
    def entry_bytes(self) -> int:
        """What one backend may use for entries as Python objects."""
        return self._entry_cache_bytes // max(len(self.users), 1)


_SHARED: WeakValueDictionary[RocksDBOptions, SlotMemory] = WeakValueDictionary()
"""A slot is a process, so what a process shares a slot shares."""


def slot_memory(options: RocksDBOptions) -> SlotMemory:
    """The memory of this slot for backends with these options."""
    memory = _SHARED.get(options)
    if memory is None:
        memory = _SHARED[options] = SlotMemory(options)
    return memory


class Store:
    """Bytes to bytes on disk. There is no write-ahead log: what is to survive goes into a checkpoint."""

    def __init__(self, directory: str, options: RocksDBOptions, memory: SlotMemory, read_only: bool = False) -> None:
        self.directory = directory
        self._memory = memory  # Must outlive the database.
        self._options = database_options(options, memory.blocks, memory.buffers)
        Permissions.OWNER.make_directory(directory)
        access = AccessType.read_only() if read_only else AccessType.read_write()
        self._database: Any = Rdict(directory, self._options, access_type=access)
        writing: Any = WriteOptions()
        writing.disable_wal = True  # An attribute, whatever the stubs of the package say.
        self._write = writing

    def get(self, keys: list[bytes]) -> list[bytes | None]:
        """The values of keys; faster if these are in order."""
        found: list[bytes | None] = self._database.get(keys)
        return found

    def write(self, entries: dict[bytes, bytes], removed: Iterable[bytes] = ()) -> None:
        """Sets some keys and removes others."""
        batch = WriteBatch(raw_mode=True)
        put, delete = batch.put, batch.delete
        # In order, RocksDB takes half the time.
        for key in sorted(entries):
            put(key, entries[key])
        for key in sorted(removed):
            delete(key)
        self._database.write(batch, self._write)

    def items(self, prefix: bytes, start: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """All keys with a prefix, from `start` on, and their values as they are now, in order."""
        reading = ReadOptions()
        reading.set_iterate_upper_bound(after(prefix))
        # The iterator reads the bound out of `reading`, which must live as long.
        found = self._database.items(from_key=start or prefix, read_opt=reading)
        return _held(found, reading)

    def remove_range(self, start: bytes, end: bytes) -> None:
        """Removes all keys from `start` on that are before `end`."""
        self._database.delete_range(start, end, self._write)

    def remove_all(self, prefix: bytes) -> None:
        """Removes all keys with a prefix."""
        keys = [key for key, _ in islice(self.items(prefix), _MANY)]
        if len(keys) < _MANY:
            self.write({}, keys)
        else:
            self.remove_range(prefix, after(prefix))

    def link_to(self, directory: str) -> None:
        """Makes a consistent copy in a directory that does not exist yet; its large files are hard links."""
        Permissions.OWNER.make_directory(directory)
        # RocksDB makes a directory that others may read: it is made where they may not enter.
        made = os.path.join(directory, "made")
        Checkpoint(self._database).create_checkpoint(made)
        for name in os.listdir(made):
            os.rename(os.path.join(made, name), os.path.join(directory, name))
        os.rmdir(made)

    def close(self) -> None:
        """Lets the files go."""
        self._database.close()

    def destroy(self) -> None:
        """Closes the database and removes its files."""
        self.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def _held(items: Iterable[tuple[bytes, bytes]], needed: Any) -> Iterator[tuple[bytes, bytes]]:
    """The items, with what they need kept alive."""
    yield from items
    del needed
