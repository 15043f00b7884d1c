"""JobDetails: everything that a driver reports about one of its jobs, as plain data.

It crosses the driver's socket as JSON (`flintstream.jobmaster.registry`), is kept by the job server, and is archived when
the job ends. Times are milliseconds since 1970, durations milliseconds; -1 stands for "not yet".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from flintstream.common.job_status import ENDED

__all__ = [
    "CheckpointDetails",
    "CheckpointsDetails",
    "EdgeDetails",
    "ExceptionDetails",
    "GuaranteeDetails",
    "JobDetails",
    "LatencyDetails",
    "OperatorDetails",
    "SlotDetails",
    "SubtaskCheckpoint",
    "SubtaskDetails",
    "UserMetric",
    "VertexDetails",
    "from_json",
    "to_json",
]

Record = TypeVar("Record")


@dataclass(frozen=True)
class UserMetric:
    """A metric that a user function has registered."""

    operator_id: str
    name: str
    """With the names of its groups: `shop.berlin.orders`."""
    kind: str
    """`counter`, `gauge`, `meter` or `distribution`."""
    value: Any
    """A number or a text; `count` and `rate` of a meter; the statistics of a distribution."""
    variables: dict[str, str] = field(default_factory=dict)
    """The variables of its groups: `{"shop": "berlin"}`."""
    logical_name: str = ""
    """Its name without the values of variables: `shop.orders`."""


@dataclass(frozen=True)
class LatencyDetails:
    """The latency from a source to an operator of a subtask, as its latency markers tell."""

    operator_id: str
    subtask: int
    """The subtask of the operator."""
    source_id: str | None
    """The operator id of the source; None if sources are not told apart."""
    source_subtask: int | None
    """None if the subtasks of a source are not told apart."""
    statistics: dict[str, float]
    """`count`, and of the last markers `min`, `max`, `mean`, `stddev`, `median`, `p75` … `p999`, in milliseconds."""

    @property
    def variables(self) -> dict[str, str]:
        """Returns Flink's names for source and operator, with their values, in the order of its scopes."""
        found = {
            "source_id": self.source_id,
            "source_subtask_index": self.source_subtask,
            "operator_id": self.operator_id,
            "operator_subtask_index": self.subtask,
        }
        return {name: str(value) for name, value in found.items() if value is not None}


@dataclass(frozen=True)
class SubtaskDetails:
    """A subtask of a vertex in the current attempt of the job."""

    index: int
    slot: int
    """An index of `JobDetails.slots`."""
    attempt: int
    status: str
    """Flink's execution state: CREATED, SCHEDULED, DEPLOYING, INITIALIZING, RUNNING, FINISHED, CANCELING, CANCELED or
    FAILED."""
    timestamps: dict[str, int]
    """When it entered each execution state; without those it has not entered."""
    metrics: dict[str, Any] = field(default_factory=dict)
    """By Flink's names at the scope of a task: `numRecordsIn`, `numRecordsInPerSecond`, `numBytesOut`,
    `busyTimeMsPerSecond`, `accumulateBusyTimeMs`, `currentInputWatermark` …"""
    operator_metrics: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By operator id, and Flink's names at the scope of an operator."""
    user_metrics: list[UserMetric] = field(default_factory=list)
    latencies: list[LatencyDetails] = field(default_factory=list)
    """The latencies of its operators; empty if latency is not tracked."""
    accumulators: dict[str, Any] = field(default_factory=dict)
    """Name to `{"type": ..., "value": ...}`, both texts."""


@dataclass(frozen=True)
class OperatorDetails:
    """An operator of a vertex's chain."""

    operator_id: str
    name: str
    uid: str | None = None


@dataclass(frozen=True)
class EdgeDetails:
    """An edge from a vertex to this one."""

    source: str
    """The id of the vertex it comes from."""
    ship_strategy: str
    side_output: str | None = None


