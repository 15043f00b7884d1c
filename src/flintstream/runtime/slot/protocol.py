"""The words that slots and Spark tasks exchange, and what slots report to the driver.

Between a Spark task and a slot: a hello, then frames. The first byte of a frame says what it is. How the driver speaks with
slots is in `messages`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from flintstream.runtime.source import AlignedProgress

INPUT = b"I"
"""Task to slot: a block for a subtask of this level, behind INPUT_HEADER."""
PASS_ON = b"P"
"""Task to slot and back: a row addressed to a later level, as it is."""
END = b"E"
"""Task to slot: no more blocks in this epoch."""
OUTPUT = b"O"
"""Slot to task: a block for a later level, behind ROW_HEADER."""
DONE = b"D"
"""Slot to task: the level is done."""
FAILED = b"F"
"""Slot to task: the level has failed; what follows says why."""

ROW_HEADER = struct.Struct("<ciiiii")
"""Kind, slot, vertex, input, channel, sequence number. Both INPUT and OUTPUT frames carry it."""


class Hello(NamedTuple):
    """What a Spark task says first: for which job, attempt, epoch and level it speaks, and for which slot."""

    job_id: str
    attempt: int
    epoch: int
    level: int
    slot: int


class ReadSpool(NamedTuple):
    """What a Spark task says that wants the pages of a spool; they come as OUTPUT frames, then DONE."""

    spool: str


ASKING_SOURCES = "asking sources for data"
"""What a slot does between epochs, by itself."""


@dataclass(frozen=True)
class Activity:
    """Slot to driver: what its processing thread does."""

    work: str | None
    """A call of the driver by its name, or an epoch; None while it waits for the next thing to do."""
    seconds: float
    """For how long it has done that."""
    operator: str | None = None
    subtask: int | None = None
    call_seconds: float = 0.0
    """How long one and the same call of the operator's function is known to last."""
    stack: str = ""
    other_stacks: dict[str, str] = field(default_factory=dict)
    """Of the other threads in which user code runs, by name."""

    @property
    def in_user_code(self) -> bool:
        """Whether code of the program may be running, which takes as long as it likes."""
        return self.operator is not None or self.work == ASKING_SOURCES

    def describe(self) -> str:
        """One line for a person."""
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
        """Where its threads are."""
        others = "".join(f"thread '{name}' is at\n{stack}" for name, stack in self.other_stacks.items())
        return self.stack + others


_WORKS = {
    "deploy": "opening its operators",
    "snapshot": "taking a snapshot",
    "checkpoint_complete": "committing a checkpoint",
    "checkpoint_aborted": "giving up a checkpoint",
    "close": "closing its operators",
}


@dataclass(frozen=True)
class SourceWork:
    """What a source vertex has to do in an epoch."""

    limit: int
    """At most that many records for each subtask."""
    splits: dict[int, list[tuple[Any, Any]]] = field(default_factory=dict)
    """New splits for each subtask, with the position to start from."""
    complete: bool = False
    """No split will follow."""
    seconds: float = float("inf")
    """After that time no more records are read, however few they were."""
    aligned_to: int | None = None
    """The greatest watermark up to which splits are read, for a source that keeps step with others."""
    drain: bool = False
    """Whether the source ends now, as if there were nothing more to read."""


@dataclass(frozen=True)
class VertexReport:
    """What a subtask says after an epoch."""

    vertex_id: int
    subtask: int
    records_in: int
    records_out: int
    finished: bool
    records_left: int = 0
    """Records that sinks of this subtask took in."""
    positions: dict[str, Any] = field(default_factory=dict)
    progress: AlignedProgress | None = None
    """Of a source that keeps step with others."""


@dataclass(frozen=True)
class EpochReport:
    """What a slot says after an epoch."""

    levels: frozenset[int]
    """The levels that were completed."""
    vertices: list[VertexReport]
    spools: dict[str, int]
    """The pages that wait, by spool."""
    first_pages: dict[str, bytes]
    """The first page of each spool, so that small results need no second call."""
    accumulators: dict[str, Any]
    next_due: float | None
    """When this slot wants the next epoch even if no data comes."""
    busy: dict[int, float]
    """Seconds spent in each level."""
    memory: int
    """Resident bytes of the slot."""
    late_records: dict[str, int] = field(default_factory=dict)
    """How many records each operator has dropped because they came too late; operators without any are left out."""
