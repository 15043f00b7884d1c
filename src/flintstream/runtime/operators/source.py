"""The operator at the head of a source task: reads splits, assigns timestamps, makes watermarks."""

from __future__ import annotations

import time
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from flintstream.common.time import earliest
from flintstream.common.types import make_rows
from flintstream.runtime.batch import MAX_WATERMARK, MIN_WATERMARK, Batch
from flintstream.runtime.operators.base import Operator
from flintstream.runtime.pace import Pace
from flintstream.runtime.source import AlignedProgress, Split, SplitReader, SplitSource
from flintstream.runtime.time.generators import TimestampsAndWatermarks
from flintstream.runtime.time.valve import CombinedWatermark

if TYPE_CHECKING:
    from flintstream.common.watermark_strategy import WatermarkAlignment, WatermarkStrategy

READ_RECORDS = 8192
"""How many records are read from a split at a time."""
PREFETCH_RECORDS = 1024


class SourceHead(Operator):
    """What the slot asks of any operator that lets records in.

    `read_epoch` is called once an epoch, and emits at most `limit` records. `exhausted` is true once nothing can follow.
    """

    alignment: WatermarkAlignment | None = None
    """With which other sources this one keeps step."""
    emits_declared_type = False
    """Whether records are of the declared type as they come, and need no conversion."""
    deadline = float("inf")
    """When (by `time.monotonic`) the reading of this epoch should end, however few records were read."""

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

    def align_to(self, watermark: int) -> None:
        """Says how far this source may go, for it to keep step with others: splits beyond that are not read."""

    def progress(self) -> AlignedProgress | None:
        """How far the source has come, for those that keep step with it; None where nobody does."""
        return None

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


class SplitWatermarks:
    """Emits the records of the splits of a source, and the least of their watermarks."""

    def __init__(self, operator: SourceHead) -> None:
        self._output = operator.output
        self._combined = CombinedWatermark()
        self._idle = False

    def add(self, split: Hashable) -> None:
        """Takes a split in: it holds the watermark until it has one of its own."""
        self._combined.add(split)
        if self._idle:
            self._idle = False
            self._output.emit_idleness(False)

    @property
    def idle(self) -> bool:
        """Whether it was told that nobody has to wait for this source."""
        return self._idle

    def rest(self) -> None:
        """There was no split for too long: nobody has to wait for this source."""
        if not self._idle:
            self._idle = True
            self._output.emit_idleness(True)

    def emit(self, split: Hashable, timing: TimestampsAndWatermarks, batch: Batch) -> None:
        """Emits records of a split, with their timestamps and watermarks."""
        for part, watermark in timing.process(batch):
            # Awake before its records, idle only behind them: others move the watermark then.
            if not timing.idle:
                self._tell(split, False)
            self._output.emit(part)
            self.advance(split, timing, watermark)

    def round_off(self, split: Hashable, timing: TimestampsAndWatermarks) -> None:
        """At the end of an epoch: the periodic watermark, and whether the split is idle."""
        self.advance(split, timing, timing.round_off())

    def advance(self, split: Hashable, timing: TimestampsAndWatermarks, watermark: int | None) -> None:
        """Takes a watermark of a split, if there is one, and whether the split is idle."""
        if watermark is not None:
            # Whoever makes a watermark is awake, if only for that.
            self._tell(split, False)
            self._move(self._combined.advance(split, watermark))
        self._tell(split, timing.idle)

    def reach(self, watermark: int) -> None:
        """Lets the watermark move on to what a split had reached that is gone."""
        self._move(self._combined.raise_to(watermark))

    def remove(self, split: Hashable) -> None:
        """Forgets a split that was read to its end: splits found later must still be able to move the watermark."""
        self._move(self._combined.remove(split))

    def _tell(self, split: Hashable, idle: bool) -> None:
        moved = self._combined.set_idle(split, idle)
        if self._combined.all_idle != self._idle:
            self._idle = self._combined.all_idle
            if not self._idle:
                self._output.emit_idleness(False)
            self._move(moved)
            if self._idle:
                self._output.emit_idleness(True)
        else:
            self._move(moved)

    def _move(self, watermark: int | None) -> None:
        if watermark is not None:
            self._output.emit_watermark(watermark)


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
        self._splits = SplitWatermarks(self)
        self._complete = False
        if not self._partitioned:
            self._timing(0)

    def assign(self, splits: list[tuple[Split, Any]]) -> None:
        for split, _ in splits:
            self._timing(int(split.split_id))

    def _timing(self, split: int) -> TimestampsAndWatermarks | None:
        """What makes the watermarks of a split; it begins to wait for records when it is first asked for."""
        if self._strategy is None:
            return None
        timing = self._times.get(split)
        if timing is None:
            timing = self._times[split] = TimestampsAndWatermarks(self._strategy, self.context)
            self._splits.add(split)
        return timing

    def process_split(self, split: int, batch: Batch) -> None:
        rows = Batch(make_rows(batch.values, self._fields))
        split = split if self._partitioned else 0
        timing = self._timing(split)
        if timing is None:
            self.output.emit(rows)
        else:
            self._splits.emit(split, timing, rows)

    def end_epoch(self) -> None:
        for split, timing in self._times.items():
            timing.look()
            self._splits.round_off(split, timing)

    def next_due(self) -> float | None:
        return earliest(timing.idle_due for timing in self._times.values())

    def read_epoch(self, limit: int) -> None:
        """Nothing to read here: the rows have come already."""

    def no_more_splits(self) -> None:
        self._complete = True

    @property
    def exhausted(self) -> bool:
        return self._complete


