"""Pipeline: drives the tasks of a slot while blocks arrive at any time, for the pipelined transport.

All tasks of a slot work at once: sources are read again and again, blocks are processed as they arrive, what a task has
written is sent after the buffer timeout, and timers fire on time.

Epochs are separated by *barriers*, which travel with the blocks. To end an epoch, each source emits a barrier and goes
on reading behind it. A task aligns the barriers of its channels: it holds back the blocks behind a barrier until all
its channels have one. Then it ends the epoch, takes its snapshot if there is a checkpoint, and emits a barrier of its
own. So a snapshot contains all records before the barrier and none behind it, although records are in flight all the
time. There is one barrier at a time: the driver sends the next when all tasks have passed the last.

A pipeline is independent of processes, threads and connections, as a slot is. It is used by the slot's processing thread:

    receive(pack) ──► inbox of a task ──► step() ──► outgoing packs, by slot
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable

from flintstream.common.time import earliest, monotonic_due
from flintstream.runtime.operators.source import SourceHead
from flintstream.runtime.slot.channels import BARRIER, BLOCK, CREDIT, Frame, InChannel, OutChannel, frames_of, window
from flintstream.runtime.slot.protocol import SourceWork
from flintstream.runtime.slot.task import Task

DEFAULT_FLUSH_SECONDS = 0.005
"""The buffer timeout if none is set."""
_LOOK_SECONDS = 0.002
"""The interval at which a busy pipeline looks for what is due, and a source that had little is read again."""
_LONGEST_PAUSE_SECONDS = 0.05
"""The most that a source without data, which cannot announce it, is left alone."""
_LONGEST_WAIT_SECONDS = 3600.0
_FEW_RECORDS = 64
_STEP_SECONDS = 0.05
"""How long a step takes at most where all tasks have much to do, unless a single block takes longer. Each of them goes on
for its part of it, since the caches of the processor know its code and state by then.
"""
_LONGEST_ROUND_SECONDS = 0.2
"""The most that sources wait for blocks that have arrived before."""


class _Station:
    """A task in the pipeline: its inbox, its channels, and whether it has passed the barrier."""

    def __init__(self, task: Task, most_in_flight: int) -> None:
        self.task = task
        self.inbox: deque[tuple[InChannel, Frame]] = deque()
        self.round = 0
        """How many of the first frames in the inbox are processed before sources are read again."""
        self.channels = {
            channel: InChannel(channel, index, most_in_flight)
            for index, group in enumerate(task.vertex.inputs[task.subtask])
            for channel in group
        }
        self.outs: list[OutChannel] = []
        self.source = task.head if isinstance(task.head, SourceHead) else None
        self.work: SourceWork | None = None
        self.unaligned = set(self.channels)
        """The channels whose barrier has not arrived."""
        self.passed = True
        """Whether it has passed the last barrier."""
        self.waiting = 0
        """The number of frames that wait for credit."""
        self.blocked_since: float | None = None
        self.next_read = 0.0
        """When to read the source again, by the monotonic clock."""
        self.pause = 0.0
        self.busy = 0.0
        """Seconds of work in this epoch."""

    @property
    def reads(self) -> bool:
        """Returns whether this is a source that may have records."""
        return self.work is not None and not self.task.finished


class _OutputFlusher:
    """The edges with one buffer timeout: what their writers hold is sent so many `seconds` after the first work."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.edges: dict[_Station, list[int]] = {}
        """Of each task, the indexes of these edges among those that leave it."""
        self.due: float | None = None
        """When to flush, by the monotonic clock; None while nothing may be buffered."""

    def arm(self) -> None:
        """Flushes after the timeout, since something may have been written."""
        if self.due is None:
            self.due = time.monotonic() + self.seconds

    def flush(self) -> None:
        """Sends what the tasks have written to these edges; those that wait for credit send it later."""
        self.due = None
        for station, edges in self.edges.items():
            if station.waiting:
                self.due = time.monotonic() + max(self.seconds, _LOOK_SECONDS)
            else:
                station.task.flush(edges)


