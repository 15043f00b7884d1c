"""The operator at the head of a source task: reads splits, assigns timestamps, generates watermarks."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from flintstream.common.time import earliest
from flintstream.common.types import make_rows
from flintstream.runtime.batch import MAX_WATERMARK, MIN_WATERMARK, NO_TIMESTAMP, Batch
from flintstream.runtime.faults import user_fault
from flintstream.runtime.operators.base import Operator
from flintstream.runtime.pace import Pace
from flintstream.runtime.source import AlignedProgress, SourceError, SourceTiming, Split, SplitRecords, SplitSource
from flintstream.runtime.time.generators import TimestampsAndWatermarks
from flintstream.runtime.time.valve import CombinedWatermark

if TYPE_CHECKING:
    from flintstream.common.watermark_strategy import WatermarkAlignment, WatermarkStrategy
    from flintstream.runtime.latency import LatencyMarkers

READ_RECORDS = 8192
"""The most records read at a time."""
PREFETCH_RECORDS = 1024


class SourceHead(Operator):
    """The operator at the head of a source task.

    `read_epoch` is called once per epoch, and emits at most `limit` records. `exhausted` is true at the end of the source.
    """

    alignment: WatermarkAlignment | None = None
    """The alignment group of the source; None without watermark alignment."""
    emits_declared_type = False
    """Whether records have the declared type already, and need no conversion."""
    deadline = float("inf")
    """When (by `time.monotonic`) reading should end in this epoch, however few records were read."""
    held_back = False
    """Whether the source had more records than the last epoch took: its limit or deadline was reached, or splits wait
    for others.
    """
    timing: SourceTiming | None = None
    """How old the records last emitted were; None before the first."""
    markers: LatencyMarkers | None = None
    """Emits latency markers; None if latency is not tracked."""

    def read_epoch(self, limit: int) -> None:
        """Reads and emits at most `limit` records."""
        raise NotImplementedError

    def assign(self, splits: list[tuple[Split, Any]]) -> None:
        """Assigns splits, each with the position to start from."""
        raise NotImplementedError

    def no_more_splits(self) -> None:
        """Called once no more splits will be assigned."""

    def process_split(self, split: int, batch: Batch) -> None:
        """Receives records that Spark has read, of the split with a number."""
        raise NotImplementedError

    def align_to(self, watermark: int) -> None:
        """Sets the watermark up to which splits may be read, for alignment; splits beyond it wait."""

    def progress(self) -> AlignedProgress | None:
        """Returns the progress of an aligned source; None for others."""
        return None

    @property
    def exhausted(self) -> bool:
        """Returns whether the source has ended."""
        raise NotImplementedError

    @property
    def positions(self) -> dict[str, Any]:
        """Returns the position of each unfinished split."""
        return {}

    @property
    def waiting(self) -> int:
        """Returns the number of records that were fed back, and wait for the next epoch."""
        return 0

    def note_emitted(self, timestamp: int | None, fetch_lag: int | None = None) -> None:
        """Notes that records were emitted, the last of them with that timestamp, if any."""
        now = self.context.services.clock()
        timed = timestamp is not None and timestamp != NO_TIMESTAMP
        self.timing = SourceTiming(now, fetch_lag, now - timestamp if timed and timestamp is not None else None)
        if self.markers is not None:
            self.markers.emit_if_due()

    def has_data(self) -> bool:
        """Returns whether an epoch would find records now."""
        return False

    @property
    def wants_polling(self) -> bool:
        """Returns whether the source must be polled between epochs, because it cannot announce data itself."""
        return False

    def poll(self) -> bool:
        """Polls for data between epochs; returns whether there is some."""
        return self.has_data()


class SplitWatermarks:
    """Emits the records of the splits of a source, and their combined watermark."""

    def __init__(self, operator: SourceHead) -> None:
        self._output = operator.output
        self._combined = CombinedWatermark()
        self._idle = False
        self.last_timestamp: int | None = None
        """The event time of the last record emitted."""

    def add(self, split: Hashable) -> None:
        """Adds a split, which holds the watermark back until it has one."""
        self._combined.add(split)
        if self._idle:
            self._idle = False
            self._output.emit_idleness(False)

    @property
    def idle(self) -> bool:
        """Returns whether the source is marked idle."""
        return self._idle

    def mark_idle(self) -> None:
        """Marks the source idle, after a time without splits."""
        if not self._idle:
            self._idle = True
            self._output.emit_idleness(True)

    def emit(self, split: Hashable, timing: TimestampsAndWatermarks, batch: Batch) -> None:
        """Emits records of a split, with their timestamps and watermarks."""
        for part, watermark in timing.process(batch):
            # Active before its records, idle only after them: then others determine the watermark.
            if not timing.idle:
                self._tell(split, False)
            self._output.emit(part)
            if part.timestamps:
                self.last_timestamp = part.timestamps[-1]
            self.advance(split, timing, watermark)

    def round_off(self, split: Hashable, timing: TimestampsAndWatermarks) -> None:
        """Emits the periodic watermark and the idleness of a split, at the end of an epoch."""
        self.advance(split, timing, timing.round_off())

    def advance(self, split: Hashable, timing: TimestampsAndWatermarks, watermark: int | None) -> None:
        """Updates the watermark of a split, if there is a new one, and its idleness."""
        if watermark is not None:
            # A split with a new watermark is active, if only for that.
            self._tell(split, False)
            self._move(self._combined.advance(split, watermark))
        self._tell(split, timing.idle)

    def reach(self, watermark: int) -> None:
        """Advances the watermark to that of a finished split."""
        self._move(self._combined.raise_to(watermark))

    def remove(self, split: Hashable) -> None:
        """Removes a finished split: splits discovered later must still be able to advance the watermark."""
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
    """Receives the rows of a Spark DataFrame, which Spark reads; each partition counts as a split.

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
        """Returns the watermark generator of a split; its idle timeout starts with the first call."""
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
        if rows.values:
            self.note_emitted(self._splits.last_timestamp)

    def tick(self) -> None:
        for split, timing in self._times.items():
            timing.look()
            self._splits.advance(split, timing, timing.round_off_if_due())

    def end_epoch(self) -> None:
        for split, timing in self._times.items():
            timing.look()
            self._splits.round_off(split, timing)

    def next_due(self) -> float | None:
        return earliest(timing.next_due for timing in self._times.values())

    def read_epoch(self, limit: int) -> None:
        """Does nothing: the rows have arrived already."""

    def no_more_splits(self) -> None:
        self._complete = True

    @property
    def exhausted(self) -> bool:
        return self._complete


