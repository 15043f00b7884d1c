"""Control messages between the driver and a slot.

The driver calls a slot with a Request, which contains a Message and is answered by a Reply with the same number. Without
a request, a slot sends its Registration, DataReady, StateRegistered, SlotFailed and the results of snapshots
(`checkpoint.reports`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from flintstream.common.processes import Process
from flintstream.runtime.checkpoint.pieces import CheckpointTarget, RestoredOperators
from flintstream.runtime.context import JobInfo
from flintstream.runtime.faults import Fault
from flintstream.runtime.slot.connections import Address
from flintstream.runtime.slot.protocol import Activity, EpochReport, SourceWork, StackSample, VertexReport
from flintstream.runtime.slot.user_code import UserCode

VERSION = 11
"""Increment it with any change of a message or its contents. Slots of another version are refused."""

Result = TypeVar("Result")


class Message(Generic[Result]):
    """A call from the driver to a slot, which returns a `Result`."""

    name: ClassVar[str]
    """The name shown to people."""
    runs_user_code: ClassVar[bool] = False
    """Whether it runs user code: such a call has no time limit, and ends when it is cancelled."""


@dataclass(frozen=True)
class Deploy(Message[None]):
    """Opens the operators; the first call. Sinks commit what is pending in a restored checkpoint."""

    name = "deploy"
    runs_user_code = True
    job: JobInfo
    user_code: UserCode
    operators: bytes
    """Pairs of a VertexDeployment and a subtask; pickled, since their classes may be the user's."""
    restored: RestoredOperators | None = None


@dataclass(frozen=True)
class BeginEpoch(Message[None]):
    """Begins an epoch: the slot accepts its blocks from now on."""

    name = "begin_epoch"
    epoch: int
    sources: dict[int, SourceWork]
    """By vertex."""


@dataclass(frozen=True)
class EndEpoch(Message[EpochReport]):
    """Ends the epoch: all its levels have been processed."""

    name = "end_epoch"


@dataclass(frozen=True)
class TakeSnapshot(Message[None]):
    """Takes a snapshot of all operators; it is uploaded while the next epochs run."""

    name = "snapshot"
    runs_user_code = True
    checkpoint_id: int
    timestamp: int
    target: CheckpointTarget
    savepoint: bool = False


@dataclass(frozen=True)
class PassBarrier(Message[EpochReport]):
    """Ends the epoch of a pipelined job: its sources emit a barrier, and each task passes it once all its channels have one.

    The report is as of the barrier. That takes as long as user code does for the blocks before it.
    """

    name = "pass_barrier"
    runs_user_code = True
    snapshot: TakeSnapshot | None = None
    """The snapshot that each task takes as it passes."""
    halts: bool = False
    """Whether nothing is processed behind the barrier until the next epoch begins."""


@dataclass(frozen=True)
class CheckpointComplete(Message[None]):
    """Sinks commit what the checkpoint contains."""

    name = "checkpoint_complete"
    runs_user_code = True
    checkpoint_id: int


@dataclass(frozen=True)
class CheckpointAborted(Message[None]):
    """The checkpoint was aborted."""

    name = "checkpoint_aborted"
    runs_user_code = True
    checkpoint_id: int


@dataclass(frozen=True)
class ListStaged(Message[dict[str, int]]):
    """Returns the number of pages of each spool whose records wait for a checkpoint."""

    name = "staged"


@dataclass(frozen=True)
class FetchPages(Message[list[bytes]]):
    """Returns pages of a spool from one on: at least one, and no more than make a reply of moderate size."""

    name = "fetch"
    spool: str
    first: int


@dataclass(frozen=True)
class ReleaseSpool(Message[None]):
    """Removes a spool that the driver has read."""

    name = "release"
    spool: str


@dataclass(frozen=True)
class Close(Message[EpochReport]):
    """Closes the operators; the last call."""

    name = "close"
    runs_user_code = True


@dataclass(frozen=True)
class Look(Message[Activity]):
    """Returns the current activity of the slot, without waiting for it. Also the heartbeat."""

    name = "look"


@dataclass(frozen=True)
class Measure(Message[list[VertexReport]]):
    """Returns reports of the tasks as they are now, without waiting for them."""

    name = "measure"


@dataclass(frozen=True)
class ReadStacks(Message[list[tuple[str, str]]]):
    """Returns the name and the stack of each thread, without waiting for any."""

    name = "stacks"


@dataclass(frozen=True)
class SampleStacks(Message[list[StackSample]]):
    """Samples the stacks of the processing thread and of sources' threads, without stopping them."""

    name = "sample"
    samples: int
    seconds: float
    """The time between two samples."""


@dataclass(frozen=True)
class QueryStates(Message[list[tuple[str, str, Any]]]):
    """Reads keyed states at the next safe point of the processing thread, also in the middle of an epoch.

    Plain tuples take a fifth of the time to cross that named ones would.
    """

    name = "query_states"
    queries: tuple[tuple[str, int, str, Any, str], ...]
    """The fields of each `StateQuery`; the reply has those of the `StateAnswer` to each."""


@dataclass(frozen=True)
class Request:
    """Driver to slot: a message, answered by a Reply of the same number."""

    number: int
    message: Message[Any]


@dataclass(frozen=True)
class Reply:
    """Slot to driver: the result of a request, or the fault."""

    number: int
    result: Any = None
    fault: Fault | None = None


@dataclass(frozen=True)
class Registration:
    """Slot to driver, first of all: its identity and the address for Spark tasks. Every version must be able to read it."""

    version: int
    """No default: it would be the reader's version."""
    slot: int
    process: Process
    host: str
    address: Address

    def __str__(self) -> str:
        return f"slot {self.slot} (process {self.process.pid} on {self.host})"


@dataclass(frozen=True)
class DataReady:
    """Slot to driver: a source has records."""

    slot: int


@dataclass(frozen=True)
class Joined:
    """Slot to driver: both tasks of a pipelined job are connected to it."""

    slot: int


@dataclass(frozen=True)
class SourcesEnded:
    """Slot to driver: no source of a pipelined slot has more to read."""

    slot: int


@dataclass(frozen=True)
class StateRegistered:
    """Slot to driver: an operator has a queryable state."""

    slot: int
    vertex_id: int
    operator_id: str
    operator: str
    """Its name, for people."""
    name: str
    """The queryable name of the state."""


@dataclass(frozen=True)
class SlotFailed:
    """Slot to driver: an epoch failed in this slot."""

    slot: int
    fault: Fault
