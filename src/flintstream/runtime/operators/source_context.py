"""SourceContext: the buffer between the thread of a source function and the epochs, and the checkpoint lock."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from flintstream.runtime.batch import NO_TIMESTAMP
from flintstream.runtime.block import Idleness, Watermark
from flintstream.runtime.detach import detached

BUFFER_RECORDS = 65536
"""How far a source function may run ahead of the epochs before `collect` blocks."""


class Cancelled(BaseException):
    """Ends `run` from inside `collect` after a cancel."""


class CheckpointLock:
    """A `threading.RLock` that a source function holds while it emits and updates its state together.

    A waiting snapshot gets it before all others: otherwise a function that reacquires the lock repeatedly could starve
    it.
    """

    def __init__(self) -> None:
        lock: Any = threading.RLock()
        self._take = lock.acquire
        self._changed = threading.Condition()
        self._wanted = False
        self.release = self._give_back = lock.release
        # The interface that threading.Condition needs of a reentrant lock.
        self._is_owned = lock._is_owned
        self._release_save = lock._release_save
        self._acquire_restore = lock._acquire_restore

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquires the lock; returns False after a timeout."""
        if self._wanted and not self._give_way(blocking, timeout):
            return False
        return self._take(blocking, timeout)  # type: ignore[no-any-return]

    def __enter__(self) -> bool:
        if self._wanted:
            self._give_way()
        return self._take()  # type: ignore[no-any-return]

    def __exit__(self, *exception: object) -> None:
        self._give_back()

    def seize(self, seconds: float) -> bool:
        """Acquires the lock for a snapshot, as soon as its holder releases it; returns False after a timeout."""
        self._wanted = True
        try:
            return self._take(timeout=seconds)  # type: ignore[no-any-return]
        finally:
            with self._changed:
                self._wanted = False
                self._changed.notify_all()

    def _give_way(self, blocking: bool = True, timeout: float = -1) -> bool:
        if self._is_owned():
            return True
        with self._changed:  # A snapshot waits for the lock for a limited time.
            return blocking and self._changed.wait_for(lambda: not self._wanted, None if timeout < 0 else timeout)


class SourceContext:
    """Passed to `run(ctx)`: receives the records and watermarks of a source function.

    `collect` blocks while the buffer is full, and may hold the checkpoint lock meanwhile. The thread that drains the
    buffer also takes the snapshots, so while a snapshot waits for the lock, `collect` continues beyond the buffer's
    size until the function releases the lock: emitted records and the function's state stay consistent.
    """

    def __init__(self, notify_data: Any) -> None:
        self.lock = CheckpointLock()
        self._changed = threading.Condition()
        self._notify_data = notify_data
        self._elements: list[tuple[Any, int] | Watermark | Idleness] = []
        self._overflows = False
        self._cancelled = False

    # --- for the function ---

    def get_checkpoint_lock(self) -> CheckpointLock:
        """Returns the lock to hold while emitting a record and updating the function's state together."""
        return self.lock

    def collect(self, element: Any) -> None:
        """Emits a record without a timestamp."""
        self._add((detached(element), NO_TIMESTAMP))

    def collect_with_timestamp(self, element: Any, timestamp: int) -> None:
        """Emits a record with a timestamp in milliseconds."""
        self._add((detached(element), int(timestamp)))

    def emit_watermark(self, watermark: Any) -> None:
        """Emits a watermark: milliseconds, or an object with `timestamp`."""
        self._add(Watermark(int(getattr(watermark, "timestamp", watermark))))

    def mark_as_temporarily_idle(self) -> None:
        """Marks the source as idle, so that watermarks advance without it until it emits again."""
        self._add(Idleness(True))

    def close(self) -> None:
        """Does nothing; called by some programs at the end of `run`."""

    def _add(self, element: Any) -> None:
        with self._changed:
            while len(self._elements) >= BUFFER_RECORDS and not (self._overflows or self._cancelled):
                self._changed.wait()  # Ended by the next epoch, snapshot or cancel.
            if self._cancelled:
                raise Cancelled
            first = not self._elements
            self._elements.append(element)
        if first:
            self._notify_data()

    # --- for the operator ---

    @property
    def empty(self) -> bool:
        """Returns whether no element waits for an epoch."""
        return not self._elements

    def restore(self, elements: Iterable[Any]) -> None:
        """Restores the elements in flight, without a limit: nothing drains them yet."""
        with self._changed:
            self._elements.extend(elements)
        if self._elements:
            self._notify_data()

    def take(self, limit: int) -> list[Any]:
        """Removes and returns up to `limit` elements."""
        with self._changed:
            taken = self._elements[:limit]
            del self._elements[:limit]
            self._changed.notify_all()
            return taken

    def waiting(self) -> list[Any]:
        """Returns the elements that no epoch has taken yet."""
        with self._changed:
            return list(self._elements)

    def lock_for_snapshot(self, seconds: float) -> bool:
        """Acquires the checkpoint lock; returns False if the function has not released it in time."""
        self._let_overflow(True)
        try:
            return self.lock.seize(seconds)
        finally:
            self._let_overflow(False)

    def begin_cancel(self) -> None:
        """Called before the function's `cancel`, which may take the lock that a waiting `collect` holds."""
        self._let_overflow(True)

    def cancel(self) -> None:
        """Makes `collect` end `run` from now on."""
        with self._changed:
            self._cancelled = True
            self._changed.notify_all()

    def _let_overflow(self, overflows: bool) -> None:
        with self._changed:
            self._overflows = overflows
            self._changed.notify_all()
