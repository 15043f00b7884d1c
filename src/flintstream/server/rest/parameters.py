"""The parameters of paths and queries, and the bodies of requests; what is malformed is refused with status 400."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Path, Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from flintstream.common.queryable_state import LONGEST_SECONDS, MOST_QUERIES
from flintstream.server.rest.failures import RestError

__all__ = [
    "ApplicationId",
    "Attempt",
    "CheckpointId",
    "CheckpointRequest",
    "DisposalRequest",
    "HeartbeatRequest",
    "JobId",
    "Names",
    "ProgramId",
    "ProgramRequest",
    "SavepointRequest",
    "StateQueriesRequest",
    "StopRequest",
    "SubtaskIndex",
    "TaskManagerId",
    "TriggerId",
    "VertexId",
    "labels_of",
    "names_of",
    "ranges_of",
]

_HEXADECIMAL = "^[0-9a-fA-F]{32}$"
_LARGEST_LONG = (1 << 63) - 1
_LARGEST_INT = (1 << 31) - 1
LARGEST_PARALLELISM = 1 << 15

JobId = Annotated[str, Path(alias="jobid", pattern=_HEXADECIMAL), AfterValidator(str.lower)]
ApplicationId = Annotated[str, Path(alias="applicationid", pattern=_HEXADECIMAL), AfterValidator(str.lower)]
VertexId = Annotated[str, Path(alias="vertexid", pattern=_HEXADECIMAL), AfterValidator(str.lower)]
TriggerId = Annotated[str, Path(alias="triggerid", pattern=_HEXADECIMAL), AfterValidator(str.lower)]
CheckpointId = Annotated[int, Path(alias="checkpointid", ge=0, le=_LARGEST_LONG)]
SubtaskIndex = Annotated[int, Path(alias="subtaskindex", ge=0, le=_LARGEST_INT)]
Attempt = Annotated[int, Path(alias="attempt", ge=0, le=_LARGEST_INT)]
TaskManagerId = Annotated[str, Path(alias="taskmanagerid", max_length=255)]
ProgramId = Annotated[str, Path(alias="jarid", max_length=255)]
Names = Annotated[str | None, Query(max_length=100_000)]

_Id = Annotated[str, StringConstraints(pattern=_HEXADECIMAL), AfterValidator(str.lower)]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class SavepointRequest(_Request):
    """What a savepoint needs."""

    target_directory: str | None = Field(None, alias="target-directory", max_length=4096)
    cancel_job: bool | None = Field(None, alias="cancel-job")
    format_type: Literal["CANONICAL", "NATIVE"] | None = Field(None, alias="formatType")
    trigger_id: _Id | None = Field(None, alias="triggerId")


class StopRequest(_Request):
    """How a job is stopped with a savepoint."""

    target_directory: str | None = Field(None, alias="targetDirectory", max_length=4096)
    drain: bool | None = None
    format_type: Literal["CANONICAL", "NATIVE"] | None = Field(None, alias="formatType")
    trigger_id: _Id | None = Field(None, alias="triggerId")


class CheckpointRequest(_Request):
    """Which checkpoint is taken."""

    checkpoint_type: Literal["CONFIGURED", "FULL", "INCREMENTAL"] | None = Field(None, alias="checkpointType")
    trigger_id: _Id | None = Field(None, alias="triggerId")


class DisposalRequest(_Request):
    """Which savepoint is removed."""

    savepoint_path: str = Field(alias="savepoint-path", min_length=1, max_length=4096)


class StateQueriesRequest(_Request):
    """Queries of state."""

    model_config = ConfigDict(strict=False)  # A pair of JSON is a list.
    queries: list[tuple[str, Any]] = Field(max_length=MOST_QUERIES)
    """Names, each with a key as JSON."""
    seconds: float = Field(1.0, gt=0, le=LONGEST_SECONDS)
    """How long slots may take to answer."""


class HeartbeatRequest(_Request):
    """Until when a client is alive."""

    expired_timestamp: int | None = Field(None, alias="expiredTimestamp")


class _Bounds(_Request):
    lower: int | None = Field(None, alias="lowerBound", ge=1, le=LARGEST_PARALLELISM)
    upper: int | None = Field(None, alias="upperBound", ge=1, le=LARGEST_PARALLELISM)


class _Requirements(_Request):
    parallelism: _Bounds | None = None


RequirementsRequest = dict[_Id, _Requirements]


class ProgramRequest(_Request):
    """How an uploaded program is run; what the query says is overridden."""

    entry_class: str | None = Field(None, alias="entryClass", max_length=1000)
    program_args: list[str] | None = Field(None, alias="programArgsList")
    program_text: str | None = Field(None, alias="programArgs")
    """All arguments in one text, as Flink's dashboard sends them."""
    parallelism: int | None = Field(None, ge=1, le=LARGEST_PARALLELISM)
    job_id: _Id | None = Field(None, alias="jobId")
    application_id: Any = Field(None, alias="applicationId")
    allow_non_restored_state: bool | None = Field(None, alias="allowNonRestoredState")
    savepoint_path: str | None = Field(None, alias="savepointPath", max_length=4096)
    claim_mode: Literal["CLAIM", "NO_CLAIM", "LEGACY"] | None = Field(None, alias="claimMode")
    restore_mode: Literal["CLAIM", "NO_CLAIM", "LEGACY"] | None = Field(None, alias="restoreMode")
    flink_configuration: dict[str, str] | None = Field(None, alias="flinkConfiguration")


def names_of(text: str | None) -> list[str] | None:
    """Returns names separated by commas; None if there is none."""
    if not text:
        return None
    return [name for name in text.split(",") if name] or None


def labels_of(text: str | None) -> dict[str, str]:
    """Returns labels from `key:value`, separated by commas."""
    labels = {}
    for part in names_of(text) or ():
        key, colon, value = part.partition(":")
        if not (key and colon and value):
            raise RestError(400, f"failureLabelFilter must consist of KEY:VALUE, separated by commas, not {part!r}.")
        labels[key] = value
    return labels


def ranges_of(text: str | None, end: int) -> list[int]:
    """Returns the indices below `end` that `0-3,5` selects; all of them if there is no text."""
    selected: set[int] = set()
    for part in names_of(text) or [f"0-{end}"]:
        first, dash, last = part.partition("-")
        if not (first.isdecimal() and (last.isdecimal() or not dash)) or len(part) > 24:
            raise RestError(400, f"subtasks must be indices and ranges such as 0-3,5, not {part!r}.")
        selected.update(range(int(first), min(int(last or first), end - 1) + 1))
    return sorted(index for index in selected if index < end)
