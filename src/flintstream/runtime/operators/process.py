"""Process functions: any number of results for each record, to the main output or to side outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any, NamedTuple

from flintstream.common.output_tag import OutputTag
from flintstream.common.time import TimeDomain
from flintstream.runtime.batch import CHUNK, MAX_WATERMARK, MIN_WATERMARK, Batch
from flintstream.runtime.faults import UserCodeError, record_at_fault, user_fault
from flintstream.runtime.loops import RecordContext, process_records, process_timed_records
from flintstream.runtime.operators.base import FunctionOperator
from flintstream.runtime.output import SideBuffer
from flintstream.runtime.pace import Pace
from flintstream.runtime.results import ResultEmitter
from flintstream.runtime.state.key_context import KeyContext
from flintstream.runtime.time.timers import TimerQueue, TimerService, TimeView


class ProcessContext(RecordContext):
    """The context of a process function: the record's timestamp, the time, and on a keyed stream the key.

    One object serves all records and timers of a subtask; it describes the current one.
    """

    __slots__ = ("_domain", "_time")

    def __init__(self, time: TimeView, state: KeyContext) -> None:
        super().__init__(state)
        self._time = time
        self._domain = TimeDomain.EVENT_TIME

    def timer_service(self) -> TimeView:
        """Returns the timer service: the current time, and on a keyed stream timers."""
        return self._time

    def time_domain(self) -> TimeDomain:
        """Returns whether the current timer is in event time or in processing time."""
        return self._domain


class _Timer(NamedTuple):
    """A timer, as shown when `on_timer` fails."""

    domain: TimeDomain
    timestamp: int
    key: Any

    def __repr__(self) -> str:
        kind = self.domain.name.replace("_", "-").lower()
        return f"<{kind} timer {self.timestamp} of key {self.key!r}>"


class ProcessOperator(FunctionOperator):
    """A `ProcessFunction`, or on a keyed stream a `KeyedProcessFunction` with its timers."""

    def __init__(self, function: Any, keyed: bool = False) -> None:
        super().__init__(function)
        self.keyed = keyed

    def open(self) -> None:
        name, clock = self.context.name, self.context.services.clock
        self._state: Any = KeyContext()  # On a stream that is not keyed.
        self._time = TimeView(name, clock)
        self._timers: TimerService | None = None
        if self.keyed:
            assert self.context.keyed_state is not None
            self._state = self.context.keyed_state
            self._time = self._timers = TimerService(name, clock, self._state)
            self._timers.restore(self.context.restored_timers)
        self._context = self._make_context()
        self._sides = SideBuffer(self.output)
        self._timer_results = ResultEmitter(self.output)
        # Processing-time timers fire between two records of a block if the function is slow.
        self._pace = Pace(1 << 20)
        super().open()
        self._bind()

    def _make_context(self) -> ProcessContext:
        return ProcessContext(self._time, self._state)

    def _bind(self) -> None:
        self._process = self.bound("process_element")

    def process(self, batch: Batch) -> None:
        self._run(self._process, batch, self._context)

    def _run(self, function: Callable[[Any, Any], Iterable[Any] | None], batch: Batch, context: Any) -> None:
        """Calls the function for each record and emits its results."""
        if self._timers is None:
            self._call(function, batch, context)
            return
        start, records = 0, len(batch.values)
        while start < records:
            self._fire_processing_time(self._timers)
            part = batch if not start and records <= self._pace.size else batch.slice(start, start + self._pace.size)
            self._state.touch(part.keys)
            self._pace.begin()
            self._call(function, part, context)
            self._pace.end(len(part.values))
            start += len(part.values)

    def _call(self, function: Callable[[Any, Any], Iterable[Any] | None], batch: Batch, context: Any) -> None:
        records = iter(batch.values)
        keys: Iterable[Any] = repeat(None) if batch.keys is None else batch.keys
        try:
            if batch.timestamps is None:
                rest = process_records(
                    function, records, keys, self._state, context, self.output.emit, self._emit_aside
                )
            else:
                rest = process_timed_records(
                    function,
                    records,
                    keys,
                    batch.timestamps,
                    self._state,
                    context,
                    self.output.emit,
                    self._emit_aside,
                )
        except Exception as error:
            raise self.fault(error, record_at_fault(batch.values, records)) from error
        self.output.emit(rest)
        self._sides.flush()

    # --- time ---

    def process_watermark(self, timestamp: int) -> None:
        self._time.watermark = timestamp
        if self._timers is not None:
            self._fire(self._timers.event, timestamp, TimeDomain.EVENT_TIME)
            if timestamp == MAX_WATERMARK:
                self._fire_processing_time(self._timers)
        super().process_watermark(timestamp)

    def tick(self) -> None:
        if self._timers is not None:
            self._fire_processing_time(self._timers)

    def end_key(self) -> None:
        if self._timers is not None:
            self._time.watermark = MAX_WATERMARK
            self._timers.quiesced = True
            self._fire(self._timers.event, MAX_WATERMARK, TimeDomain.EVENT_TIME)
            self._fire(self._timers.processing, MAX_WATERMARK, TimeDomain.PROCESSING_TIME)
            self._timers.quiesced = False
            self._time.watermark = MIN_WATERMARK

    def next_due(self) -> float | None:
        earliest = None if self._timers is None else self._timers.processing.earliest
        return None if earliest is None else earliest / 1000

    def timers_to_store(self) -> TimerService | None:
        return self._timers

    def _fire_processing_time(self, timers: TimerService) -> None:
        earliest = timers.processing.earliest
        # In batch mode all timers of a key fire after all of its records.
        if earliest is not None and not self.context.batch_mode:
            now = timers.current_processing_time()
            if earliest <= now:
                self._fire(timers.processing, now, TimeDomain.PROCESSING_TIME)

    def _fire(self, queue: TimerQueue, until: int, domain: TimeDomain) -> None:
        """Calls `on_timer` for each timer up to a time, the earliest first, and emits its results."""
        earliest = queue.earliest
        if earliest is None or earliest > until:
            return
        state, context, emitter = self._state, self._context, self._timer_results
        on_timer = self._on_timer()
        context._domain = domain
        fired: list[Any] = []
        try:
            for timestamp, key in queue.due(until):
                state.current_key = key
                context._timestamp = timestamp
                fired.append(key)
                results = on_timer(timestamp, context)
                if results is not None:
                    emitter.add(results, timestamp)
                if len(fired) >= CHUNK:
                    state.touch(fired)
                    fired = []
        except Exception as error:
            raise self.timer_fault(error, context) from error
        state.touch(fired)
        emitter.flush()

    def _on_timer(self) -> Callable[[int, Any], Iterable[Any] | None]:
        found = getattr(self.function, "on_timer", None)
        if found is None:
            kind = type(self.function).__name__
            advice = "use a function for keyed streams, such as KeyedProcessFunction or KeyedCoProcessFunction"
            refusal = TypeError(f"a timer is due, but {kind} has no on_timer(): {advice}")
            raise user_fault(refusal, self.context.name, self.context.subtask)
        return found  # type: ignore[no-any-return]

    def timer_fault(self, error: Exception, context: ProcessContext) -> UserCodeError:
        """Returns the error to raise when `on_timer` failed."""
        timer = _Timer(context._domain, context._timestamp, self._state.current_key)
        return self.fault(error, timer)

    # --- records ---

    def _emit_aside(self, tag: OutputTag, value: Any, timestamp: int | None) -> None:
        self._sides.add(tag.tag_id, value, timestamp)


class CoProcessOperator(ProcessOperator):
    """A `CoProcessFunction`, or on keyed streams a `KeyedCoProcessFunction`."""

    two_inputs = True

    def _bind(self) -> None:
        self._process = self.bound("process_element1")
        self._process2 = self.bound("process_element2")

    def process2(self, batch: Batch) -> None:
        self._run(self._process2, batch, self._context)
