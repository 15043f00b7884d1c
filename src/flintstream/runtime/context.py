"""RuntimeContext: information about the subtask in which a user function runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flintstream.common.accumulators import (
    Accumulator,
    DoubleCounter,
    Histogram,
    IntCounter,
    LongCounter,
)

if TYPE_CHECKING:
    from flintstream.common.type_variables import A, K, R, T, V
    from flintstream.datastream.state import (
        AggregatingState,
        AggregatingStateDescriptor,
        ListState,
        ListStateDescriptor,
        MapState,
        MapStateDescriptor,
        ReducingState,
        ReducingStateDescriptor,
        ValueState,
        ValueStateDescriptor,
    )
    from flintstream.metrics import MetricGroup
    from flintstream.runtime.latency import LatencyTracking
    from flintstream.runtime.state.backend import KeyedStateBackend


@dataclass(frozen=True)
class JobInfo:
    """The job's settings for every subtask."""

    job_id: str
    job_name: str
    attempt: int = 0
    parameters: Mapping[str, str] = field(default_factory=dict)
    batch_mode: bool = False
    watermark_interval: int = 200
    """The interval of periodic watermarks in milliseconds while records arrive; 0 for never."""
    cached_files: Mapping[str, str] = field(default_factory=dict)
    checkpointing: bool = False
    """Whether checkpoints are taken."""
    state_backend: str = "hashmap"
    """The state backend: `hashmap` or `rocksdb`."""
    state_options: Mapping[str, str] = field(default_factory=dict)
    """The options of the state backend."""
    incremental_checkpoints: bool = True
    """Whether checkpoints are incremental."""
    checkpoint_timeout: float = 600.0
    """The checkpoint timeout in seconds."""
    checkpoint_interval: float = 0.0
    """The checkpoint interval in seconds; 0 without checkpointing."""
    queryable_state: bool = False
    """Whether state may be queried."""
    object_reuse: bool = False
    """Whether functions promise not to modify emitted objects, so that nothing is copied."""
    pipelined: bool = False
    """Whether blocks are processed as they arrive, instead of level by level."""
    buffer_timeout: float | None = 0.005
    """The seconds after which a block that is not full is sent, in a pipelined job: 0 for at once, None for never. Operators
    may have a timeout of their own.
    """
    latency: LatencyTracking | None = None
    """How latency is tracked; None if it is not."""


@dataclass(frozen=True)
class SubtaskInfo:
    """The operator and subtask in which a function runs."""

    operator_name: str
    operator_id: str
    task_name: str
    subtask: int
    parallelism: int
    max_parallelism: int

    @property
    def task_name_with_subtasks(self) -> str:
        return f"{self.task_name} ({self.subtask + 1}/{self.parallelism})#0"


class DistributedCache:
    """The files of `env.register_cached_file`, by name, on this machine."""

    def __init__(self, files: Mapping[str, str]):
        self._files = dict(files)

    def get_file(self, name: str) -> str:
        """Returns the path of the file registered under `name`."""
        try:
            return self._files[name]
        except KeyError:
            known = ", ".join(sorted(self._files)) or "none"
            raise KeyError(f"no cached file is registered under {name!r} (registered: {known})") from None


