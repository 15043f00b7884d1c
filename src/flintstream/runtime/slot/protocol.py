"""The protocol between Spark tasks and slots, and the reports of slots to the driver.

A Spark task sends a hello, then frames, whose first byte is their kind. The driver's messages to slots are in `messages`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from flintstream.metrics import MetricValue
from flintstream.runtime.batch import MIN_WATERMARK
from flintstream.runtime.faults import Fault
from flintstream.runtime.latency import LatencyReport
from flintstream.runtime.source import AlignedProgress, SourceTiming

INPUT = b"I"
"""Task to slot: a block for a subtask of this level, after ROW_HEADER."""
PASS_ON = b"P"
"""Task to slot and back: a row addressed to a later level, unchanged."""
END = b"E"
"""Task to slot: no more blocks in this epoch."""
OUTPUT = b"O"
"""Slot to task: a block for a later level, after ROW_HEADER."""
DONE = b"D"
"""Slot to task: the level is done."""
FAILED = b"F"
"""Slot to task: the level has failed. Task to slot: its input has failed. Followed by the reason."""

ROW_HEADER = struct.Struct("<ciiiii")
"""Kind, slot, vertex, input, channel, sequence number. Both INPUT and OUTPUT frames carry it."""


class Hello(NamedTuple):
    """The first message of a Spark task: its job, attempt, epoch and level, and the slot it wants."""

    job_id: str
    attempt: int
    epoch: int
    level: int
    slot: int


class Join(NamedTuple):
    """The first message of a task of a pipelined job: which slot it belongs to, and whether it takes what the slot sends or
    passes on what is sent to it.
    """

    job_id: str
    attempt: int
    slot: int
    sends: bool


class ReadSpool(NamedTuple):
    """The first message of a Spark task that reads a spool; the pages follow as OUTPUT frames, then DONE."""

    spool: str


ASKING_SOURCES = "asking sources for data"
CLEANING_UP = "removing expired state"
"""The activity of a slot between epochs."""


@dataclass(frozen=True)
class Activity:
    """Slot to driver: the activity of its processing thread."""

    work: str | None
    """The name of a call of the driver, or an epoch; None while it waits for work."""
    seconds: float
    """The duration so far."""
    operator: str | None = None
    subtask: int | None = None
    call_seconds: float = 0.0
    """The known duration so far of a single call of the operator's function."""
    stack: str = ""
    other_stacks: dict[str, str] = field(default_factory=dict)
    """The stacks of other threads that run user code, by thread name."""

    @property
    def in_user_code(self) -> bool:
        """Returns whether user code may be running, which has no time limit."""
        return self.operator is not None or self.work == ASKING_SOURCES

    def describe(self) -> str:
        """Returns one line for people."""
        work = _WORKS.get(self.work or "", self.work)
        if self.work is None:
            return "waits for work"
        if self.operator is None:
            return f"has been {work} for {self.seconds:.0f} s"
        place = f"in operator '{self.operator}' (subtask {(self.subtask or 0) + 1})"
        if self.call_seconds < self.seconds / 2:
            return f"has been {work} for {self.seconds:.0f} s, now {place}"
        one_call = f"whose function has not returned for {self.call_seconds:.0f} s"
        return f"has been {work} for {self.seconds:.0f} s, {place}, {one_call}"

    def stacks(self) -> str:
        """Returns the stacks of its threads."""
        others = "".join(f"thread '{name}' is at\n{stack}" for name, stack in self.other_stacks.items())
        return self.stack + others


_WORKS = {
    "deploy": "opening its operators",
    "snapshot": "taking a snapshot",
    "checkpoint_complete": "committing a checkpoint",
    "checkpoint_aborted": "giving up a checkpoint",
    "close": "closing its operators",
}


class StackSample(NamedTuple):
    """What a subtask was seen at."""

    vertex_id: int
    subtask: int
    on_cpu: bool
    frames: tuple[str, ...]
    """`module.function:line`, the outermost first."""
    times: int
    """How often."""


