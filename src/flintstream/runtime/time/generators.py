"""Applies a WatermarkStrategy to the records of one split or subtask."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from flintstream.common.time import earliest, whole_milliseconds
from flintstream.common.watermark_strategy import FunctionAssigner, NoWatermarks, WatermarkOutput
from flintstream.runtime.batch import MIN_WATERMARK, NO_TIMESTAMP, Batch
from flintstream.runtime.faults import record_at_fault, user_fault

if TYPE_CHECKING:
    from flintstream.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
    from flintstream.runtime.operators.base import OperatorContext


class _WatermarkOutput(WatermarkOutput):
    """Receives a generator's output; keeps the greatest watermark."""

    __slots__ = ("emitted", "idle")

    def __init__(self) -> None:
        self.emitted: int | None = None
        self.idle = False

    def emit_watermark(self, timestamp: Any) -> None:
        """Receives a watermark: a number of milliseconds, or an object with `timestamp`."""
        value = int(getattr(timestamp, "timestamp", timestamp))
        self.idle = False
        if self.emitted is None or value > self.emitted:
            self.emitted = value

    def mark_idle(self) -> None:
        """Marks the generator as idle."""
        self.idle = True

    def mark_active(self) -> None:
        """Marks the generator as active."""
        self.idle = False

    def take(self) -> int | None:
        """Returns the watermark emitted since the last call."""
        emitted, self.emitted = self.emitted, None
        return emitted


def _function_of(assigner: TimestampAssigner | None) -> Callable[[Any, int], Any] | None:
    if assigner is None:
        return None
    return assigner.function if type(assigner) is FunctionAssigner else assigner.extract_timestamp


class TimestampsAndWatermarks:
    """Assigns timestamps and generates watermarks for the records of one split or subtask.

    A periodic generator is called at most once per interval while records arrive, and at the end of every epoch. As in
    Flink, a bounded input that is read at once has only the final watermark.
    """

    def __init__(self, strategy: WatermarkStrategy, context: OperatorContext) -> None:
        assigner = strategy.timestamp_assigner
        self._extract = _function_of(assigner)
        # As in Flink, batch mode has only the final watermark.
        self._generator: Any = NoWatermarks() if context.batch_mode else strategy.create_generator()
        # Exact classes only: a user's subclass may need on_event for each record.
        self._in_blocks = context.batch_mode or strategy.has_built_in_generator
        self._output = _WatermarkOutput()
        self._place = (context.name, context.subtask)
        self._clock: Callable[[], int] = context.services.clock
        self._interval = context.watermark_interval
        self._idle_timeout = None if context.batch_mode else strategy.idle_timeout
        self._last_active = self._last_asked = self._clock()
        self._rested = True
        self._had_records = False
        self._timed_out = False
        self.watermark = MIN_WATERMARK
        """The last watermark emitted."""

    def process(self, batch: Batch) -> Iterator[tuple[Batch, int | None]]:
        """Assigns timestamps, and splits the batch after each record that advances the watermark."""
        if self._rested:
            # The interval starts here, so that an input that is read at once has only the final watermark.
            self._rested = False
            self._last_asked = self._clock()
        self._had_records = True
        self._timed_out = False
        timestamps = self._timestamps(batch)
        timed = Batch(batch.values, timestamps, batch.keys)
        if self._in_blocks:
            if timestamps is not None:
                self._generator.on_block(timestamps)
            yield timed, self._when_due()
            return
        start = 0
        on_event, output = self._generator.on_event, self._output
        for index, value in enumerate(batch.values):
            timestamp = NO_TIMESTAMP if timestamps is None else timestamps[index]
            try:
                on_event(value, timestamp, output)
            except Exception as error:
                raise user_fault(error, *self._place, value) from error
            if output.emitted is not None:
                watermark = self._moved(output.take())
                if watermark is not None:
                    yield timed.slice(start, index + 1), watermark
                    start = index + 1
        yield timed.slice(start, len(batch.values)) if start else timed, self._when_due()

    def periodic(self) -> int | None:
        """Returns the generator's periodic watermark, if it advances."""
        if not self._interval or self._timed_out:
            return None
        self._last_asked = self._clock()
        try:
            self._generator.on_periodic_emit(self._output)
        except Exception as error:
            raise user_fault(error, *self._place) from error
        return self._moved(self._output.take())

    def round_off(self) -> int | None:
        """`periodic` at the end of an epoch."""
        self._rested = True
        return self.periodic()

    def round_off_if_due(self) -> int | None:
        """`round_off` if records have arrived, and the interval is over."""
        return None if self._rested or self._clock() - self._last_asked < self._interval else self.round_off()

    @property
    def next_due(self) -> float | None:
        """Returns when (seconds since 1970) there may be a watermark, or these records become idle; None for never."""
        periodic = None if self._rested or not self._interval else (self._last_asked + self._interval) / 1000
        return earliest([periodic, self.idle_due])

    def _when_due(self) -> int | None:
        return self.periodic() if self._clock() - self._last_asked >= self._interval else None

    # --- idleness ---

    @property
    def idle(self) -> bool:
        """Returns whether these records are idle: marked by the generator, or none arrived for too long."""
        return self._timed_out or self._output.idle

    def stay_active(self) -> None:
        """Restarts the idle timeout: nothing was read, so the absence of records means nothing."""
        self._had_records = False
        self._last_active = self._clock()

    def look(self) -> None:
        """Updates idleness after records were read or an epoch ended."""
        if self._had_records:
            self._had_records = False
            self._last_active = self._clock()
        elif self._idle_timeout is not None and self._clock() - self._last_active >= self._idle_timeout:
            self._timed_out = True

    @property
    def idle_due(self) -> float | None:
        """Returns when (seconds since 1970) these records become idle without new ones; None for never."""
        if self._idle_timeout is None or self._timed_out:
            return None
        return (self._last_active + self._idle_timeout) / 1000

    def _timestamps(self, batch: Batch) -> list[int] | None:
        extract = self._extract
        if extract is None:
            return batch.timestamps
        records = iter(batch.values)
        try:
            if batch.timestamps is None:
                timestamps = [extract(value, NO_TIMESTAMP) for value in records]
            else:
                timestamps = [extract(value, before) for value, before in zip(records, batch.timestamps)]
        except Exception as error:
            raise user_fault(error, *self._place, record_at_fault(batch.values, records)) from error
        if {int}.issuperset(map(type, timestamps)):
            return timestamps
        return [self._whole(value, timestamp) for value, timestamp in zip(batch.values, timestamps)]

    def _whole(self, value: Any, timestamp: Any) -> int:
        try:
            return whole_milliseconds(timestamp)
        except TypeError:
            refusal = TypeError(f"the timestamp assigner returned {timestamp!r}; expected a number of milliseconds")
        raise user_fault(refusal, *self._place, value)

    def _moved(self, timestamp: int | None) -> int | None:
        if timestamp is None or timestamp <= self.watermark:
            return None
        self.watermark = timestamp
        return timestamp
