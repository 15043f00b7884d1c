"""The operator of `assign_timestamps_and_watermarks`."""

from __future__ import annotations

from flintstream.common.watermark_strategy import WatermarkStrategy
from flintstream.runtime.batch import MAX_WATERMARK, Batch
from flintstream.runtime.operators.base import Operator
from flintstream.runtime.time.generators import TimestampsAndWatermarks


class TimestampsAndWatermarksOperator(Operator):
    """`assign_timestamps_and_watermarks`: assigns timestamps, and replaces incoming watermarks."""

    def __init__(self, strategy: WatermarkStrategy) -> None:
        self._strategy = strategy

    def open(self) -> None:
        self._time = TimestampsAndWatermarks(self._strategy, self.context)
        self._idle = False

    def process(self, batch: Batch) -> None:
        for part, watermark in self._time.process(batch):
            # Active before the records, idle only after them.
            if not self._time.idle:
                self._tell_idleness(False)
            self.output.emit(part)
            self._advance(watermark)

    def process_watermark(self, timestamp: int) -> None:
        # Only the last watermark, which marks the end of the input, is passed on.
        if timestamp == MAX_WATERMARK:
            self.output.emit_watermark(timestamp)

    def process_idleness(self, idle: bool) -> None:
        """Not passed on: this operator determines idleness itself."""

    def tick(self) -> None:
        self._time.look()
        self._advance(self._time.round_off_if_due())

    def end_epoch(self) -> None:
        self._time.look()
        self._advance(self._time.round_off())

    def next_due(self) -> float | None:
        return self._time.next_due

    def _advance(self, timestamp: int | None) -> None:
        if timestamp is not None:
            # Emitting a watermark makes the output active, if only for that.
            self._tell_idleness(False)
            self.output.emit_watermark(timestamp)
        self._tell_idleness(self._time.idle)

    def _tell_idleness(self, idle: bool) -> None:
        if idle != self._idle:
            self._idle = idle
            self.output.emit_idleness(idle)
