"""Timestamps and watermarks, made from a WatermarkStrategy for one split or one subtask."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from flintstream.common.watermark_strategy import WatermarkOutput
from flintstream.runtime.batch import MAX_WATERMARK, MIN_WATERMARK, NO_TIMESTAMP, Batch
from flintstream.runtime.faults import record_at_fault, user_fault
from flintstream.runtime.operators.base import Operator

if TYPE_CHECKING:
    from flintstream.common.watermark_strategy import WatermarkStrategy


class _WatermarkOutput(WatermarkOutput):
    """Takes what a generator emits; keeps the greatest."""

    __slots__ = ("emitted",)

    def __init__(self) -> None:
        self.emitted: int | None = None

    def emit_watermark(self, timestamp: Any) -> None:
        """Takes a watermark: a number of milliseconds, or an object with `timestamp`."""
        value = int(getattr(timestamp, "timestamp", timestamp))
        if self.emitted is None or value > self.emitted:
            self.emitted = value

    def mark_idle(self) -> None:
        """Refused, rather than ignored."""
        raise NotImplementedError("mark_idle() of a watermark generator is not part of this version")

    def take(self) -> int | None:
        """What was emitted since the last call."""
        emitted, self.emitted = self.emitted, None
        return emitted


class TimestampsAndWatermarks:
    """Assigns timestamps and generates watermarks for the records of one split or subtask."""

    def __init__(self, strategy: WatermarkStrategy, operator: str, subtask: int | None = None) -> None:
        assigner = strategy.timestamp_assigner
        self._extract = None if assigner is None else assigner.extract_timestamp
        self._generator: Any = strategy.create_generator()
        # Only our own generators: a user's subclass of one may see each record in on_event.
        self._in_blocks = strategy.has_built_in_generator
        self._output = _WatermarkOutput()
        self._place = (operator, subtask)
        self._watermark = MIN_WATERMARK

    def process(self, batch: Batch) -> Iterator[tuple[Batch, int | None]]:
        """The batch with timestamps, cut behind each record after which the watermark moves."""
        timestamps = self._timestamps(batch)
        timed = Batch(batch.values, timestamps, batch.keys)
        if self._in_blocks:
            if timestamps is not None:
                self._generator.on_block(timestamps)
            yield timed, self.periodic()
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
        yield timed.slice(start, len(batch.values)) if start else timed, self.periodic()

    def periodic(self) -> int | None:
        """The watermark that the generator emits now, if that moves on."""
        try:
            self._generator.on_periodic_emit(self._output)
        except Exception as error:
            raise user_fault(error, *self._place) from error
        return self._moved(self._output.take())

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
        if not {int}.issuperset(map(type, timestamps)):
            self._check(batch.values, timestamps)
        return timestamps

    def _check(self, values: list[Any], timestamps: list[Any]) -> None:
        for value, timestamp in zip(values, timestamps):
            if not hasattr(timestamp, "__index__"):
                refusal = TypeError(
                    f"the timestamp assigner gave {timestamp!r}; a timestamp is an integer, in milliseconds"
                )
                raise user_fault(refusal, *self._place, value)

    def _moved(self, timestamp: int | None) -> int | None:
        if timestamp is None or timestamp <= self._watermark:
            return None
        self._watermark = timestamp
        return timestamp


class TimestampsAndWatermarksOperator(Operator):
    """`assign_timestamps_and_watermarks`: new timestamps, and new watermarks in place of those that come in."""

    def __init__(self, strategy: WatermarkStrategy) -> None:
        self._strategy = strategy

    def open(self) -> None:
        self._time = TimestampsAndWatermarks(self._strategy, self.context.name, self.context.subtask)

    def process(self, batch: Batch) -> None:
        for part, watermark in self._time.process(batch):
            self.output.emit(part)
            if watermark is not None:
                self.output.emit_watermark(watermark)

    def process_watermark(self, timestamp: int) -> None:
        # Only the last watermark, the sign that all input has come, is passed on.
        if timestamp == MAX_WATERMARK:
            self.output.emit_watermark(timestamp)

    def end_epoch(self) -> None:
        watermark = self._time.periodic()
        if watermark is not None:
            self.output.emit_watermark(watermark)