@dataclass(frozen=True)
class VertexDetails:
    """A vertex of the job graph."""

    vertex_id: str
    """32 hexadecimal digits: the id of the first operator of its chain, as in Flink."""
    name: str
    parallelism: int
    max_parallelism: int
    level: int
    slot_sharing_group: str
    operators: list[OperatorDetails]
    inputs: list[EdgeDetails]
    subtasks: list[SubtaskDetails]
    feeds_back_to: list[str] = field(default_factory=list)
    """The heads of the iterations whose feedback it receives; edges themselves make no cycles."""

    def most(self, metric: str) -> float:
        """Returns the greatest value of a metric among the subtasks; 0 where none has it."""
        return max((float(subtask.metrics.get(metric, 0)) for subtask in self.subtasks), default=0.0)

    def total(self, metric: str) -> float:
        """Returns the sum of a metric over the subtasks."""
        return sum(float(subtask.metrics.get(metric, 0)) for subtask in self.subtasks)


@dataclass(frozen=True)
class SlotDetails:
    """A slot of the current attempt."""

    slot: int
    host: str
    pid: int
    memory: int = 0
    """Resident bytes."""


@dataclass(frozen=True)
class SubtaskCheckpoint:
    """The share of a subtask in a checkpoint."""

    index: int
    ack_timestamp: int = -1
    """When its snapshot was stored; -1 if it has not been."""
    checkpointed_size: int = 0
    """Bytes stored for this checkpoint."""
    state_size: int = 0
    """Bytes that a restore reads."""
    sync_duration: int = 0
    """The time in which the slot took the snapshot and processed no records."""
    async_duration: int = 0
    """The time in which the snapshot was stored while records were processed."""


@dataclass(frozen=True)
class CheckpointDetails:
    """A checkpoint or savepoint, in progress or ended."""

    checkpoint_id: int
    status: str
    """IN_PROGRESS, COMPLETED or FAILED."""
    is_savepoint: bool
    trigger_timestamp: int
    latest_ack_timestamp: int = -1
    end_to_end_duration: int = 0
    checkpointed_size: int = 0
    state_size: int = 0
    external_path: str | None = None
    discarded: bool = False
    """Whether its files were removed, since newer checkpoints replace it."""
    failure_timestamp: int = -1
    failure_message: str | None = None
    attempt: int = 0
    epoch: int = 0
    tasks: dict[str, list[SubtaskCheckpoint]] = field(default_factory=dict)
    """By vertex id. Empty for old checkpoints of a long history."""


@dataclass(frozen=True)
class CheckpointsDetails:
    """The checkpoints of a job, over all its attempts."""

    enabled: bool
    interval: int = -1
    timeout: int = 600_000
    min_pause: int = 0
    max_concurrent: int = 1
    tolerable_failed: int = 0
    retained_on_cancellation: bool = False
    state_backend: str = "hashmap"
    storage: str | None = None
    """The directory of checkpoints; None if they are in the driver's memory."""
    incremental: bool = False
    restored: int = 0
    """How often a checkpoint was restored."""
    completed: int = 0
    failed: int = 0
    history: list[CheckpointDetails] = field(default_factory=list)
    """The latest ones, the newest first; those in progress among them."""
    latest_restored: dict[str, Any] | None = None
    """`id`, `restore_timestamp`, `is_savepoint`, `external_path` of the checkpoint restored last."""

    @property
    def latest_completed(self) -> CheckpointDetails | None:
        """Returns the newest one that is complete."""
        return next((each for each in self.history if each.status == "COMPLETED"), None)

    @property
    def failed_since(self) -> int:
        """Returns how many have failed since the last one that completed."""
        ended = [each.status for each in self.history if each.status != "IN_PROGRESS"]
        return ended.index("COMPLETED") if "COMPLETED" in ended else len(ended)


@dataclass(frozen=True)
class ExceptionDetails:
    """A failure of the job."""

    timestamp: int
    exception: str
    """One line."""
    stacktrace: str
    """The user's own traceback, or that of the engine."""
    operator: str | None = None
    subtask: int | None = None
    record: str | None = None
    """The record at fault, as its repr."""
    attempt: int = 0
    host: str | None = None
    vertex_id: str | None = None


@dataclass(frozen=True)
class GuaranteeDetails:
    """The delivery guarantee of a source and a sink together."""

    source: str
    sink: str
    delivery: str
    reason: str = ""