class Pipeline:
    """The tasks of a slot. `flush_seconds` is the buffer timeout of operators without one of their own: 0 to send after each
    step, None to send full blocks only.

    `on_activity` is called once per epoch, with the first thing that happens in it; `on_pass` with each task that has ended
    the epoch at a barrier, before it processes what is behind it; `on_end` when the last source has ended.
    """

    def __init__(
        self,
        slot: int,
        tasks: list[Task],
        flush_seconds: float | None = DEFAULT_FLUSH_SECONDS,
        on_activity: Callable[[], None] = lambda: None,
        on_pass: Callable[[Task], None] = lambda task: None,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        self._slot = slot
        self._on_end = on_end
        self._on_activity = on_activity
        self._on_pass = on_pass
        channels = sum(len(group) for task in tasks for group in task.vertex.inputs[task.subtask])
        self._stations = {task.vertex.vertex_id: _Station(task, window(channels)) for task in tasks}
        # The last tasks of the graph first: what they process makes room for the others.
        self._order = sorted(self._stations.values(), key=lambda station: -station.task.vertex.level)
        self._turn_seconds = _STEP_SECONDS / max(1, len(self._order))
        self._outs: dict[tuple[int, int, int], OutChannel] = {}
        self._outgoing: dict[int, list[bytes | memoryview]] = {}
        self.outgoing_bytes = 0
        """The size of the frames to send."""
        self._flushers: dict[float, _OutputFlusher] = {}
        """By timeout. An edge without a timeout is in none."""
        for station in self._order:
            self._connect(station, flush_seconds)
        self._open = False
        """Whether the tasks work: from the first epoch on, unless a barrier has halted them."""
        self._halts = False
        """Whether nothing is processed behind the barrier until the next epoch begins."""
        self._active = False
        """Whether something has happened in this epoch."""
        self._passing = False
        """Whether a barrier is passing."""
        self._active_behind = False
        """Whether something has happened behind the barrier that is passing: in the next epoch."""
        self._round_until = 0.0
        """When sources are read in any case, by the monotonic clock."""
        self._next_look = 0.0
        self._due: float | None = None
        """When an operator has something to do, in processing time; as of the last look."""

    def _connect(self, station: _Station, flush_seconds: float | None) -> None:
        task = station.task
        for index, edge in enumerate(task.vertex.out_edges):
            seconds = flush_seconds if edge.buffer_timeout is None else edge.buffer_timeout / 1000
            if seconds is not None:
                flusher = self._flushers.setdefault(seconds, _OutputFlusher(seconds))
                flusher.edges.setdefault(station, []).append(index)
            for target in edge.targets[task.subtask]:
                address = (edge.target_slots[target], edge.target_vertex, edge.channel_base + task.subtask)
                out = self._outs[address] = OutChannel(*address, station)
                station.outs.append(out)
        task.outlet = self._send

    # --- epochs ---

    @property
    def passed(self) -> bool:
        """Returns whether all tasks have passed the barrier."""
        return all(station.passed for station in self._order)

    def begin_epoch(self, sources: dict[int, SourceWork]) -> None:
        """Begins an epoch, with new work for the sources."""
        for station in self._order:
            if station.source is not None and not station.task.finished:
                station.work = sources.get(station.task.vertex.vertex_id)
                if station.work is not None:
                    self._begin_work(station, station.source, station.work)
        self._open, self._halts = True, False
        self._next_look = 0.0

    def _begin_work(self, station: _Station, source: SourceHead, work: SourceWork) -> None:
        station.next_read = 0.0
        station.task.start_work()
        # Before any block: an assigned split holds the watermark back even if its records arrive last.
        station.task.assign_splits(work)
        if work.complete:
            source.no_more_splits()
        if work.aligned_to is not None:
            source.align_to(work.aligned_to)
        if work.drain:
            station.task.finish_source()  # At once: the next barrier must not overtake the end of the input.
            self._note_work()
            self._note_end()
        station.busy += station.task.stop_work()

    def pass_barrier(self, halts: bool = False) -> None:
        """Lets the sources emit a barrier; the epoch is over when all tasks have `passed`."""
        self._open, self._halts, self._passing = True, halts, True
        for station in self._order:
            station.passed = False

    def end_epoch(self) -> dict[int, float]:
        """Called when all tasks have passed. Returns the processing time of each level since the last call, in seconds."""
        self._active = self._passing = False
        if self._active_behind:
            self._active_behind = False
            self._note_activity()
        if self._halts:
            self._open = False
            self._due = None
            for flusher in self._flushers.values():
                flusher.due = None
        busy: dict[int, float] = {}
        for station in self._order:
            level = station.task.vertex.level
            busy[level] = busy.get(level, 0.0) + station.busy
            station.busy = 0.0
        return busy

    # --- what arrives ---

    def receive(self, pack: bytes | bytearray | memoryview) -> None:
        """Receives a pack from another slot."""
        for frame in frames_of(pack):
            self._deliver(frame)

    def _deliver(self, frame: Frame) -> None:
        if frame.kind == CREDIT:
            self._grant(self._outs[frame.sender, frame.vertex, frame.channel], frame.value)
            return
        station = self._stations[frame.vertex]
        channel = station.channels[frame.channel]
        channel.sender = frame.sender
        if channel.held is not None:
            channel.held.append(frame)
            return
        if frame.kind == BARRIER:
            channel.held = []
        station.inbox.append((channel, frame))

    def _grant(self, out: OutChannel, credit: int) -> None:
        station: _Station = out.owner
        for kind, value, block in out.grant(credit):
            station.waiting -= 1
            self._hand_over(out, kind, value, block)
        if not station.waiting and station.blocked_since is not None:
            station.task.note_blocked(time.perf_counter() - station.blocked_since)
            station.blocked_since = None

    # --- what is sent ---

    def _send(self, slot: int, vertex: int, input_index: int, channel: int, number: int, block: bytes) -> None:
        self._put(self._outs[slot, vertex, channel], BLOCK, len(block), block)

    def _put(self, out: OutChannel, kind: int, value: int, block: bytes = b"") -> None:
        if out.admit(kind, value, block):
            self._hand_over(out, kind, value, block)
            return
        station: _Station = out.owner
        station.waiting += 1
        if station.blocked_since is None:
            station.blocked_since = time.perf_counter()

    def _hand_over(self, out: OutChannel, kind: int, value: int, block: bytes) -> None:
        self._post(out.slot, Frame(kind, self._slot, out.vertex, out.channel, value, block))

    def _post(self, slot: int, frame: Frame) -> None:
        if slot == self._slot:
            self._deliver(frame)
        else:
            header, block = frame.pack()
            self._outgoing.setdefault(slot, []).extend((header, block))
            self.outgoing_bytes += len(header) + len(block)

    # --- work ---

    def step(self) -> bool:
        """Does some work: a turn for each task and source, and what is due by the clock. Returns False if there is nothing
        to do now.
        """
        if not self._open:
            return False
        worked = aligned = False
        reads = self._round_is_over()
        for station in self._order:
            if station.waiting or self._rests(station):
                continue
            if station.inbox:
                processed, reached = self._take_from_inbox(station)
                worked |= processed
                aligned |= reached
            elif not station.passed and not station.unaligned:
                aligned |= self._pass(station)
            elif reads and station.reads and time.monotonic() >= station.next_read and self._read(station):
                worked = True
                self._note_behind(station)
        if reads:
            self._begin_round()
        if worked:
            self._note_work()
        worked |= aligned  # A barrier is no activity: else an idle job would have one after the other.
        now = time.monotonic()
        if not worked or now >= self._next_look:
            worked |= self._tick()
            self._next_look = now + _LOOK_SECONDS
        for flusher in self._flushers.values():
            if flusher.due is not None and now >= flusher.due:
                flusher.flush()
        return worked

    def _round_is_over(self) -> bool:
        """Returns whether sources may be read: what had arrived when they were read last is processed. Else blocks would
        arrive faster than one a step is processed, and barriers would wait behind ever more of them.
        """
        return time.monotonic() >= self._round_until or not any(
            station.round for station in self._order if not station.waiting and not self._rests(station)
        )

    def _begin_round(self) -> None:
        self._round_until = time.monotonic() + _LONGEST_ROUND_SECONDS
        for station in self._order:
            station.round = len(station.inbox)

    def _rests(self, station: _Station) -> bool:
        """Returns whether a task does nothing until the next epoch begins."""
        return self._halts and station.passed

    def _note_work(self) -> None:
        self._note_activity()
        self._arm_flushers()

    def _note_activity(self) -> None:
        if not self._active:
            self._active = True
            self._on_activity()

    def _note_behind(self, station: _Station) -> None:
        if self._passing and station.passed:
            self._active_behind = True

    def _arm_flushers(self) -> None:
        for flusher in self._flushers.values():
            flusher.arm()

    def _take_from_inbox(self, station: _Station) -> tuple[bool, bool]:
        """Takes a frame from an inbox, and more while the task has its turn; returns whether there were blocks, and whether
        there were barriers.
        """
        processed = reached = False
        until = time.monotonic() + self._turn_seconds
        while station.inbox:
            channel, frame = station.inbox.popleft()
            station.round = max(0, station.round - 1)
            if frame.kind == BARRIER:
                station.unaligned.discard(channel.channel)
                reached = True
            else:
                self._process(station, channel, frame)
                processed = True
            if station.waiting or time.monotonic() >= until:
                break
        if processed:
            self._note_behind(station)
        return processed, reached

    def _process(self, station: _Station, channel: InChannel, frame: Frame) -> None:
        task = station.task
        task.start_work()
        task.receive(channel.input_index, channel.channel, frame.block)
        station.busy += task.stop_work()
        credit = channel.processed(frame.block)
        if credit:
            self._post(channel.sender, Frame(CREDIT, self._slot, frame.vertex, frame.channel, credit))

    def _read(self, station: _Station) -> bool:
        """Reads records of a source while it has its turn; returns whether there were any, or it has ended."""
        task, head, work = station.task, station.source, station.work
        assert head is not None and work is not None
        before = head.output.records
        until = time.monotonic() + self._turn_seconds
        task.start_work()
        has_more = True
        while has_more:
            last = head.output.records
            task.read_source(work, in_steps=True)
            has_more = head.held_back and head.output.records - last >= _FEW_RECORDS
            if task.finished or station.waiting or time.monotonic() >= until:
                break
        if not task.finished:
            task.tick()
        station.busy += task.stop_work()
        read = head.output.records - before
        station.next_read = self._next_read(station, head, read)
        if task.finished:
            self._note_end()
        if task.buffered:
            self._arm_flushers()  # Perhaps only a watermark or a marker, which is no activity.
        return read > 0 or task.finished

    def _note_end(self) -> None:
        if not any(station.reads for station in self._order):
            self._on_end()

    def _next_read(self, station: _Station, head: SourceHead, read: int) -> float:
        """Returns when to read a source again, after some records were read."""
        now = time.monotonic()
        if read >= _FEW_RECORDS or (read and head.held_back):
            station.pause = 0.0
            return now
        station.pause = _LOOK_SECONDS if read else min(max(2 * station.pause, _LOOK_SECONDS), _LONGEST_PAUSE_SECONDS)
        due = monotonic_due(station.task.next_due())
        polled = now + station.pause if head.wants_polling or head.has_data() else math.inf
        return polled if due is None else min(polled, max(due, now + _LOOK_SECONDS))

    def look_soon(self) -> None:
        """Looks for what is due and what is to be sent with the next step, since operators were called."""
        self._next_look = 0.0
        if self._open:
            self._arm_flushers()

    def wake_sources(self) -> None:
        """Lets sources be read soon, since one has announced data."""
        for station in self._order:
            if station.reads:
                station.pause, station.next_read = 0.0, min(station.next_read, time.monotonic() + _LOOK_SECONDS)

    def _pass(self, station: _Station) -> bool:
        """Lets a task pass the barrier: it ends the epoch, and emits a barrier; returns False if it still waits for
        requests in flight.
        """
        task = station.task
        if task.in_flight:
            return False  # Results arrive by the clock; meanwhile, the other tasks work.
        task.start_work()
        task.end_epoch()
        for out in station.outs:
            self._put(out, BARRIER, 0)
        station.passed = True
        station.unaligned |= station.channels.keys()
        self._on_pass(task)
        station.busy += task.stop_work()
        for channel in station.channels.values():
            held, channel.held = channel.held, None
            station.inbox.extend((channel, frame) for frame in held or ())
        return True

    def _tick(self) -> bool:
        """Does what is due by the clock; returns whether something was."""
        now = time.time()
        dues: list[float | None] = []
        ticked = False
        for station in self._order:
            task = station.task
            if station.waiting or task.finished or self._rests(station) or (station.reads and not task.in_flight):
                continue  # A source ticks whenever it is read.
            due = task.next_due()
            if due is not None and due <= now:
                task.start_work()
                task.tick()
                station.busy += task.stop_work()
                ticked = True
                self._note_behind(station)
                due = task.next_due()
            dues.append(due)
        self._due = earliest(dues)
        if ticked:
            self._note_work()
        return ticked

    @property
    def wants_flush(self) -> bool:
        """Returns whether something may be buffered that a flush would send."""
        return any(flusher.due is not None for flusher in self._flushers.values())

    def flush(self) -> None:
        """Sends what the tasks have written, before its timeout; blocks without a timeout stay until they are full."""
        for flusher in self._flushers.values():
            flusher.flush()

    def take_outgoing(self) -> list[tuple[int, list[bytes | memoryview]]]:
        """Returns the frames to send, by slot, and forgets them."""
        taken, self._outgoing, self.outgoing_bytes = self._outgoing, {}, 0
        return list(taken.items())

    def patience(self) -> float | None:
        """Returns for how many seconds there is nothing to do unless a pack or data arrives; None for any time."""
        if not self._open:
            return None
        able = [station for station in self._order if not station.waiting and not self._rests(station)]
        if any(station.inbox for station in able):
            return 0.0
        now = time.monotonic()
        waits = [flusher.due - now for flusher in self._flushers.values() if flusher.due is not None]
        # A source that waits for requests in flight before it passes a barrier is due by the clock.
        waits += [station.next_read - now for station in able if station.reads and station.passed]
        if self._due is not None:
            waits.append(self._due - time.time())
        # A timer may lie so far ahead that no system call could wait for it.
        least = min(waits, default=math.inf)
        return None if least == math.inf else min(max(0.0, least), _LONGEST_WAIT_SECONDS)
