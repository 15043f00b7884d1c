"""SourceFunctions: user code that runs in a thread of its own and hands out records when it likes."""

from __future__ import annotations

import threading
import time
from typing import Any

from flintstream.runtime.batch import NO_TIMESTAMP, Batch
from flintstream.runtime.block import Idleness, Watermark
from flintstream.runtime.captured import released
from flintstream.runtime.faults import UserCodeError, user_fault
from flintstream.runtime.operators.base import FunctionOperator
from flintstream.runtime.operators.source import SourceHead
from flintstream.runtime.pace import Pace
from flintstream.runtime.source import Split
from flintstream.runtime.state.checkpointed import CheckpointedFunction, ListCheckpointed
from flintstream.runtime.state.operator_state import ListDescriptor

BUFFER_RECORDS = 65536
"""How far a source function may run ahead of the epochs before `collect` waits."""
_CANCEL_SECONDS = 5.0
_WAITING = ListDescriptor("waiting-elements")
"""What the function has emitted and no epoch has taken yet."""
_ENDED = ListDescriptor("ended")
"""One element a subtask: whether the function has returned."""


class _Cancelled(BaseException):
    """Ends `run` from inside `collect` after a cancel."""


class SourceContext:
    """Given to `run(ctx)`: takes the records and watermarks of a source function."""

    def __init__(self, notify_data: Any) -> None:
        self._lock = threading.RLock()
        self._changed = threading.Condition()
        self._notify_data = notify_data
        self._elements: list[tuple[Any, int] | Watermark | Idleness] = []
        self._records = 0
        self._cancelled = False

    def get_checkpoint_lock(self) -> threading.RLock:
        """Held while records and the function's state change together."""
        return self._lock

    def collect(self, element: Any) -> None:
        """Emits a record without a timestamp."""
        self._add((element, NO_TIMESTAMP))

    def collect_with_timestamp(self, element: Any, timestamp: int) -> None:
        """Emits a record with a timestamp in milliseconds."""
        self._add((element, int(timestamp)))

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
            while self._records >= BUFFER_RECORDS and not self._cancelled:
                self._changed.wait()
            if self._cancelled:
                raise _Cancelled
            first = not self._elements
            self._elements.append(element)
            self._records += 1
        if first:
            self._notify_data()

    def _take(self, limit: int) -> list[Any]:
        with self._changed:
            taken = self._elements[:limit]
            del self._elements[:limit]
            self._records -= len(taken)
            self._changed.notify_all()
            return taken

    def _waiting(self) -> list[Any]:
        with self._changed:
            return list(self._elements)

    def _cancel(self) -> None:
        with self._changed:
            self._cancelled = True
            self._changed.notify_all()


class SourceFunctionOperator(FunctionOperator, SourceHead):
    """Runs a `SourceFunction` in a thread and drains what it has collected in each epoch."""

    bounded = False

    @property
    def replayable(self) -> bool:
        """Whether the function goes on where a checkpoint has left it: only it can know its place."""
        return isinstance(released(self.function), CheckpointedFunction | ListCheckpointed)

    def open(self) -> None:
        super().open()
        self._run = self.bound("run")
        self._error: BaseException | None = None
        self._ended = threading.Event()
        self._idle = False
        self._pace = Pace(BUFFER_RECORDS)
        self._source_context = SourceContext(self.context.services.notify_data)
        for element in self.context.operator_state.get_list_state(_WAITING):
            self._source_context._add(element)
        self._thread = threading.Thread(target=self._run_function, name=f"source {self.context.name}", daemon=True)
        ended = list(self.context.operator_state.get_list_state(_ENDED))
        if ended and all(ended):
            self._ended.set()  # It has said all that it has to say.
        else:
            self._thread.start()

    def _run_function(self) -> None:
        try:
            self._run(self._source_context)
        except _Cancelled:
            pass
        except BaseException as error:  # sys.exit() too: a source that dies must not look like one that is done
            self._error = user_fault(error, self.context.name, self.context.subtask)
        finally:
            self._ended.set()
            self.context.services.notify_data()

    def assign(self, splits: list[tuple[Split, Any]]) -> None:
        raise AssertionError("a source function has no splits")

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> None:
        # Under the lock the function's state and what it has emitted belong together; what no epoch has taken yet is
        # stored with it, and comes first after a restore.
        with self._source_context.get_checkpoint_lock():
            super().snapshot_state(checkpoint_id, timestamp)
            self.context.operator_state.get_list_state(_WAITING).update(self._source_context._waiting())
            self.context.operator_state.get_list_state(_ENDED).update([self._ended.is_set() and self._error is None])

    def read_epoch(self, limit: int) -> None:
        ended = self._ended.is_set()
        while limit > 0:
            self._pace.begin()
            elements = self._source_context._take(min(limit, self._pace.size))
            self._emit_all(elements)
            self._pace.end(len(elements))
            limit -= len(elements)
            if not elements or time.monotonic() >= self.deadline:
                break
        if ended and isinstance(self._error, UserCodeError) and not self._source_context._elements:
            raise self._error

    def _emit_all(self, elements: list[Any]) -> None:
        values: list[Any] = []
        timestamps: list[int] = []
        for element in elements:
            if type(element) is tuple:
                values.append(element[0])
                timestamps.append(element[1])
                continue
            self._emit(values, timestamps)
            values, timestamps = [], []
            if isinstance(element, Watermark):
                self._tell_idleness(False)
                self.output.emit_watermark(element.timestamp)
            else:
                self._tell_idleness(True)
        self._emit(values, timestamps)

    def _emit(self, values: list[Any], timestamps: list[int]) -> None:
        if values:
            self._tell_idleness(False)
            timed = any(timestamp != NO_TIMESTAMP for timestamp in timestamps)
            self.output.emit(Batch(values, timestamps if timed else None))

    def _tell_idleness(self, idle: bool) -> None:
        if idle != self._idle:
            self._idle = idle
            self.output.emit_idleness(idle)

    @property
    def exhausted(self) -> bool:
        return self._ended.is_set() and not self._source_context._elements and self._error is None

    def has_data(self) -> bool:
        return bool(self._source_context._elements) or self._ended.is_set()

    def close(self) -> None:
        context = getattr(self, "_source_context", None)
        if context is not None and not self._ended.is_set():
            cancel = getattr(self.function, "cancel", None)
            try:
                if cancel is not None:
                    self.guarded(cancel)
            finally:
                context._cancel()
                self._thread.join(_CANCEL_SECONDS)
        super().close()
