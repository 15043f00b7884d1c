"""The shapes of programs and asynchronous requests."""

from __future__ import annotations

from typing import Literal

from typing_extensions import NotRequired, TypedDict

from flintstream.server.rest.shapes.jobs import FailureCause, QueueStatus


class EntryClass(TypedDict):
    """A module of an archive that can be run."""

    name: str
    description: str | None


class Program(TypedDict):
    """An uploaded program; Flink calls it a jar."""

    id: str
    name: str
    uploaded: int
    entry: list[EntryClass]


class Programs(TypedDict):
    """The uploaded programs, the newest first."""

    address: str
    files: list[Program]


class Uploaded(TypedDict):
    """Where an uploaded program is."""

    filename: str
    status: Literal["success"]


class Run(TypedDict):
    """The job of a program."""

    jobid: str


class RunApplication(TypedDict):
    """The application of a program: it has the id of its job."""

    applicationid: str


Triggered = TypedDict("Triggered", {"request-id": str})
SavepointInfo = TypedDict(
    "SavepointInfo", {"location": NotRequired[str | None], "failure-cause": NotRequired[FailureCause]}
)


class SavepointStatus(TypedDict):
    """A savepoint on request."""

    status: QueueStatus
    operation: NotRequired[SavepointInfo]


CheckpointInfo = TypedDict(
    "CheckpointInfo", {"checkpointId": NotRequired[int | None], "failure-cause": NotRequired[FailureCause]}
)


class CheckpointStatus(TypedDict):
    """A checkpoint on request."""

    status: QueueStatus
    operation: NotRequired[CheckpointInfo]


DisposalInfo = TypedDict("DisposalInfo", {"failure-cause": NotRequired[FailureCause]})


class DisposalStatus(TypedDict):
    """A savepoint that is being removed."""

    status: QueueStatus
    operation: NotRequired[DisposalInfo]
