"""Operator: one step of a chain, which lives in a slot for the duration of an attempt."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any

from flintstream.runtime.batch import Batch
from flintstream.runtime.captured import capture, unwrapped
from flintstream.runtime.faults import UserCodeError, user_fault
from flintstream.runtime.state.checkpointed import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    ListCheckpointed,
)
from flintstream.runtime.state.operator_state import ListDescriptor, OperatorStateBackend
from flintstream.runtime.time.changes import StoredTimers
from flintstream.runtime.time.timers import TimerService

if TYPE_CHECKING:
    from flintstream.runtime.block import LatencyMarker
    from flintstream.runtime.context import RuntimeContext
    from flintstream.runtime.latency import LatencyStats
    from flintstream.runtime.output import Output
    from flintstream.runtime.services import SlotServices
    from flintstream.runtime.state.backend import KeyedStateBackend

LATE_RECORDS = "numLateRecordsDropped"


_LIST = ListDescriptor("list-checkpointed")
"""The state of a `ListCheckpointed` function."""


class OperatorContext:
    """The context of an operator in a subtask."""

    def __init__(
        self,
        name: str,
        operator_id: str,
        subtask: int,
        parallelism: int,
        runtime_context: RuntimeContext,
        keyed_state: KeyedStateBackend | None,
        services: SlotServices,
        batch_mode: bool = False,
        watermark_interval: int = 200,
        operator_state: OperatorStateBackend | None = None,
        checkpointing: bool = False,
        checkpoint_timeout: float = 600.0,
        checkpoint_interval: float = 0.0,
        latencies: LatencyStats | None = None,
    ) -> None:
        self.name = name
        self.operator_id = operator_id
        self.subtask = subtask
        self.parallelism = parallelism
        self.runtime_context = runtime_context
        self.keyed_state = keyed_state
        self.services = services
        self.batch_mode = batch_mode
        self.watermark_interval = watermark_interval
        self.checkpointing = checkpointing
        """Whether checkpoints are taken."""
        self.checkpoint_timeout = checkpoint_timeout
        """The checkpoint timeout in seconds."""
        self.checkpoint_interval = checkpoint_interval
        """The checkpoint interval in seconds; 0 without checkpointing."""
        self.latencies = latencies
        """The latencies of the markers received; None if latency is not tracked."""
        self.operator_state = OperatorStateBackend(name) if operator_state is None else operator_state
        self.restored_timers: StoredTimers = ([], [])
        """Restored timers, in event time and in processing time."""


class Operator:
    """Base class of all operators.

    An operator is created on the driver, shipped unopened, and set up once in each subtask. Then, always on the slot's
    processing thread: `open`, any number of `process`/`process2`/`process_watermark`/`end_epoch`, `finish` at the end
    of its input (not after a cancel or a failure), and `close` in any case.
    """

    two_inputs = False
    keyed = False
    """Whether the operator reads the keys of its batches and may use keyed state."""
    wants_grouping = True
    """Whether, if keyed and in batch mode, it receives all its records key by key at the end of the input. If not,
    records without a timestamp are passed at once, as only timestamps can reorder them.
    """

    takes_declared_types = False
    """Whether it receives values in their declared type even from a chained function, as sinks do."""
    commits = False
    """Whether it commits results when a checkpoint completes: a job with such an operator always ends with a
    checkpoint.
    """
    exactly_once = False
    """Whether a sink that does not commit by itself is exactly once: the driver delivers its records with a checkpoint."""
    proviso = ""
    """The condition of exactly once that lies outside the job; shown in the plan."""

    takes_results: bool | None = None
    """Whether its input counts as records that leave the job; by default (None) if it is a sink of the graph."""

    context: OperatorContext
    output: Output

    @property
    def replayable(self) -> bool:
        """Of a source without splits: whether it restores its position from a checkpoint."""
        return True

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Sets the operator up in its subtask."""
        self.context = context
        self.output = output

    def open(self) -> None:
        """Called once before the first record."""

    def process(self, batch: Batch) -> None:
        """Processes records of the first (or only) input."""
        raise NotImplementedError

    def process2(self, batch: Batch) -> None:
        """Processes records of the second input."""
        raise NotImplementedError

    def process_watermark(self, timestamp: int) -> None:
        """Processes a watermark, already the minimum over all inputs."""
        self.output.emit_watermark(timestamp)

    def process_idleness(self, idle: bool) -> None:
        """Processes a change of the input between idle and active."""
        self.output.emit_idleness(idle)

    def process_latency_marker(self, marker: LatencyMarker) -> None:
        """Records the latency of a marker, and passes it on."""
        if self.context.latencies is not None:
            self.context.latencies.record(marker)
        self.output.emit_latency_marker(marker)

    def tick(self) -> None:
        """Called between blocks, and at the latest at the time of `next_due`: does what is due by the clock, such as firing
        processing-time timers.
        """

    @property
    def in_flight(self) -> bool:
        """Returns whether `end_epoch` would wait for requests in flight. A pipelined job lets other tasks work meanwhile."""
        return False

    def end_epoch(self) -> None:
        """Called when the input of this epoch has been processed: nothing may be in flight afterwards."""
        self.tick()

    def seal(self) -> None:
        """Called after `end_epoch`, also once the input has ended: seals the results of the epoch for the driver."""

    def end_key(self) -> None:
        """In batch mode: called after all records of a key."""

    def end_input(self, input_index: int) -> None:
        """Called when one of the inputs has ended."""

    def finish(self) -> None:
        """Called when all inputs have ended: emits remaining results and ends the output."""
        self.output.finish()

    def close(self) -> None:
        """Called once at the end, in any case."""

    def next_due(self) -> float | None:
        """Returns when (seconds since 1970) the operator needs an epoch even without data; None for never."""
        return None

    # --- checkpoints, between two epochs ---

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> None:
        """Called when a checkpoint is taken: updates the states with everything to store."""

    def timers_to_store(self) -> TimerService | None:
        """Returns the timers that snapshots contain; None if the operator has none."""
        return None

    def stored_timers(self) -> StoredTimers:
        """Returns all timers, in event time and in processing time."""
        timers = self.timers_to_store()
        return ([], []) if timers is None else timers.stored()

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Called when a checkpoint is complete."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Called when a checkpoint was aborted."""