@dataclass(frozen=True)
class JobDetails:
    """A job with its graph, metrics, checkpoints and failures."""

    job_id: str
    name: str
    status: str
    """A name of JobStatus, or INITIALIZING while its driver starts."""
    job_type: str
    """STREAMING or BATCH."""
    start_time: int
    end_time: int
    now: int
    """When this was collected, by the driver's clock."""
    timestamps: dict[str, int]
    """When the job last entered each status; without those it has not entered."""
    parallelism: int
    restarts: int
    driver_pid: int
    driver_host: str
    program: str
    """The script with its arguments; empty for an interactive one."""
    configuration: dict[str, str]
    """The job's settings, without secrets."""
    parameters: dict[str, str]
    """Global job parameters."""
    restart_strategy: str
    object_reuse: bool
    vertices: list[VertexDetails]
    """In topological order."""
    slots: list[SlotDetails]
    checkpoints: CheckpointsDetails
    exceptions: list[ExceptionDetails]
    """The latest failures, the newest first."""
    guarantees: list[GuaranteeDetails]
    metrics: dict[str, Any] = field(default_factory=dict)
    """By Flink's names at the scope of a job: `uptime`, `numRestarts`, `lastCheckpointSize` …, and those of epochs."""
    accumulators: dict[str, Any] = field(default_factory=dict)
    """Name to `{"type": ..., "value": ...}`, both texts."""
    history: dict[str, list[Any]] = field(default_factory=dict)
    """Series of equal length for charts; `time` is their axis, in milliseconds."""
    phase: str | None = None
    """What the driver is busy with besides epochs, such as `starting 2 slots`."""

    @property
    def ended(self) -> bool:
        """Returns whether the job has ended for good."""
        return self.status in ENDED


def to_json(details: Any) -> dict[str, Any]:
    """Returns a record of this module as values that JSON has. They are shared with it, and must not be changed."""
    return {
        name: value if write is None else write(value)
        for name, write in _writers(type(details))
        for value in [getattr(details, name)]
    }


def from_json(kind: type[Record], value: Mapping[str, Any]) -> Record:
    """Returns a record of this module from the values of `to_json`.

    Fields that this version does not know are ignored, and those that the sender did not know have their defaults, so
    that a driver and a server of different versions understand each other. A required field that is missing raises a
    ValueError.
    """
    arguments = {}
    for name, required, read in _readers(kind):
        if name in value:
            arguments[name] = value[name] if read is None else read(value[name])
        elif required:
            raise ValueError(f"{kind.__name__} lacks '{name}'")
    return kind(**arguments)


_Convert = Callable[[Any], Any]


_known_readers: dict[type, list[tuple[str, bool, _Convert | None]]] = {}
_known_writers: dict[type, list[tuple[str, _Convert | None]]] = {}


def _readers(kind: type) -> list[tuple[str, bool, _Convert | None]]:
    """Returns the name of each field, whether it is required, and how to convert its value; None if it stays as it is."""
    if kind in _known_readers:
        return _known_readers[kind]
    hints = get_type_hints(kind)
    found = _known_readers[kind] = [
        (
            each.name,
            each.default is MISSING and each.default_factory is MISSING,
            _converter(hints[each.name], lambda record: lambda value: from_json(record, value)),
        )
        for each in fields(kind)
    ]
    return found


def _writers(kind: type) -> list[tuple[str, _Convert | None]]:
    if kind not in _known_writers:
        hints = get_type_hints(kind)
        _known_writers[kind] = [
            (each.name, _converter(hints[each.name], lambda record: to_json)) for each in fields(kind)
        ]
    return _known_writers[kind]


def _converter(hint: Any, of_record: Callable[[type], _Convert]) -> _Convert | None:
    """Returns how to convert values of a type that contains records of this module; None if it contains none."""
    if is_dataclass(hint) and isinstance(hint, type):
        return of_record(hint)
    origin, arguments = get_origin(hint), get_args(hint)
    inner = _converter(arguments[-1], of_record) if origin in (list, dict) and arguments else None
    if inner is None:
        return None
    convert = inner
    if origin is list:
        return lambda values: [convert(value) for value in values]
    return lambda values: {key: convert(value) for key, value in values.items()}
