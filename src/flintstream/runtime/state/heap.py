"""The heap backend: Python objects in dicts. Fast, and limited by memory."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from flintstream.runtime.state.backend import KeyedStateBackend
from flintstream.runtime.state.ttl import IncrementalCleanup


class HeapKeyedStateBackend(KeyedStateBackend):
    """Keyed state as one dict per state.

    Key groups are computed only for snapshots, so a record costs one look-up in one dict.
    """

    def __init__(
        self, operator: str, max_parallelism: int, clock: Callable[[], int], key_groups: range | None = None
    ) -> None:
        super().__init__(operator, max_parallelism, clock, key_groups)
        self._tables: dict[str, dict[Any, Any]] = {}
        self._changed: set[Any] | None = None
        self._cleanups: list[tuple[IncrementalCleanup, int]] = []

    def table(self, name: str) -> dict[Any, Any]:
        return self._tables.setdefault(name, {})

    def touch(self, keys: Collection[Any]) -> None:
        if self._changed is not None:
            self._changed.update(keys)
        for cleanup, size in self._cleanups:
            cleanup.run(size * len(keys), self.clock())

    def clean_with_every_record(self, cleanup: IncrementalCleanup, size: int) -> None:
        # A function may request a state repeatedly.
        if all(known.table is not cleanup.table for known, _ in self._cleanups):
            self._cleanups.append((cleanup, size))

    def peek(self, name: str, key: Any, default: Any) -> Any:
        return self._tables.get(name, {}).get(key, default)

    def changed_keys(self) -> set[Any] | None:
        return self._changed

    def forget_changes(self) -> None:
        self._changed = set()
