"""Control messages: what the driver and a slot say to each other besides records.

The driver calls a slot by a Request, which holds a Message and is answered by a Reply of the same number. By itself a
slot says who it is, that a source has records, that an epoch broke, and what became of a snapshot (`checkpoint.reports`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from flintstream.common.processes import Process
from flintstream.runtime.checkpoint.pieces import CheckpointTarget, RestoredOperators
from flintstream.runtime.context import JobInfo
from flintstream.runtime.faults import Fault
from flintstream.runtime.slot.connections import Address
from flintstream.runtime.slot.protocol import Activity, EpochReport, SourceWork
from flintstream.runtime.slot.user_code import UserCode

VERSION = 1
"""To be raised with any change of a message, or of what one holds. Slots of another version are refused."""

Result = TypeVar("Result")


class Message(Generic[Result]):
    """A call of the driver to a slot, which answers with a `Result`."""

    name: ClassVar[str]
    """What people read of it."""
    runs_user_code: ClassVar[bool] = False
    """Such a call takes as long as it likes, and ends when it is given up."""


@dataclass(frozen=True)
class Deploy(Message[None]):
    """Opens the operators, first of all; sinks commit what was pending in a restored checkpoint."""

    name = "deploy"
    runs_user_code = True
    job: JobInfo
    user_code: UserCode
    operators: bytes
    """Pickled, since their classes may be the user's own: pairs of a VertexDeployment and a subtask."""
    restored: RestoredOperators | None = None


@dataclass(frozen=True)
class BeginEpoch(Message[None]):
    """From now on the slot takes the blocks of this epoch."""

    name = "begin_epoch"
    epoch: int
    sources: dict[int, SourceWork]
    """By vertex."""


@dataclass(frozen=True)
class EndEpoch(Message[EpochReport]):
    """All levels of the epoch have been processed."""

    name = "end_epoch"


@dataclass(frozen=True)
class TakeSnapshot(Message[None]):
    """Takes the state of all operators as it is now; it is stored while the next epochs run."""

    name = "snapshot"
    runs_user_code = True
    checkpoint_id: int
    timestamp: int
    target: CheckpointTarget
    savepoint: bool = False


@dataclass(frozen=True)
class CheckpointComplete(Message[None]):
    """Sinks commit what the checkpoint contains."""

    name = "checkpoint_complete"
    runs_user_code = True
    checkpoint_id: int


@dataclass(frozen=True)
class CheckpointAborted(Message[None]):
    """The checkpoint was given up."""

    name = "checkpoint_aborted"
    runs_user_code = True
    checkpoint_id: int


@dataclass(frozen=True)
class ListStaged(Message[dict[str, int]]):
    """Which spools hold records for a checkpoint, with the number of their pages."""

    name = "staged"


@dataclass(frozen=True)
class FetchPage(Message[bytes]):
    """A page of a spool."""

    name = "fetch"
    spool: str
    page: int


@dataclass(frozen=True)
class ReleaseSpool(Message[None]):
    """The driver has all it wants of a spool."""

    name = "release"
    spool: str


@dataclass(frozen=True)
class Close(Message[EpochReport]):
    """Closes the operators, last of all."""

    name = "close"
    runs_user_code = True


@dataclass(frozen=True)
class Look(Message[Activity]):
    """What the slot does now: answered at once, whatever that is. It is also the heartbeat."""

    name = "look"


@dataclass(frozen=True)
class Request:
    """Driver to slot: a message, answered by a Reply of the same number."""

    number: int
    message: Message[Any]


@dataclass(frozen=True)
class Reply:
    """Slot to driver: the result of a request, or what went wrong."""

    number: int
    result: Any = None
    fault: Fault | None = None


@dataclass(frozen=True)
class Registration:
    """Slot to driver, first of all: who it is and where tasks find it. Every version must be able to read it."""

    version: int
    """Without a default, which would be the reader's own."""
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
class SlotFailed:
    """Slot to driver: an epoch broke in this slot."""

    slot: int
    fault: Fault
