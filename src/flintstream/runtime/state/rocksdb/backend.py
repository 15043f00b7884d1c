"""The RocksDB backend: keyed state on the slot's disk, with a bounded cache in memory."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from flintstream.common.serializer_snapshot import SchemaCompatibility, TypeSerializerSnapshot
from flintstream.common.typeinfo import Types
from flintstream.runtime.state import ttl, views
from flintstream.runtime.state.backend import KeyedStateBackend, KeyedStateInfo, RestoredState, StoredKeyedState
from flintstream.runtime.state.rocksdb.checkpoint import (
    RocksDBCheckpoint,
    best_base,
    clip,
    copy_groups,
    list_files,
    overlap,
    take_files,
)
from flintstream.runtime.state.rocksdb.cleanup import BUSY, IDLE, ExpiryCleanup
from flintstream.runtime.state.rocksdb.codec import EntryCodec, KeyCodec
from flintstream.runtime.state.rocksdb.collections import (
    CollectionTable,
    RocksDBListState,
    RocksDBMapState,
    RocksDBTtlListState,
    RocksDBTtlMapState,
)
from flintstream.runtime.state.rocksdb.options import RocksDBOptions
from flintstream.runtime.state.rocksdb.store import SlotMemory, Store, slot_memory
from flintstream.runtime.state.rocksdb.table import CachedTable
from flintstream.runtime.state.ttl import IncrementalCleanup

_ANY = Types.PICKLED_BYTE_ARRAY()
_FREED = 0.125
"""The fraction of the cache evicted when it is full."""
_CHUNK = 4096


class RocksDBKeyedStateBackend(KeyedStateBackend):
    """Keyed state in one RocksDB database, whose directory is removed when the backend is closed.

    Recently used entries are Python objects in a bounded cache; see `CachedTable`. Expired entries are removed between
    blocks; see `cleanup`.
    """

    cleans_incrementally = False
    list_view, map_view = RocksDBListState, RocksDBMapState
    ttl_list_view, ttl_map_view = RocksDBTtlListState, RocksDBTtlMapState

    def __init__(
        self,
        operator: str,
        max_parallelism: int,
        clock: Callable[[], int],
        key_groups: range | None,
        directory: str,
        options: RocksDBOptions | None = None,
    ) -> None:
        super().__init__(operator, max_parallelism, clock, key_groups)
        if os.path.isdir(directory) and os.listdir(directory):
            raise FileExistsError(
                f"operator '{operator}': the directory {directory!r} for RocksDB's files is not empty: each backend "
                "needs its own directory"
            )
        self.database: str = directory
        self._options = RocksDBOptions() if options is None else options
        self._memory: SlotMemory = slot_memory(self._options)
        self._memory.users.add(self)
        self._opened: Store | None = None
        self._tables: dict[str, CachedTable] = {}
        self._numbers: dict[str, int] = {}
        self._declared: dict[str, KeyedStateInfo] = {}
        """The states requested by functions, whose entries fit their declarations."""
        self._identity = uuid.uuid4().hex
        self._identities: dict[str, str] = {}
        """The identities of files that came from a checkpoint."""
        self._cleanup = ExpiryCleanup(clock)

    def _store(self) -> Store:
        if self._opened is None:
            self._opened = Store(self.database, self._options, self._memory)
        return self._opened

    # --- tables ---

    def table(self, name: str) -> CachedTable:
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = self._make_table(name, stored=False)
        return table

    def _make_table(self, name: str, stored: bool) -> CachedTable:
        number = self._numbers.setdefault(name, len(self._numbers))
        place = f"operator '{self.operator}': state {name!r}"
        keys = KeyCodec(number, self.max_parallelism)
        codec = self._codec(name)
        if codec.kind in ("list", "map"):
            return CollectionTable(place, self._store, keys, self.key_groups, codec, stored, self._make_room)
        return CachedTable(place, self._store, keys, self.key_groups, codec, stored)

    def _codec(self, name: str) -> EntryCodec:
        info, restored = self.states.get(name), self.restored.get(name)
        if restored is not None:
            return EntryCodec(restored.kind, restored.create_serializer(), restored.expires)
        return EntryCodec("value", _ANY.create_serializer(), False) if info is None else _codec_of(info)

    def value_view(self, table: CachedTable, default: Any) -> views.ValueStateView:
        view = super().value_view(table, default)
        return view if type(view) is not views.ValueStateView else table.value_view(self, default)

    def touch(self, keys: Collection[Any]) -> None:
        self._cleanup.run(BUSY)
        tables = self._tables.values()
        surplus = self._surplus()
        if surplus or any(table.may_prefetch for table in tables):
            block = set(keys)
            for table in tables:
                if surplus:
                    table.evict(surplus, block)
                table.prefetch(block)
        for table in tables:
            table.measure(keys)

    def _make_room(self) -> None:
        """Evicts entries while a block is processed, which may access any number of entries of a map."""
        surplus = self._surplus()
        if surplus:
            for table in self._tables.values():
                table.trim(surplus)

    def _surplus(self) -> float:
        """Returns the fraction of the caches to evict; 0 while there is room."""
        used, budget = sum(table.size for table in self._tables.values()), self._memory.entry_bytes
        return 1 - budget * (1 - _FREED) / used if used > budget else 0

    def cleanup_due(self) -> float | None:
        return self._cleanup.due()

    def clean_up(self, idle: bool = False) -> None:
        self._cleanup.run(IDLE if idle else BUSY)

    def clean_with_every_record(self, cleanup: IncrementalCleanup, size: int) -> None:
        """Does nothing: as in Flink, RocksDB has its own cleanup."""

    def peek(self, name: str, key: Any, default: Any) -> Any:
        table = self._tables.get(name)
        return default if table is None else table.peek(key, default)

    def changed_keys(self) -> set[Any] | None:
        return None

    def forget_changes(self) -> None:
        """Does nothing: incremental checkpoints are based on new files."""

    # --- what the program declares ---

    def _take_over(self, info: KeyedStateInfo) -> None:
        # A function may request a state repeatedly.
        if self._declared.get(info.name) != info:
            table = self.table(info.name)
            super()._take_over(info)
            table.rewrite(_codec_of(info))
            self._declared[info.name] = info
            live = info.time_to_live
            if live is not None and live.cleanup_in_compaction:
                self._cleanup.add(info.name, table, live)

    def _migrate(self, info: KeyedStateInfo, compatibility: SchemaCompatibility) -> None:
        def convert(entries: list[Any]) -> list[Any]:
            if info.time_to_live is None:
                return list(compatibility.migrate(entries))
            values, times = ttl.without_times(info.kind, entries)
            return ttl.with_times(info.kind, list(compatibility.migrate(values)), times)

        self.table(info.name).rewrite(_codec_of(info), convert)

    # --- by key ---

    def key_chunks(self, name: str) -> Iterator[list[Any]]:
        keys = iter(self.table(name))
        while chunk := list(islice(keys, _CHUNK)):
            yield chunk

    def by_key_group(self, name: str, keys: Iterable[Any] | None = None) -> dict[int, dict[Any, Any]]:
        if keys is not None:
            return super().by_key_group(name, keys)
        table = self.table(name)
        found = ((group, table.of_group(group)) for group in self.key_groups)
        return {group: entries for group, entries in found if entries}

    def groups(self) -> Iterator[tuple[int, dict[str, dict[Any, Any]]]]:
        names = [info.name for info, _ in self.entries()]
        for group in self.key_groups:
            content = {name: self.table(name).of_group(group) for name in names}
            yield group, {name: entries for name, entries in content.items() if entries}

    # --- checkpoints ---

    def checkpoint(self, directory: str) -> RocksDBCheckpoint:
        """Takes a checkpoint in a local directory, which must not exist.

        Immutable files are hard links, so it is cheap; the caller removes it.
        """
        for table in self._tables.values():
            table.flush()
        self._store().link_to(directory)
        states = {info.name: _describe(info) for info, _ in self.entries()}
        numbers = {name: self._numbers[name] for name in states}
        files = list_files(directory, self._identities, self._identity)
        return RocksDBCheckpoint(directory, self.key_groups, files, states, numbers)

    def restore(self, checkpoints: list[RocksDBCheckpoint]) -> None:
        """Restores the key groups of this subtask from checkpoints; called before anything else."""
        found = [each for each in checkpoints if overlap(each.key_groups, self.key_groups)]
        if not found:
            return
        if self._opened is not None:
            raise RuntimeError(f"operator '{self.operator}': state was used before the checkpoint was restored")
        base = best_base(found, self.key_groups)
        take_files(base, self.database)
        self._identities = {file.name: file.identity for file in base.files if file.identity is not None}
        clip(self._store(), base.key_groups, self.key_groups)
        merged = self._merged(base, found)
        for each in found:
            if each is not base:
                self._copy(each, merged)
        for name, stored in merged.states.items():
            written = TypeSerializerSnapshot.from_data(stored.serializer)
            self.restored[name] = RestoredState(stored.kind, written, stored.expires)
            self._tables[name] = self._make_table(name, stored=True)

    def _merged(self, base: RocksDBCheckpoint, others: list[RocksDBCheckpoint]) -> RocksDBCheckpoint:
        """Returns the merged declaration: the states of all checkpoints, numbered as in the base or with new numbers."""
        states = dict(base.states)
        self._numbers = dict(base.numbers)
        for each in others:
            for name, stored in each.states.items():
                states.setdefault(name, stored)
                self._numbers.setdefault(name, max(self._numbers.values()) + 1 if self._numbers else 0)
        return replace(base, states=states, numbers=self._numbers)

    def _copy(self, checkpoint: RocksDBCheckpoint, merged: RocksDBCheckpoint) -> None:
        source = Store(checkpoint.directory, self._options, self._memory, read_only=True)
        try:
            copy_groups(checkpoint, source, self._store(), overlap(checkpoint.key_groups, self.key_groups), merged)
        finally:
            source.close()

    def close(self) -> None:
        self._memory.users.discard(self)
        self._cleanup.clear()
        self._tables.clear()
        if self._opened is not None:
            self._opened.destroy()
            self._opened = None


def _codec_of(info: KeyedStateInfo) -> EntryCodec:
    serializer = (_ANY if info.type_info is None else info.type_info).create_serializer()
    return EntryCodec(info.kind, serializer, info.time_to_live is not None)


def _describe(info: KeyedStateInfo) -> StoredKeyedState:
    codec = _codec_of(info)
    return StoredKeyedState(info.kind, codec.serializer.snapshot_configuration().to_data(), codec.expires)
