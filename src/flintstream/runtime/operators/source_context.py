"""SourceContext: the buffer between the thread of a source function and the epochs, and the checkpoint lock."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from flintstream.runtime.batch import NO_TIMESTAMP
from flintstream.runtime.block import Idleness, Watermark
from flintstream.runtime.detach import detached

BUFFER_RECORDS = 65536
"""How far a source function may run ahead of the epochs before `collect` waits."""


class Cancelled(BaseException):
    """Ends `run` from inside `collect` after a cancel."""


class CheckpointLock:
    """Held by a source function while it emits and changes its state together: a `threading.RLock`.

    A snapshot that wants it comes next, before all others who wait: a function that takes the lock again and again would
    otherwise keep it out by luck of the scheduler.
    """

    def __init__(self) -> None:
        lock: Any = threading.RLock()
        self._take = lock.acquire
        self._changed = threading.Condition()
        self._wanted = False
        self.release = self._give_back = lock.release
        # What threading.Condition asks of a reentrant lock.
        self._is_owned = lock._is_owned
        self._release_save = lock._release_save
        self._acquire_restore = lock._acquire_restore

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Takes the lock; false if it was not to be had in time."""
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
        """Takes the lock for a snapshot, as soon as its holder releases it; false if that takes too long."""
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
        with self._changed:  # A snapshot wants the lock for a limited time.
            return blocking and self._changed.wait_for(lambda: not self._wanted, None if timeout < 0 else timeout)


class SourceContext:
    """Given to `run(ctx)`: takes the records and watermarks of a source function.

    `collect` waits while the buffer is full, and may hold the checkpoint lock meanwhile. The thread that drains the buffer
    also takes the snapshots, so a snapshot that waits for the lock lets `collect` go on beyond the buffer's size until the
    function releases the lock: what it emits and what it remembers stay together.
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
        """Held while records and the function's state change together."""
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
        """Says that nothing will come for a while, so that others need not wait for this source."""
        self._add(Idleness(True))

    def close(self) -> None:
        """Nothing has to be released here; called by some programs at the end of `run`."""

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
        """Whether no element waits for an epoch."""
        return not self._elements

    def restore(self, elements: Iterable[Any]) -> None:
        """Puts back what an earlier run had emitted: however much it is, it is there already, and nobody drains it yet."""
        with self._changed:
            self._elements.extend(elements)
        if self._elements:
            self._notify_data()

    def take(self, limit: int) -> list[Any]:
        """Drains up to `limit` elements."""
        with self._changed:
            taken = self._elements[:limit]
            del self._elements[:limit]
            self._changed.notify_all()
            return taken

    def waiting(self) -> list[Any]:
        """The elements that no epoch has taken yet."""
        with self._changed:
            return list(self._elements)

    def lock_for_snapshot(self, seconds: float) -> bool:
        """Takes the checkpoint lock; false if the function has not released it in time."""
        self._let_overflow(True)
        try:
            return self.lock.seize(seconds)
        finally:
            self._let_overflow(False)

    def begin_cancel(self) -> None:
        """Before the function's `cancel`, which may take the lock that a waiting `collect` holds."""
        self._let_overflow(True)

    def cancel(self) -> None:
        """From now on `collect` ends `run`."""
        with self._changed:
            self._cancelled = True
            self._changed.notify_all()

    def _let_overflow(self, overflows: bool) -> None:
        with self._changed:
            self._overflows = overflows
            self._changed.notify_all()