class RuntimeContext:
    """Passed to `open(runtime_context)` of a rich function.

    It describes the job and the subtask, and provides metrics, accumulators, cached files and, on a keyed stream,
    state:

        class CountPerKey(MapFunction):
            def open(self, runtime_context):
                self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
    """

    def __init__(
        self,
        job: JobInfo,
        subtask: SubtaskInfo,
        accumulators: dict[str, Accumulator[Any, Any]],
        metrics: MetricGroup,
        state: KeyedStateBackend | None,
    ) -> None:
        self._job = job
        self._subtask = subtask
        self._accumulators = accumulators
        self._metrics = metrics
        self._state = state

    # --- about the subtask ---

    def get_task_name(self) -> str:
        """Returns the name of the task (the chain of operators)."""
        return self._subtask.task_name

    def get_number_of_parallel_subtasks(self) -> int:
        """Returns the operator's parallelism."""
        return self._subtask.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        """Returns the operator's max parallelism: its number of key groups."""
        return self._subtask.max_parallelism

    def get_index_of_this_subtask(self) -> int:
        """Returns the index of this subtask, from 0."""
        return self._subtask.subtask

    def get_attempt_number(self) -> int:
        """Returns how often the job has been restarted, from 0."""
        return self._job.attempt

    def get_task_name_with_subtasks(self) -> str:
        """Returns the task's name with this subtask's number, e.g. `Map (3/6)#0`."""
        return self._subtask.task_name_with_subtasks

    # --- about the job ---

    def get_job_id(self) -> str:
        """Returns the job's id: 32 hexadecimal digits."""
        return self._job.job_id

    def get_job_name(self) -> str:
        """Returns the name given to `execute`."""
        return self._job.job_name

    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Returns a global job parameter (`env.get_config().set_global_job_parameters`), or the default."""
        return self._job.parameters.get(key, default_value)

    def get_job_parameters(self) -> dict[str, str]:
        """Returns all global job parameters."""
        return dict(self._job.parameters)

    def is_checkpointing_enabled(self) -> bool:
        """Returns whether the job takes checkpoints."""
        return self._job.checkpointing

    def get_distributed_cache(self) -> DistributedCache:
        """Returns the files registered with `env.register_cached_file`."""
        return DistributedCache(self._job.cached_files)

    # --- metrics and accumulators ---

    def get_metrics_group(self) -> MetricGroup:
        """Returns the group in which the function registers metrics."""
        return self._metrics

    def add_accumulator(self, name: str, accumulator: Accumulator[Any, Any]) -> None:
        """Registers an accumulator; its total over all subtasks is part of the job's result."""
        if name in self._accumulators:
            raise ValueError(f"operator '{self._subtask.operator_name}': an accumulator named {name!r} exists already")
        self._accumulators[name] = accumulator

    def get_accumulator(self, name: str) -> Accumulator[Any, Any] | None:
        """Returns the accumulator of that name, or None."""
        return self._accumulators.get(name)

    def get_int_counter(self, name: str) -> IntCounter:
        """Returns the integer counter of that name, creating it if needed."""
        return self._counter(name, IntCounter)  # type: ignore[no-any-return]

    def get_long_counter(self, name: str) -> LongCounter:
        """Returns the integer counter of that name, creating it if needed."""
        return self._counter(name, LongCounter)  # type: ignore[no-any-return]

    def get_double_counter(self, name: str) -> DoubleCounter:
        """Returns the floating-point counter of that name, creating it if needed."""
        return self._counter(name, DoubleCounter)  # type: ignore[no-any-return]

    def get_histogram(self, name: str) -> Histogram:
        """Returns the histogram of that name, creating it if needed."""
        return self._counter(name, Histogram)  # type: ignore[no-any-return]

    def _counter(self, name: str, kind: Any) -> Any:
        accumulator = self._accumulators.setdefault(name, kind())
        if not isinstance(accumulator, kind):
            raise TypeError(
                f"operator '{self._subtask.operator_name}': accumulator {name!r} is a "
                f"{type(accumulator).__name__}, not a {kind.__name__}"
            )
        return accumulator

    # --- keyed state ---

    def get_state(self, state_descriptor: ValueStateDescriptor[T]) -> ValueState[T]:
        """Returns a `ValueState`: one value per key."""
        state: ValueState[T] = self._backend(state_descriptor).value_state(state_descriptor)
        return state

    def get_list_state(self, state_descriptor: ListStateDescriptor[T]) -> ListState[T]:
        """Returns a `ListState`: a list per key."""
        state: ListState[T] = self._backend(state_descriptor).list_state(state_descriptor)
        return state

    def get_map_state(self, state_descriptor: MapStateDescriptor[K, V]) -> MapState[K, V]:
        """Returns a `MapState`: a map per key."""
        state: MapState[K, V] = self._backend(state_descriptor).map_state(state_descriptor)
        return state

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor[T]) -> ReducingState[T]:
        """Returns a `ReducingState`: the values added for a key, reduced to one."""
        state: ReducingState[T] = self._backend(state_descriptor).reducing_state(state_descriptor)
        return state

    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor[A, Any, R]) -> AggregatingState[A, R]:
        """Returns an `AggregatingState`: the values added for a key, aggregated."""
        state: AggregatingState[A, R] = self._backend(state_descriptor).aggregating_state(state_descriptor)
        return state

    def _backend(self, descriptor: Any) -> KeyedStateBackend:
        if self._state is None:
            raise RuntimeError(
                f"operator '{self._subtask.operator_name}': keyed state {descriptor.name!r} can only be used on a "
                "keyed stream: put a key_by() before this operator"
            )
        return self._state