class FunctionOperator(Operator):
    """An operator with a user function: a plain callable, or an object with `open`, `close` and a method to call."""

    method = ""
    """The name of the method that function objects of this operator have, e.g. `map`."""

    def __init__(self, function: Any) -> None:
        self.function = capture(function)

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self.function = unwrapped(self.function)

    def open(self) -> None:
        self._initialize_state()
        opener = getattr(self.function, "open", None)
        if opener is not None:
            self.guarded(opener, self.context.runtime_context)

    def _initialize_state(self) -> None:
        function, state = self.function, self.context.operator_state
        if isinstance(function, CheckpointedFunction):
            context = FunctionInitializationContext(state, self.context.runtime_context)
            self.guarded(function.initialize_state, context)
        elif isinstance(function, ListCheckpointed) and state.is_restored:
            self.guarded(function.restore_state, list(state.get_list_state(_LIST)))

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> None:
        function = self.function
        if isinstance(function, CheckpointedFunction):
            self.guarded(function.snapshot_state, FunctionSnapshotContext(checkpoint_id, timestamp))
        elif isinstance(function, ListCheckpointed):
            elements = self.guarded(function.snapshot_state, checkpoint_id, timestamp)
            self.context.operator_state.get_list_state(_LIST).update(elements or ())

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        if isinstance(self.function, CheckpointListener):
            self.guarded(self.function.notify_checkpoint_complete, checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        if isinstance(self.function, CheckpointListener):
            self.guarded(self.function.notify_checkpoint_aborted, checkpoint_id)

    def close(self) -> None:
        closer = getattr(self.function, "close", None)
        if closer is not None:
            self.guarded(closer)

    def bound(self, method: str) -> Callable[..., Any]:
        """Returns the user's code to call: the method of a function object, or the callable itself."""
        return bound_method(self.function, method)

    def guarded(self, call: Callable[..., Any], *args: Any) -> Any:
        """Calls user code without a record and key; its exception is reported with the operator's name."""
        state = self.context.keyed_state
        if state is not None:
            state.current_key = state.no_key
        try:
            return call(*args)
        except UserCodeError:
            raise
        except Exception as error:
            raise user_fault(error, self.context.name, self.context.subtask) from error

    def fault(self, error: Exception, record: Any) -> UserCodeError:
        """Returns the error to raise when user code failed on a record."""
        return user_fault(error, self.context.name, self.context.subtask, record)


def bound_method(function: Any, method: str) -> Callable[..., Any]:
    """Returns `function.method` if it exists, else the function itself."""
    function = unwrapped(function)
    found = getattr(function, method, None)
    if callable(found):
        return found  # type: ignore[no-any-return]
    if callable(function):
        # The method of an object costs less to call than the object.
        called = vars(type(function)).get("__call__")
        return called.__get__(function) if type(called) is FunctionType else function
    raise TypeError(f"expected a callable or an object with a method {method}(), got {function!r}")
