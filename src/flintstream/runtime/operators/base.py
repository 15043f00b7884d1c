"""Operator: one step of a chain, which lives in a slot as long as the job."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flintstream.runtime.batch import Batch
from flintstream.runtime.captured import capture, released
from flintstream.runtime.faults import UserCodeError, user_fault
from flintstream.runtime.state.checkpointed import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    ListCheckpointed,
)
from flintstream.runtime.state.operator_state import ListDescriptor, OperatorStateBackend
from flintstream.runtime.time.timers import StoredTimers

if TYPE_CHECKING:
    from flintstream.runtime.context import RuntimeContext
    from flintstream.runtime.output import Output
    from flintstream.runtime.services import SlotServices
    from flintstream.runtime.state.backend import KeyedStateBackend

LATE_RECORDS = "numLateRecordsDropped"


_LIST = ListDescriptor("list-checkpointed")
"""The state of a `ListCheckpointed` function."""


class OperatorContext:
    """What an operator is given when it is set up in a subtask."""

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
        """How long (seconds) a checkpoint may take."""
        self.operator_state = OperatorStateBackend(name) if operator_state is None else operator_state
        self.restored_timers: StoredTimers = ([], [])
        """Timers of an earlier run, of event time and of processing time."""


class Operator:
    """Base of all operators.

    An operator is made on the driver, shipped unopened, and set up once in each subtask. Then, always on the slot's
    processing thread: `open`, any number of `process`/`process2`/`process_watermark`/`end_epoch`, `finish` when its input
    has ended (not after a cancel or a failure), and `close` in any case.
    """

    two_inputs = False
    keyed = False
    """Whether the operator reads the keys of its batches and may use keyed state."""
    wants_grouping = True
    """Whether, keyed and in batch mode, it gets all its records key by key at the end of the input. If not, those without
    a timestamp come at once, as only timestamps can give them another order."""

    takes_declared_types = False
    """Whether it gets values in the type declared for them even from a chained function: sinks do."""
    commits = False
    """Whether it hands results over when a checkpoint is complete: a job with such an operator ends with one in any case."""
    exactly_once = False
    """Whether a sink that does not commit itself counts each record exactly once: others release what it has taken."""
    proviso = ""
    """What exactly once depends on beyond the job: the plan says it."""

    takes_results: bool | None = None
    """Whether the records that it takes in are those that leave the job; None if it does as a sink of the graph."""

    context: OperatorContext
    output: Output

    @property
    def replayable(self) -> bool:
        """Of a source without splits: whether it restores its position from a checkpoint."""
        return True

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Places the operator into its subtask."""
        self.context = context
        self.output = output

    def open(self) -> None:
        """Called once before the first record."""

    def process(self, batch: Batch) -> None:
        """Takes records of the first (or only) input."""
        raise NotImplementedError

    def process2(self, batch: Batch) -> None:
        """Takes records of the second input."""
        raise NotImplementedError

    def process_watermark(self, timestamp: int) -> None:
        """Takes a watermark, already the minimum over all inputs."""
        self.output.emit_watermark(timestamp)

    def process_idleness(self, idle: bool) -> None:
        """The input has fallen idle, or is active again."""
        self.output.emit_idleness(idle)

    def end_epoch(self) -> None:
        """The input of this epoch has been processed."""

    def end_key(self) -> None:
        """In batch mode: all records of a key have come."""

    def end_input(self, input_index: int) -> None:
        """One of the inputs has ended."""

    def finish(self) -> None:
        """All inputs have ended: emit what is left and tell the receivers."""
        self.output.finish()

    def close(self) -> None:
        """Called once at the end, whatever the reason."""

    def next_due(self) -> float | None:
        """When (seconds since 1970) the operator wants an epoch even without data; None for never."""
        return None

    # --- checkpoints, between two epochs ---

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> None:
        """A checkpoint is being taken: put what has to survive into the states."""

    def stored_timers(self) -> StoredTimers:
        """The timers to store, of event time and of processing time."""
        return [], []

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """A checkpoint is safe."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """A checkpoint was given up."""


class FunctionOperator(Operator):
    """An operator around a user function: a plain callable, or an object with `open`, `close` and a method to call."""

    method = ""
    """The name of the method that a function object of this operator has, e.g. `map`."""

    def __init__(self, function: Any) -> None:
        self.function = capture(function)

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self.function = released(self.function)

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
        """The user's code to call: the method of a function object, or the callable itself."""
        return bound_method(self.function, method)

    def guarded(self, call: Callable[..., Any], *args: Any) -> Any:
        """Calls user code that has no record, and so no key; its exception is told with the operator's name."""
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
        """The error to raise when user code failed on a record."""
        return user_fault(error, self.context.name, self.context.subtask, record)


def bound_method(function: Any, method: str) -> Callable[..., Any]:
    """`function.method` where there is one, else the function itself."""
    function = released(function)
    found = getattr(function, method, None)
    if callable(found):
        return found  # type: ignore[no-any-return]
    if callable(function):
        return function  # type: ignore[no-any-return]
    raise TypeError(f"expected a callable or an object with a method {method}(), got {function!r}")
