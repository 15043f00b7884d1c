"""The operator of source functions: user code that emits records in its own thread."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from flintstream.runtime.batch import NO_TIMESTAMP, Batch
from flintstream.runtime.block import Watermark
from flintstream.runtime.captured import unwrapped
from flintstream.runtime.faults import Fault, UserCodeError, user_fault
from flintstream.runtime.operators.base import FunctionOperator, OperatorContext
from flintstream.runtime.operators.source import SourceHead
from flintstream.runtime.operators.source_context import BUFFER_RECORDS, Cancelled, SourceContext
from flintstream.runtime.operators.watermarks import TimestampsAndWatermarksOperator
from flintstream.runtime.output import Output
from flintstream.runtime.pace import Pace
from flintstream.runtime.source import Split
from flintstream.runtime.stacks import frame_of, stack_of
from flintstream.runtime.state.checkpointed import CheckpointedFunction, ListCheckpointed
from flintstream.runtime.state.operator_state import ListDescriptor

if TYPE_CHECKING:
    from flintstream.common.watermark_strategy import WatermarkStrategy

_CANCEL_SECONDS = 5.0
_LOCK_SHARE = 0.9
"""The fraction of the checkpoint timeout after which the source is reported, before the whole checkpoint times out."""
_WAITING = ListDescriptor("waiting-elements")
"""The emitted elements that no epoch has taken yet."""
_ENDED = ListDescriptor("ended")
"""One element per subtask: whether the function has returned."""


class SourceFunctionOperator(FunctionOperator, SourceHead):
    """Runs a `SourceFunction` in a thread and drains its buffer in each epoch.

    :param strategy: assigns timestamps and watermarks in the place of the function's own; None to keep those.
    """

    bounded = False
    _timed: TimestampsAndWatermarksOperator | None = None

    def __init__(self, function: Any, strategy: WatermarkStrategy | None = None) -> None:
        super().__init__(function)
        if strategy is not None:
            self._timed = TimestampsAndWatermarksOperator(strategy)

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        if self._timed is not None:
            self._timed.setup(context, output)

    @property
    def replayable(self) -> bool:
        """Returns whether the function restores its position from a checkpoint, which only the function itself can do."""
        return isinstance(unwrapped(self.function), CheckpointedFunction | ListCheckpointed)

    def open(self) -> None:
        super().open()
        if self._timed is not None:
            self._timed.open()
        self._run = self.bound("run")
        self._error: BaseException | None = None
        self._ended = threading.Event()
        self._idle = False
        self._pace = Pace(BUFFER_RECORDS, self.context.services.step_seconds)
        self._source_context = SourceContext(self.context.services.notify_data)
        self._source_context.restore(self.context.operator_state.get_list_state(_WAITING))
        self._thread = threading.Thread(target=self._run_function, name=f"source {self.context.name}", daemon=True)
        ended = list(self.context.operator_state.get_list_state(_ENDED))
        if ended and all(ended):
            self._ended.set()  # The function had finished before the restore.
        else:
            self._thread.start()

    def _run_function(self) -> None:
        try:
            self._run(self._source_context)
        except Cancelled:
            pass
        except BaseException as error:  # also sys.exit(): a source that dies must not look finished
            self._error = user_fault(error, self.context.name, self.context.subtask)
        finally:
            self._ended.set()
            self.context.services.notify_data()

    def assign(self, splits: list[tuple[Split, Any]]) -> None:
        raise AssertionError("a source function has no splits")

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> None:
        # Under the lock, the function's state and its emitted elements are consistent; elements not taken yet are
        # stored with it, and are emitted first after a restore.
        seconds = self.context.checkpoint_timeout * _LOCK_SHARE
        if not self._source_context.lock_for_snapshot(seconds):
            raise self._lock_not_released(seconds)
        try:
            super().snapshot_state(checkpoint_id, timestamp)
            self.context.operator_state.get_list_state(_WAITING).update(self._source_context.waiting())
            self.context.operator_state.get_list_state(_ENDED).update([self._ended.is_set() and self._error is None])
        finally:
            self._source_context.lock.release()

    def _lock_not_released(self, seconds: float) -> UserCodeError:
        stack = stack_of(frame_of(self._thread.ident))
        summary = (
            f"source '{self.context.name}' (subtask {self.context.subtask + 1}) has not released the checkpoint lock "
            "for "
            f"{seconds:g} s; its function is at\n{stack.rstrip()}"
        )
        return UserCodeError(Fault(self.context.name, self.context.subtask, None, stack, summary))

    def read_epoch(self, limit: int) -> None:
        ended = self._ended.is_set()
        drained = False
        while limit > 0:
            self.context.services.safe_point()
            self._pace.begin()
            elements = self._source_context.take(min(limit, self._pace.size))
            self._emit_all(elements)
            self._pace.end(len(elements))
            limit -= len(elements)
            drained = not elements
            if drained or time.monotonic() >= self.deadline:
                break
        self.held_back = not drained and not self._source_context.empty
        if ended and isinstance(self._error, UserCodeError) and self._source_context.empty:
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
            if self._timed is not None:
                continue
            if isinstance(element, Watermark):
                self._tell_idleness(False)
                self.output.emit_watermark(element.timestamp)
            else:
                self._tell_idleness(True)
        self._emit(values, timestamps)

    def _emit(self, values: list[Any], timestamps: list[int]) -> None:
        if not values:
            return
        timed = any(timestamp != NO_TIMESTAMP for timestamp in timestamps)
        batch = Batch(values, timestamps if timed else None)
        if self._timed is None:
            self._tell_idleness(False)
            self.output.emit(batch)
        else:
            self._timed.process(batch)
        self.note_emitted(timestamps[-1])

    def tick(self) -> None:
        if self._timed is not None:
            self._timed.tick()

    def end_epoch(self) -> None:
        if self._timed is not None:
            self._timed.end_epoch()

    def next_due(self) -> float | None:
        return None if self._timed is None else self._timed.next_due()

    def _tell_idleness(self, idle: bool) -> None:
        if idle != self._idle:
            self._idle = idle
            self.output.emit_idleness(idle)

    @property
    def exhausted(self) -> bool:
        return self._ended.is_set() and self._source_context.empty and self._error is None

    def has_data(self) -> bool:
        return not self._source_context.empty or self._ended.is_set()

    def close(self) -> None:
        context = getattr(self, "_source_context", None)
        if context is not None and not self._ended.is_set():
            cancel = getattr(self.function, "cancel", None)
            context.begin_cancel()
            try:
                if cancel is not None:
                    self.guarded(cancel)
            finally:
                context.cancel()
                self._thread.join(_CANCEL_SECONDS)
        super().close()
