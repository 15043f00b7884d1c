"""The contexts of CEP: of conditions, of pattern functions, and of both when they are opened, with what opens them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from flintstream.runtime.batch import NO_TIMESTAMP
from flintstream.runtime.cep.shared_buffer import NO_NODE, SharedBuffer
from flintstream.runtime.context import DistributedCache, RuntimeContext

if TYPE_CHECKING:
    from flintstream.metrics import MetricGroup


class MatchContext:
    """The time, for a pattern function. One object serves all matches of a subtask; it describes the current one."""

    __slots__ = ("_timestamp", "current_processing_time")

    def __init__(self, clock: Callable[[], int]) -> None:
        self.current_processing_time = clock
        """Returns the slot's clock, in milliseconds since 1970."""
        self._timestamp = NO_TIMESTAMP

    def timestamp(self) -> int:
        """Returns the timestamp of the match: that of its last event, or the time at which it was decided; of a
        partial match that has timed out, the end of its window.
        """
        return self._timestamp


class ConditionContext(MatchContext):
    """The context of an iterative condition: the time, and the events of the partial match so far."""

    __slots__ = ("_buffer", "_events", "_node", "_stages")

    def __init__(self, clock: Callable[[], int], stages: list[str]) -> None:
        super().__init__(clock)
        self._stages = stages
        self._buffer = SharedBuffer({})
        self._node = NO_NODE
        self._events: dict[str, list[Any]] | None = None

    def get_events_for_pattern(self, name: str) -> list[Any]:
        """Returns the events that this partial match has taken for a stage, without the current one."""
        if self._events is None:
            self._events = {}
            for state, event in self._buffer.events(self._node):
                self._events.setdefault(self._stages[state], []).append(event)
        return list(self._events.get(name, ()))

    def describe(self, buffer: SharedBuffer, node: int, timestamp: int) -> None:
        """Sets the partial match, and the timestamp of the event that is offered to it."""
        self._buffer = buffer
        self._node = node
        self._timestamp = timestamp
        self._events = None


class CepRuntimeContext:
    """What a pattern function or condition can know of its subtask. There is no state: the pattern itself is the state."""

    def __init__(self, context: RuntimeContext) -> None:
        self._context = context

    def get_task_name(self) -> str:
        """Returns the name of the task (the chain of operators)."""
        return self._context.get_task_name()

    def get_task_name_with_subtasks(self) -> str:
        """Returns the task's name with this subtask's number."""
        return self._context.get_task_name_with_subtasks()

    def get_number_of_parallel_subtasks(self) -> int:
        """Returns the operator's parallelism."""
        return self._context.get_number_of_parallel_subtasks()

    def get_max_number_of_parallel_subtasks(self) -> int:
        """Returns the operator's max parallelism: its number of key groups."""
        return self._context.get_max_number_of_parallel_subtasks()

    def get_index_of_this_subtask(self) -> int:
        """Returns the index of this subtask, from 0."""
        return self._context.get_index_of_this_subtask()

    def get_attempt_number(self) -> int:
        """Returns how often the job has been restarted, from 0."""
        return self._context.get_attempt_number()

    def get_job_id(self) -> str:
        """Returns the job's id: 32 hexadecimal digits."""
        return self._context.get_job_id()

    def get_job_name(self) -> str:
        """Returns the name given to `execute`."""
        return self._context.get_job_name()

    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Returns a global job parameter, or the default."""
        return self._context.get_job_parameter(key, default_value)

    def get_job_parameters(self) -> dict[str, str]:
        """Returns all global job parameters."""
        return self._context.get_job_parameters()

    def get_metrics_group(self) -> MetricGroup:
        """Returns the group in which the function registers metrics."""
        return self._context.get_metrics_group()

    def get_distributed_cache(self) -> DistributedCache:
        """Returns the files registered with `env.register_cached_file`."""
        return self._context.get_distributed_cache()

    # --- what Flink refuses too ---

    def get_state(self, state_descriptor: Any) -> NoReturn:
        """Refused."""
        raise NotImplementedError("State is not supported.")

    get_list_state = get_map_state = get_reducing_state = get_aggregating_state = get_state

    def add_accumulator(self, name: str, accumulator: Any) -> NoReturn:
        """Refused."""
        raise NotImplementedError("Accumulators are not supported.")

    def get_accumulator(self, name: str) -> NoReturn:
        """Refused."""
        raise NotImplementedError("Accumulators are not supported.")

    get_int_counter = get_long_counter = get_double_counter = get_histogram = get_accumulator

    def get_broadcast_variable(self, name: str) -> NoReturn:
        """Refused."""
        raise NotImplementedError("Broadcast variables are not supported.")

    get_broadcast_variable_with_initializer = get_broadcast_variable

    def has_broadcast_variable(self, name: str) -> NoReturn:
        """Refused."""
        raise NotImplementedError("Broadcast variables are not supported.")


class CepRichFunction:
    """Mixed into functions and conditions that are opened and closed in their subtask."""

    _runtime_context: CepRuntimeContext | None = None

    def open(self, runtime_context: CepRuntimeContext) -> None:
        """Called once per subtask before the first event."""

    def close(self) -> None:
        """Called once per subtask at the end, also after a failure."""

    def get_runtime_context(self) -> CepRuntimeContext:
        """Returns the context of the subtask; only after it has been opened."""
        if self._runtime_context is None:
            raise RuntimeError("The runtime context has not been initialized.")
        return self._runtime_context

    def set_runtime_context(self, runtime_context: CepRuntimeContext) -> None:
        """Sets the context of the subtask, before `open`."""
        self._runtime_context = runtime_context