class _OpenSplit:
    """A split that is being read, with its watermark generator."""

    __slots__ = ("split_id", "stride", "time")

    def __init__(self, split_id: str, time: TimestampsAndWatermarks | None) -> None:
        self.split_id = split_id
        self.time = time
        self.stride = 0.0
        """By how much a record has recently advanced the watermark, on average."""

    @property
    def watermark(self) -> int:
        """Returns the watermark of the split."""
        return MIN_WATERMARK if self.time is None else self.time.watermark


class SourceOperator(SourceHead):
    """Reads the splits that the driver has assigned to this subtask."""

    def __init__(self, source: SplitSource, watermarks: WatermarkStrategy | None = None) -> None:
        self._source = source
        self._strategy = watermarks
        self.alignment = None if watermarks is None else watermarks.alignment

    def open(self) -> None:
        self._queue: deque[tuple[Split, Any]] = deque()
        """Splits to open later, if they are read one after the other."""
        self._open: dict[str, _OpenSplit] = {}
        self._ahead: list[SplitRecords] = []
        """Records prefetched between epochs."""
        self._before: Mapping[str, Any] = {}
        """The positions before the prefetched records."""
        self._stored: dict[int, Mapping[str, Any]] = {}
        """The positions in checkpoints that are not complete yet."""
        self._splits = SplitWatermarks(self)
        self._complete = False
        self._pace = Pace(READ_RECORDS, self.context.services.step_seconds)
        self._aligned_to: int | None = None
        self._began_at: int | None = None
        self._finished_watermark = MIN_WATERMARK
        self._without_splits_since = self._fetched = self.context.services.clock()
        with self._blame():
            self._reader = self._source.create_source_reader(self.context.runtime_context)

    @contextmanager
    def _blame(self) -> Iterator[None]:
        """Attributes exceptions to the source."""
        try:
            yield
        except Exception as error:
            raise user_fault(error, self.context.name, self.context.subtask) from error

    def assign(self, splits: list[tuple[Split, Any]]) -> None:
        self._queue.extend(splits)
        self._open_next()

    def _open_next(self) -> None:
        count = len(self._queue) if not self._source.sequential else min(len(self._queue), int(not self._open))
        if not count:
            return
        splits = [self._queue.popleft() for _ in range(count)]
        self._reader.add_splits(splits)
        for split, _ in splits:
            timing = None if self._strategy is None else TimestampsAndWatermarks(self._strategy, self.context)
            self._open[split.split_id] = _OpenSplit(split.split_id, timing)
            self._splits.add(split.split_id)

    def no_more_splits(self) -> None:
        self._complete = True

    @property
    def exhausted(self) -> bool:
        return self._complete and not self._open and not self._queue

    @property
    def positions(self) -> dict[str, Any]:
        positions = {} if not self._open else self._before if self._ahead else self._reader.snapshot()
        if missing := self._open.keys() - positions.keys():
            reader = type(self._reader).__name__
            raise SourceError(f"{reader}.snapshot() has no position of split {min(missing)!r}, which has not finished")
        open_splits = {split_id: positions[split_id] for split_id in self._open}
        return open_splits | {split.split_id: position for split, position in self._queue}

    def read_epoch(self, limit: int) -> None:
        looked: set[str] = set()
        drained = False
        while limit > 0 and (self._ahead or self._may_read()):
            self.context.services.safe_point()
            self._pace.begin()
            blocks = self._next_blocks(min(self._pace.size, limit))
            if not blocks:
                # Nothing anywhere: all splits that may be read were polled.
                looked.update(split.split_id for split in self._ready())
                drained = True
                break
            read = sum(self._take(block, looked) for block in blocks)
            self._pace.end(read)
            limit -= read
            if time.monotonic() >= self.deadline:
                break
        for split_id, split in self._open.items():
            # Only a split that was polled and had nothing can be idle, not one that waits or was not polled.
            if split.time is not None:
                (split.time.look if split_id in looked else split.time.stay_active)()
        self.held_back = not drained and not self.exhausted and bool(self._open)
        if drained and self.alignment is not None:
            self.held_back = any(self._must_wait(split) for split in self._open.values())

    def _next_blocks(self, limit: int) -> Sequence[SplitRecords]:
        """Returns the prefetched records, or else polls; empty if no split has records or has ended."""
        if self._ahead:
            blocks, self._ahead = self._ahead, []
            return blocks
        blocks = list(self._reader.poll(limit))
        self._fetched = self.context.services.clock()
        return blocks if any(block.values or block.finished for block in blocks) else []

    def _take(self, block: SplitRecords, looked: set[str]) -> int:
        """Emits records of a split; returns their number."""
        split = self._open.get(block.split_id)
        if split is None:
            reader = type(self._reader).__name__
            raise SourceError(
                f"{reader}.poll() returned split {block.split_id!r}, which it was not assigned or which has finished"
            )
        count = len(block.values)
        if count:
            before = split.watermark
            self._emit(split, Batch(block.values, block.timestamps))
            split.stride = (split.watermark - before) / count
            own = None if block.timestamps is None else block.timestamps[-1]
            self.note_emitted(
                own if split.time is None else self._splits.last_timestamp,
                None if own is None or own == NO_TIMESTAMP else self._fetched - own,
            )
        else:
            looked.add(block.split_id)
        if block.finished:
            self._drop(split)
            self._open_next()
        return count

    def has_data(self) -> bool:
        if self._ahead:
            return True
        due = self._reader.next_due() if self._may_read() else None
        return due is not None and due <= time.time()

    @property
    def wants_polling(self) -> bool:
        return self._may_read() and self._reader.next_due() is None

    def poll(self) -> bool:
        if not self._ahead and self._may_read():
            before = dict(self._reader.snapshot())
            # At most what one step takes: prefetched records are emitted in one step.
            self._ahead = list(self._next_blocks(min(PREFETCH_RECORDS, self._pace.size)))
            self._before = before
        return bool(self._ahead)

    def next_due(self) -> float | None:
        dues = [split.time.next_due for split in self._open.values() if split.time is not None]
        return earliest([self._idle_due, *dues, self._reader.next_due() if self._may_read() else None])

    def tick(self) -> None:
        self._round_off(TimestampsAndWatermarks.round_off_if_due)

    def end_epoch(self) -> None:
        self._round_off(TimestampsAndWatermarks.round_off)

    def _round_off(self, watermark: Callable[[TimestampsAndWatermarks], int | None]) -> None:
        # The watermark of the last split counts once it is known that its end was not the end of the source.
        self._splits.reach(self._finished_watermark)
        # If several become idle at once, the one furthest ahead does so last: those behind it must not hold it back.
        for split in sorted(self._open.values(), key=lambda split: split.watermark):
            if split.time is not None:
                self._splits.advance(split.split_id, split.time, watermark(split.time))
        due = self._idle_due
        if due is not None and due * 1000 <= self.context.services.clock():
            self._splits.mark_idle()

    @property
    def _idle_due(self) -> float | None:
        """Returns when a subtask without splits becomes idle, as a split without records does; None for never."""
        timeout = None if self._strategy is None else self._strategy.idle_timeout
        if timeout is None or self._open or self._splits.idle:
            return None
        return (self._without_splits_since + timeout) / 1000

    def close(self) -> None:
        reader = getattr(self, "_reader", None)
        if reader is not None:
            self._open.clear()  # So that a report of the closed task does not use the reader.
            with self._blame():
                reader.close()

    def _emit(self, split: _OpenSplit, batch: Batch) -> None:
        if split.time is None:
            self.output.emit(batch)
            return
        self._splits.emit(split.split_id, split.time, batch)
        if self.alignment is not None:
            # At once, so that the split waits as soon as it is too far ahead.
            self._splits.advance(split.split_id, split.time, split.time.periodic())

    def _drop(self, split: _OpenSplit) -> None:
        del self._open[split.split_id]
        self._splits.remove(split.split_id)
        self._without_splits_since = self.context.services.clock()
        if split.time is not None and not self._open:
            split.time.periodic()
            self._finished_watermark = max(self._finished_watermark, split.time.watermark)

    # --- checkpoints ---

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> None:
        with self._blame():
            self._stored[checkpoint_id] = self.positions

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        positions = self._stored.get(checkpoint_id)
        self._stored = {each: stored for each, stored in self._stored.items() if each > checkpoint_id}
        if positions is not None:
            with self._blame():
                self._reader.notify_checkpoint_complete(positions)
            if self.has_data():
                # Perhaps only now: a reader may wait for checkpoints, and the job may be idle.
                self.context.services.notify_data()

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self._stored.pop(checkpoint_id, None)

    # --- watermark alignment ---

    def align_to(self, watermark: int) -> None:
        self._aligned_to = watermark

    def progress(self) -> AlignedProgress | None:
        if self.alignment is None:
            return None
        waiting = [split.watermark for split in self._open.values() if self._must_wait(split)]
        return AlignedProgress(self._slowest(), min(waiting, default=None))

    def _may_read(self) -> bool:
        """Returns whether there is a split that need not wait; tells the reader which ones."""
        if self.alignment is not None and self._open:
            room = {split.split_id: self._room(split, self.alignment) for split in self._ready()}
            self._reader.align(room)
            return bool(room)
        return bool(self._open)

    def _ready(self) -> list[_OpenSplit]:
        return [split for split in self._open.values() if not self._must_wait(split)]

    def _must_wait(self, split: _OpenSplit) -> bool:
        """Returns whether a split is too far ahead of the others, here or in other subtasks and sources."""
        return self.alignment is not None and split.watermark > self._furthest(split, self.alignment)

    def _furthest(self, split: _OpenSplit, alignment: WatermarkAlignment) -> int:
        """Returns the greatest watermark at which a split may still be read."""
        if split.watermark == MIN_WATERMARK:
            return MAX_WATERMARK
        slowest = self._slowest()
        here = split.watermark if slowest is None else slowest
        if self._began_at is None:
            self._began_at = here
        # Until the driver knows how far the others are, the drift is limited from where the first split began.
        others = self._began_at + alignment.max_drift if self._aligned_to is None else self._aligned_to
        return min(here + alignment.max_drift, others)

    def _room(self, split: _OpenSplit, alignment: WatermarkAlignment) -> int:
        """Estimates how many records a split may emit before it is too far ahead, from its recent stride."""
        if split.watermark == MIN_WATERMARK or split.stride > 1e15:
            return 1
        room = (self._furthest(split, alignment) - split.watermark) / max(split.stride, 1e-3)
        return 1 + int(min(READ_RECORDS, max(0.0, room)))

    def _slowest(self) -> int | None:
        """Returns the smallest watermark of the splits that have one and are not idle."""
        marks = [split.watermark for split in self._open.values() if split.time is not None and not split.time.idle]
        return min((mark for mark in marks if mark != MIN_WATERMARK), default=None)
