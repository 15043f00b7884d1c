"""The operator at the head of a source task: reads splits, assigns timestamps, makes watermarks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from flintstream.common.types import make_rows
from flintstream.runtime.batch import Batch
from flintstream.runtime.operators.base import Operator
from flintstream.runtime.source import Split, SplitReader, SplitSource
from flintstream.runtime.time.generators import TimestampsAndWatermarks
from flintstream.runtime.time.valve import WatermarkValve

if TYPE_CHECKING:
    from flintstream.common.watermark_strategy import WatermarkStrategy

READ_RECORDS = 8192
"""How many records are read from a split at a time."""
PREFETCH_RECORDS = 1024


class SourceHead(Operator):
    """What the slot asks of any operator that lets records in.

    `read_epoch` is called once an epoch, and emits at most `limit` records. `exhausted` is true once nothing can follow.
    """

    def read_epoch(self, limit: int) -> None:
        """Emits what there is, at most `limit` records."""
        raise NotImplementedError

    def assign(self, splits: list[tuple[Split, Any]]) -> None:
        """Takes over splits, each from a position."""
        raise NotImplementedError

    def no_more_splits(self) -> None:
        """Told once no split will be assigned any more."""

    def process_split(self, split: int, batch: Batch) -> None:
        """Takes records that Spark has read, of the split with that number."""
        raise NotImplementedError

    @property
    def exhausted(self) -> bool:
        """Whether nothing can follow."""
        raise NotImplementedError

    @property
    def positions(self) -> dict[str, Any]:
        """Where each split that is not finished stands."""
        return {}

    def has_data(self) -> bool:
        """Whether an epoch would find records now."""
        return False

    @property
    def wants_polling(self) -> bool:
        """Whether the source must be asked for data while no epoch runs, because it cannot tell by itself."""
        return False

    def poll(self) -> bool:
        """Looks for data while no epoch runs; true if there is some."""
        return self.has_data()


class SparkSourceOperator(SourceHead):
    """Takes the rows of a Spark DataFrame, which Spark reads; each partition counts as a split.

    Rows arrive as tuples and leave as Rows with the DataFrame's column names.
    """

    def __init__(
        self, fields: tuple[str, ...], watermarks: WatermarkStrategy | None = None, partitioned: bool = True
    ) -> None:
        self._fields = fields
        self._strategy = watermarks
        self._partitioned = partitioned
        """Whether partitions stay the same; those of a streaming DataFrame differ from batch to batch."""

    def open(self) -> None:
        self._times: dict[int, TimestampsAndWatermarks] = {}
        self._valve = WatermarkValve()
        self._complete = False

    def assign(self, splits: list[tuple[Split, Any]]) -> None:
        for split, _ in splits:
            self._valve.add(int(split.split_id))

    def process_split(self, split: int, batch: Batch) -> None:
        rows = Batch(make_rows(batch.values, self._fields))
        if self._strategy is None:
            self.output.emit(rows)
            return
        split = split if self._partitioned else 0
        timing = self._times.get(split)
        if timing is None:
            timing = self._times[split] = TimestampsAndWatermarks(
                self._strategy, self.context.name, self.context.subtask
            )
        for part, watermark in timing.process(rows):
            self.output.emit(part)
            if watermark is not None:
                combined = self._valve.advance(split, watermark)
                if combined is not None:
                    self.output.emit_watermark(combined)

    def read_epoch(self, limit: int) -> None:
        """Nothing to read here: the rows have come already."""

    def no_more_splits(self) -> None:
        self._complete = True

    @property
    def exhausted(self) -> bool:
        return self._complete


class _OpenSplit:
    """A split that is being read: its reader, its watermark generator, and records fetched ahead."""

    __slots__ = ("ahead", "position_before", "reader", "split", "time")

    def __init__(self, split: Split, reader: SplitReader, time: TimestampsAndWatermarks | None) -> None:
        self.split = split
        self.reader = reader
        self.time = time
        self.ahead: Batch | None = None
        self.position_before: Any = None

    def read(self, limit: int) -> Batch:
        """The records fetched ahead, or the next ones."""
        if self.ahead is not None:
            batch, self.ahead = self.ahead, None
            return batch
        return self.reader.read(limit)

    def fetch_ahead(self) -> bool:
        """Looks whether there are records; keeps them for the next epoch."""
        if self.ahead is None and not self.reader.finished:
            position = self.reader.position
            batch = self.reader.read(PREFETCH_RECORDS)
            if batch.values:
                self.ahead, self.position_before = batch, position
        # A split that has ended is worth an epoch too: the end is to be told.
        return self.ahead is not None or self.reader.finished

    @property
    def done(self) -> bool:
        """Whether all has been emitted."""
        return self.ahead is None and self.reader.finished

    @property
    def position(self) -> Any:
        """Where to go on after what has been emitted."""
        return self.reader.position if self.ahead is None else self.position_before


class SourceOperator(SourceHead):
    """Reads the splits that the driver has assigned to this subtask, in turn."""

    def __init__(self, source: SplitSource, watermarks: WatermarkStrategy | None = None) -> None:
        self._source = source
        self._strategy = watermarks

    def open(self) -> None:
        self._open: dict[str, _OpenSplit] = {}
        self._valve = WatermarkValve()
        self._complete = False

    def assign(self, splits: list[tuple[Split, Any]]) -> None:
        for split, position in splits:
            reader = self._source.create_reader(split, position)
            timing = (
                None
                if self._strategy is None
                else TimestampsAndWatermarks(self._strategy, self.context.name, self.context.subtask)
            )
            self._open[split.split_id] = _OpenSplit(split, reader, timing)
            self._valve.add(split.split_id)

    def no_more_splits(self) -> None:
        self._complete = True

    @property
    def exhausted(self) -> bool:
        return self._complete and not self._open

    @property
    def positions(self) -> dict[str, Any]:
        return {split_id: split.position for split_id, split in self._open.items()}

    def read_epoch(self, limit: int) -> None:
        waiting = list(self._open.values())
        while waiting and limit > 0:
            still: list[_OpenSplit] = []
            for split in waiting:
                batch = split.read(min(READ_RECORDS, limit))
                # To the end of the line: what this epoch's limit leaves out comes first in the next.
                self._open[split.split.split_id] = self._open.pop(split.split.split_id)
                if batch.values:
                    limit -= len(batch.values)
                    self._emit(split, batch)
                    still.append(split)
                if split.done:
                    self._drop(split)
                    if still and still[-1] is split:
                        still.pop()
                if limit <= 0:
                    break
            waiting = still

    def has_data(self) -> bool:
        now = time.time()
        for split in self._open.values():
            if split.ahead is not None or split.reader.finished:
                return True
            due = split.reader.next_due()
            if due is not None and due <= now:
                return True
        return False

    @property
    def wants_polling(self) -> bool:
        return any(split.reader.next_due() is None for split in self._open.values())

    def poll(self) -> bool:
        return any([split.reader.next_due() is None and split.fetch_ahead() for split in self._open.values()])

    def next_due(self) -> float | None:
        dues = [due for due in (split.reader.next_due() for split in self._open.values()) if due is not None]
        return min(dues, default=None)

    def end_epoch(self) -> None:
        for split in self._open.values():
            if split.time is not None:
                self._watermark(split, split.time.periodic())

    def close(self) -> None:
        for split in getattr(self, "_open", {}).values():
            split.reader.close()

    def _emit(self, split: _OpenSplit, batch: Batch) -> None:
        if split.time is None:
            self.output.emit(batch)
            return
        for part, watermark in split.time.process(batch):
            self.output.emit(part)
            self._watermark(split, watermark)

    def _watermark(self, split: _OpenSplit, timestamp: int | None) -> None:
        if timestamp is not None:
            combined = self._valve.advance(split.split.split_id, timestamp)
            if combined is not None:
                self.output.emit_watermark(combined)

    def _drop(self, split: _OpenSplit) -> None:
        split.reader.close()
        del self._open[split.split.split_id]
        # Not ended but forgotten: splits found later must still be able to move the watermark.
        combined = self._valve.remove(split.split.split_id)
        if combined is not None:
            self.output.emit_watermark(combined)