class AskStates(NamedTuple):
    """The first message of the driver on a connection for queries of state; requests follow, and their replies."""

    attempt: int


class StateQuery(NamedTuple):
    """A query of keyed state."""

    operator_id: str
    subtask: int
    name: str
    """The queryable name of the state."""
    key: Any
    form: str
    """The form of the value: `pickled` or `json`."""


@dataclass(frozen=True)
class SourceWork:
    """The work of a source vertex in an epoch."""

    limit: int
    """The most records per subtask."""
    splits: dict[int, list[tuple[Any, Any]]] = field(default_factory=dict)
    """New splits by subtask, with the positions to start from."""
    complete: bool = False
    """Whether no more splits will be assigned."""
    seconds: float = float("inf")
    """The time limit for reading, however few records were read."""
    aligned_to: int | None = None
    """The watermark up to which splits of an aligned source may be read."""
    drain: bool = False
    """Whether the source ends now, as if it were exhausted."""


class OperatorReport(NamedTuple):
    """An operator of a subtask; counts are from the start of the attempt."""

    operator_id: str
    records_in: int
    records_out: int
    """Records emitted, to the main output and to side outputs with receivers."""
    input_watermark: int
    output_watermark: int
    late_records: int | None = None
    """Late records dropped; None if the operator never drops any."""


@dataclass(frozen=True)
class VertexReport:
    """The report of a subtask after an epoch; counts and seconds are from the start of the attempt."""

    vertex_id: int
    subtask: int
    records_in: int
    """Records received or, for a source, read."""
    records_out: int
    finished: bool
    records_left: int = 0
    """Records received by the sinks of this subtask."""
    positions: dict[str, Any] = field(default_factory=dict)
    progress: AlignedProgress | None = None
    """The progress of an aligned source."""
    bytes_in: int = 0
    """Bytes of blocks received from other tasks, or from Spark."""
    bytes_out: int = 0
    busy: float = 0.0
    """Seconds in the operators of the task."""
    blocked: float = 0.0
    """Seconds in which a block could not be handed on."""
    held_back: bool = False
    """Whether a source had more records than the epoch took."""
    feedback: int = 0
    """Of the head of an iteration: the records that were fed back, and wait for the next epoch."""
    input_watermark: int = MIN_WATERMARK
    operators: tuple[OperatorReport, ...] = ()
    timing: SourceTiming | None = None
    """Of a source: how old its records are."""
    metrics: dict[str, list[MetricValue]] | None = None
    """The metrics that functions have registered, by operator id; None if they were not collected this time."""
    accumulators: dict[str, Any] = field(default_factory=dict)
    """By name, as they are after the epoch."""
    latencies: list[LatencyReport] = field(default_factory=list)
    """The latencies that its operators have recorded; empty if latency is not tracked."""


@dataclass(frozen=True)
class EpochReport:
    """The report of a slot after an epoch."""

    levels: frozenset[int]
    """The completed levels."""
    vertices: list[VertexReport]
    spools: dict[str, int]
    """The number of pages to fetch, by spool."""
    first_pages: dict[str, list[bytes]]
    """The first pages of each spool, unless they are large, so that small results need no second call."""
    next_due: float | None
    """When this slot needs the next epoch even without data."""
    busy: dict[int, float]
    """Seconds spent in each level."""
    memory: int
    """The resident memory of the slot, in bytes."""
    late_records: dict[str, int] = field(default_factory=dict)
    """The number of late records dropped, by operator, without zeros."""
    waits_for_clock: bool = False
    """Whether an operator that is no source has something to do at a certain time, such as a timer."""
    snapshot_fault: Fault | None = None
    """Why the snapshot at the barrier could not be taken; of a pipelined job."""

    @property
    def accumulators(self) -> dict[str, Any]:
        """Returns the accumulators of the slot: those of its subtasks, merged by name."""
        merged: dict[str, Any] = {}
        for vertex in self.vertices:
            for name, accumulator in vertex.accumulators.items():
                if name in merged:
                    merged[name].merge(accumulator)
                else:
                    merged[name] = accumulator.clone()
        return merged
