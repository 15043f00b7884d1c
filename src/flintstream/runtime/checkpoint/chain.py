"""SnapshotChain: decides whether a checkpoint stores all keyed state and timers of an operator, or only the changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from flintstream.runtime.checkpoint.snapshot import OperatorSnapshot, take_database_snapshot, take_snapshot
from flintstream.runtime.state.backend import KeyedStateBackend
from flintstream.runtime.state.operator_state import OperatorStateBackend
from flintstream.runtime.time.changes import ChangedTimers, StoredTimers, merged
from flintstream.runtime.time.timers import TimerService

LONGEST_CHAIN = 100
"""The maximum number of deltas after a full snapshot: the metadata list them all, however small they are."""


@dataclass(frozen=True)
class _Taken:
    """A snapshot whose checkpoint is not known to be complete."""

    checkpoint_id: int
    changed: frozenset[Any] | set[Any]
    """The keys touched since the previous snapshot."""
    timers: ChangedTimers | None
    """The changes of timers since then; None for the first snapshot."""
    size: int
    full: bool
    aborted: bool = False


class SnapshotChain:
    """Takes the snapshots of one operator: full ones, or deltas since the last completed checkpoint.

    A chain starts with a full snapshot, and a new chain starts when its deltas have become as large as that, or too
    many. The changes of an aborted checkpoint are included in the next one. With a database, which has its own way of
    storing changes, the chain is that of the timers.
    """

    def __init__(self, backend: KeyedStateBackend | None, incremental: bool) -> None:
        self._backend = backend
        self._incremental = incremental
        self._base: int | None = None
        self._full_size = 0
        self._changes_size = 0
        self._changes_count = 0
        self._taken: list[_Taken] = []

    def take(self, checkpoint_id: int, operator: OperatorStateBackend, timers: TimerService | None) -> OperatorSnapshot:
        """Takes the snapshot for a checkpoint."""
        backend = self._backend
        if backend is None:
            return take_snapshot(None, operator, ([], []))
        if not self._incremental:
            return self._snapshot(backend, checkpoint_id, operator, _all(timers))
        changed = backend.changed_keys()
        # Without timers there are no changes either.
        moved = ChangedTimers() if timers is None else timers.take_changes()
        if self._starts_anew(backend, changed, moved):
            snapshot = self._snapshot(backend, checkpoint_id, operator, _all(timers))
        else:
            since_base = (changed or set()).union(*(taken.changed for taken in self._taken))
            changes = merged(each for each in (*(taken.timers for taken in self._taken), moved) if each is not None)
            few = timers is None or timers.outnumber(changes.size)
            snapshot = self._snapshot(
                backend, checkpoint_id, operator, changes if few else _all(timers), since_base, self._base
            )
        self._keep(_Taken(checkpoint_id, changed or frozenset(), moved, snapshot.keyed_size, not snapshot.only_changes))
        backend.forget_changes()
        return snapshot

    def _starts_anew(self, backend: KeyedStateBackend, changed: set[Any] | None, moved: ChangedTimers | None) -> bool:
        if self._base is None or moved is None or (changed is None and backend.database is None):
            return True
        return self._changes_size >= self._full_size or self._changes_count >= LONGEST_CHAIN

    def _snapshot(
        self,
        backend: KeyedStateBackend,
        checkpoint_id: int,
        operator: OperatorStateBackend,
        timers: StoredTimers | ChangedTimers,
        changed: set[Any] | None = None,
        base: int | None = None,
    ) -> OperatorSnapshot:
        if backend.database is None:
            return take_snapshot(backend, operator, timers, changed, base)
        return take_database_snapshot(backend, operator, timers, f"{backend.database}-{checkpoint_id}", base)

    def _keep(self, taken: _Taken) -> None:
        if self._taken and self._taken[-1].aborted:
            before = self._taken.pop()
            timers = before.timers and taken.timers and merged((before.timers, taken.timers))
            taken = replace(taken, changed=before.changed | taken.changed, timers=timers)
        self._taken.append(taken)

    def completed(self, checkpoint_id: int) -> None:
        """Marks a checkpoint as complete: later deltas are relative to it."""
        for taken in self._taken:
            if taken.checkpoint_id == checkpoint_id:
                self._base = checkpoint_id
                self._full_size = taken.size if taken.full else self._full_size
                self._changes_size = 0 if taken.full else self._changes_size + taken.size
                self._changes_count = 0 if taken.full else self._changes_count + 1
        self._taken = [taken for taken in self._taken if taken.checkpoint_id > checkpoint_id]

    def aborted(self, checkpoint_id: int) -> None:
        """Marks a checkpoint as aborted."""
        self._taken = [
            replace(taken, aborted=True) if taken.checkpoint_id == checkpoint_id else taken for taken in self._taken
        ]


def _all(timers: TimerService | None) -> StoredTimers:
    return ([], []) if timers is None else timers.stored()
