"""SnapshotChain: decides whether a checkpoint stores all keyed state of an operator, or only the changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flintstream.runtime.checkpoint.snapshot import OperatorSnapshot, take_database_snapshot, take_snapshot
from flintstream.runtime.state.backend import KeyedStateBackend
from flintstream.runtime.state.operator_state import OperatorStateBackend
from flintstream.runtime.time.timers import StoredTimers

LONGEST_CHAIN = 100
"""The maximum number of deltas after a full snapshot: the metadata list them all, however small they are."""


@dataclass(frozen=True)
class _Taken:
    """A snapshot whose checkpoint is not known to be complete."""

    checkpoint_id: int
    changed: frozenset[Any] | set[Any]
    """The keys touched since the previous snapshot."""
    size: int
    full: bool


class SnapshotChain:
    """Takes the snapshots of one operator: full ones, or deltas since the last completed checkpoint.

    A chain starts with a full snapshot, and a new chain starts when its deltas have become as large as that, or too
    many. The changes of an aborted checkpoint are included in the next one.
    """

    def __init__(self, backend: KeyedStateBackend | None, incremental: bool) -> None:
        self._backend = backend
        self._incremental = incremental
        self._base: int | None = None
        self._full_size = 0
        self._changes_size = 0
        self._changes_count = 0
        self._taken: list[_Taken] = []

    def take(self, checkpoint_id: int, operator: OperatorStateBackend, timers: StoredTimers) -> OperatorSnapshot:
        """Takes the snapshot for a checkpoint."""
        backend = self._backend
        if backend is not None and backend.database is not None:
            return take_database_snapshot(backend, operator, timers, f"{backend.database}-{checkpoint_id}")
        if backend is None or not self._incremental:
            return take_snapshot(backend, operator, timers)
        changed = backend.changed_keys()
        ended = self._changes_size >= self._full_size or self._changes_count >= LONGEST_CHAIN
        if self._base is None or changed is None or ended:
            snapshot = take_snapshot(backend, operator, timers)
        else:
            since_base = changed.union(*(taken.changed for taken in self._taken))
            snapshot = take_snapshot(backend, operator, timers, since_base, self._base)
        full = not snapshot.only_changes
        self._taken.append(_Taken(checkpoint_id, changed or frozenset(), snapshot.keyed_size, full))
        backend.forget_changes()
        return snapshot

    def completed(self, checkpoint_id: int) -> None:
        """Marks a checkpoint as complete: later deltas are relative to it."""
        for taken in self._taken:
            if taken.checkpoint_id == checkpoint_id:
                self._base = checkpoint_id
                self._full_size = taken.size if taken.full else self._full_size
                self._changes_size = 0 if taken.full else self._changes_size + taken.size
                self._changes_count = 0 if taken.full else self._changes_count + 1
        self._taken = [taken for taken in self._taken if taken.checkpoint_id > checkpoint_id]
