"""Process functions: any number of results for each record, to the main output or to side outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

from flintstream.common.output_tag import OutputTag
from flintstream.runtime.batch import NO_TIMESTAMP, Batch
from flintstream.runtime.detach import ResultGuard
from flintstream.runtime.operators.base import CHUNK, FunctionOperator
from flintstream.runtime.output import SideBuffer
from flintstream.runtime.time.timers import TimeView


class ProcessContext:
    """The context of a process function: the record's timestamp, the time, and on a keyed stream the key.

    One object serves all records of a subtask; it tells about the record that is being processed.
    """

    __slots__ = ("_state", "_time", "_timestamp")

    def __init__(self, time: TimeView, state: Any) -> None:
        self._time = time
        self._state = state
        self._timestamp = NO_TIMESTAMP

    def timestamp(self) -> int:
        """The timestamp of the record at hand; as in PyFlink, the least 64-bit number if it has none."""
        return self._timestamp

    def timer_service(self) -> TimeView:
        """Tells the current time, and takes timers on a keyed stream."""
        return self._time

    def get_current_key(self) -> Any:
        """The key of the record at hand."""
        return self._state.current_key


class _NoState:
    """Takes the place of the keyed state backend on a stream that is not keyed."""

    __slots__ = ("current_key",)

    def __init__(self) -> None:
        self.current_key: Any = None


class ProcessOperator(FunctionOperator):
    """A `ProcessFunction`, or on a keyed stream a `KeyedProcessFunction`."""

    def __init__(self, function: Any, keyed: bool = False) -> None:
        super().__init__(function)
        self.keyed = keyed

    def open(self) -> None:
        self._time = TimeView(self.context.name, self.keyed)
        self._state = self.context.keyed_state if self.keyed else _NoState()
        self._context = ProcessContext(self._time, self._state)
        self._sides = SideBuffer(self.output)
        self._guard = ResultGuard()
        super().open()
        self._bind()

    def _bind(self) -> None:
        self._process = self.bound("process_element")

    def process(self, batch: Batch) -> None:
        self._run(self._process, batch)

    def process_watermark(self, timestamp: int) -> None:
        self._time.watermark = timestamp
        super().process_watermark(timestamp)

    def _run(self, function: Callable[[Any, Any], Iterable[Any] | None], batch: Batch) -> None:
        """Calls the function for each record and passes on what it gives."""
        if batch.timestamps is None:
            self._run_untimed(function, batch)
        else:
            self._run_timed(function, batch, batch.timestamps)
        self._sides.flush()

    def _run_untimed(self, function: Callable[[Any, Any], Iterable[Any] | None], batch: Batch) -> None:
        state, context, side, tag_class = self._state, self._context, self._sides.add, OutputTag
        context._timestamp = NO_TIMESTAMP
        values: list[Any] = []
        emit = values.append
        detach = self._guard.begin()
        record: Any = None
        try:
            for key, record in zip(repeat(None) if batch.keys is None else batch.keys, batch.values):
                state.current_key = key  # type: ignore[union-attr]
                results = function(record, context)
                if results is not None:
                    for result in results:
                        if result.__class__ is tuple and result and result[0].__class__ is tag_class:
                            side(result[0].tag_id, result[1], None)
                        else:
                            emit(result if detach is None else detach(result))
                            if len(values) >= CHUNK:
                                self._guard.end(values)
                                self.output.emit(Batch(values))
                                values = []
                                emit = values.append
        except Exception as error:
            raise self.fault(error, record) from error
        self._guard.end(values)
        self.output.emit(Batch(values))

    def _run_timed(
        self, function: Callable[[Any, Any], Iterable[Any] | None], batch: Batch, timestamps: list[int]
    ) -> None:
        state, context, side, tag_class = self._state, self._context, self._sides.add, OutputTag
        values: list[Any] = []
        times: list[int] = []
        detach = self._guard.begin()
        record: Any = None
        keys = repeat(None) if batch.keys is None else batch.keys
        try:
            for key, record, timestamp in zip(keys, batch.values, timestamps):
                state.current_key = key  # type: ignore[union-attr]
                context._timestamp = timestamp
                results = function(record, context)
                if results is not None:
                    for result in results:
                        if result.__class__ is tuple and result and result[0].__class__ is tag_class:
                            side(result[0].tag_id, result[1], timestamp)
                        else:
                            values.append(result if detach is None else detach(result))
                            times.append(timestamp)
                            if len(values) >= CHUNK:
                                self._guard.end(values)
                                self.output.emit(Batch(values, times))
                                values, times = [], []
        except Exception as error:
            raise self.fault(error, record) from error
        self._guard.end(values)
        self.output.emit(Batch(values, times))


class CoProcessOperator(ProcessOperator):
    """A `CoProcessFunction`, or on keyed streams a `KeyedCoProcessFunction`."""

    two_inputs = True

    def _bind(self) -> None:
        self._process = self.bound("process_element1")
        self._process2 = self.bound("process_element2")

    def process2(self, batch: Batch) -> None:
        self._run(self._process2, batch)