class _OpenSplit:
    """A split that is being read: its reader, its watermark generator, and records fetched ahead."""

    __slots__ = ("ahead", "position_before", "reader", "split", "stride", "time")

    def __init__(self, split: Split, reader: SplitReader, time: TimestampsAndWatermarks | None) -> None:
        self.split = split
        self.reader = reader
        self.time = time
        self.ahead: Batch | None = None
        self.position_before: Any = None
        self.stride = 0.0
        """By how much a record has moved the watermark of late."""

    @property
    def watermark(self) -> int:
        """The watermark that the split has reached."""
        return MIN_WATERMARK if self.time is None else self.time.watermark

    def read(self, limit: int) -> Batch:
        """The records fetched ahead, or the next ones."""
        if self.ahead is not None:
            batch, self.ahead = self.ahead, None
            return batch
        return self.reader.read(limit)

    def fetch_ahead(self, limit: int) -> bool:
        """Looks whether there are records; keeps them for the next epoch."""
        if self.ahead is None and not self.reader.finished:
            position = self.reader.position
            batch = self.reader.read(limit)
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
        self.alignment = None if watermarks is None else watermarks.alignment

    def open(self) -> None:
        self._open: dict[str, _OpenSplit] = {}
        self._splits = SplitWatermarks(self)
        self._complete = False
        self._pace = Pace(READ_RECORDS)
        self._aligned_to: int | None = None
        self._began_at: int | None = None
        self._left_behind = MIN_WATERMARK
        self._without_splits_since = self.context.services.clock()

    def assign(self, splits: list[tuple[Split, Any]]) -> None:
        for split, position in splits:
            reader = self._source.create_reader(split, position)
            timing = None if self._strategy is None else TimestampsAndWatermarks(self._strategy, self.context)
            self._open[split.split_id] = _OpenSplit(split, reader, timing)
            self._splits.add(split.split_id)

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
        empty: set[str] = set()
        while limit > 0 and (waiting := [split for split in waiting if not self._must_wait(split)]):
            still: list[_OpenSplit] = []
            for split in waiting:
                batch = self._read(split, limit)
                # To the end of the line: what this epoch's limit leaves out comes first in the next.
                self._open[split.split.split_id] = self._open.pop(split.split.split_id)
                if batch.values:
                    limit -= len(batch.values)
                    still.append(split)
                else:
                    empty.add(split.split.split_id)
                if split.done:
                    self._drop(split)
                    if still and still[-1] is split:
                        still.pop()
                if limit <= 0 or time.monotonic() >= self.deadline:
                    limit = 0
                    break
            waiting = still
        self._note_activity(empty)

    def _read(self, split: _OpenSplit, limit: int) -> Batch:
        """Reads from a split and emits what it gave, a little at a time where that is slow."""
        self._pace.begin()
        batch = split.read(min(self._pace.size, limit, self._room(split)))
        if batch.values:
            before = split.watermark
            self._emit(split, batch)
            split.stride = (split.watermark - before) / len(batch.values)
        self._pace.end(len(batch.values))
        return batch

    def _note_activity(self, empty: set[str]) -> None:
        """Only a split that was asked and had nothing can be idle, not one that waits or was left out."""
        for split_id, split in self._open.items():
            if split.time is not None:
                if split_id in empty:
                    split.time.look()
                else:
                    split.time.stay_active()

    def has_data(self) -> bool:
        now = time.time()
        for split in self._ready():
            if split.ahead is not None or split.reader.finished:
                return True
            due = split.reader.next_due()
            if due is not None and due <= now:
                return True
        return False

    @property
    def wants_polling(self) -> bool:
        return any(split.reader.next_due() is None for split in self._ready())

    def poll(self) -> bool:
        # No more than one step takes: what is fetched is emitted in one.
        limit = min(PREFETCH_RECORDS, self._pace.size)
        waiting = [split for split in self._ready() if split.reader.next_due() is None]
        return any([split.fetch_ahead(min(limit, self._room(split))) for split in waiting])

    def next_due(self) -> float | None:
        idle_dues = [split.time.idle_due for split in self._open.values() if split.time is not None]
        return earliest([self._idle_due, *idle_dues, *(split.reader.next_due() for split in self._ready())])

    def end_epoch(self) -> None:
        # What the last split had reached counts once it is clear that its end was not the end of the source.
        self._splits.reach(self._left_behind)
        for split_id, split in self._open.items():
            if split.time is not None:
                self._splits.round_off(split_id, split.time)
        due = self._idle_due
        if due is not None and due * 1000 <= self.context.services.clock():
            self._splits.rest()

    @property
    def _idle_due(self) -> float | None:
        """When a subtask without splits counts as idle, as a split without records does; None for never."""
        timeout = None if self._strategy is None else self._strategy.idle_timeout
        if timeout is None or self._open or self._splits.idle:
            return None
        return (self._without_splits_since + timeout) / 1000

    def close(self) -> None:
        for split in getattr(self, "_open", {}).values():
            split.reader.close()

    def _emit(self, split: _OpenSplit, batch: Batch) -> None:
        if split.time is None:
            self.output.emit(batch)
            return
        self._splits.emit(split.split.split_id, split.time, batch)
        if self.alignment is not None:
            # Now, so that the split waits as soon as it is ahead.
            self._splits.advance(split.split.split_id, split.time, split.time.periodic())

    def _drop(self, split: _OpenSplit) -> None:
        split.reader.close()
        del self._open[split.split.split_id]
        self._splits.remove(split.split.split_id)
        self._without_splits_since = self.context.services.clock()
        if split.time is not None and not self._open:
            split.time.periodic()
            self._left_behind = max(self._left_behind, split.time.watermark)

    # --- keeping step with others ---

    def align_to(self, watermark: int) -> None:
        self._aligned_to = watermark

    def progress(self) -> AlignedProgress | None:
        if self.alignment is None:
            return None
        waiting = [split.watermark for split in self._open.values() if self._must_wait(split)]
        return AlignedProgress(self._slowest(), min(waiting, default=None))

    def _ready(self) -> list[_OpenSplit]:
        return [split for split in self._open.values() if not self._must_wait(split)]

    def _must_wait(self, split: _OpenSplit) -> bool:
        """Whether a split is too far ahead of the others, here or in other subtasks and sources."""
        return self.alignment is not None and split.watermark > self._furthest(split, self.alignment)

    def _furthest(self, split: _OpenSplit, alignment: WatermarkAlignment) -> int:
        """The greatest watermark with which a split is read on."""
        if split.watermark == MIN_WATERMARK:
            return MAX_WATERMARK
        slowest = self._slowest()
        here = split.watermark if slowest is None else slowest
        if self._began_at is None:
            self._began_at = here
        # Until the driver says how far the others are, no split goes further than from where the first began.
        others = self._began_at + alignment.max_drift if self._aligned_to is None else self._aligned_to
        return min(here + alignment.max_drift, others)

    def _room(self, split: _OpenSplit) -> int:
        """How many records a split may give before it is too far ahead, judged by what its last ones did."""
        if self.alignment is None:
            return READ_RECORDS
        if split.watermark == MIN_WATERMARK or split.stride > 1e15:
            return 1
        room = (self._furthest(split, self.alignment) - split.watermark) / max(split.stride, 1e-3)
        return 1 + int(min(READ_RECORDS, max(0.0, room)))

    def _slowest(self) -> int | None:
        """The least watermark of the splits that have one and are not idle."""
        marks = [split.watermark for split in self._open.values() if split.time is not None and not split.time.idle]
        return min((mark for mark in marks if mark != MIN_WATERMARK), default=None)
