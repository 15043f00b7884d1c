"""What a function implements that keeps state which belongs to no key, or wants to know of checkpoints."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from flintstream.datastream.state import OperatorStateStore
    from flintstream.runtime.context import RuntimeContext
    from flintstream.runtime.state.operator_state import OperatorStateBackend


class FunctionInitializationContext:
    """Given to `initialize_state`: where a function gets its state from."""

    def __init__(self, operator_state: OperatorStateBackend, runtime_context: RuntimeContext) -> None:
        self.operator_state = operator_state
        self._runtime_context = runtime_context

    def is_restored(self) -> bool:
        """Whether there is state of an earlier run."""
        return self.operator_state.is_restored

    def get_operator_state_store(self) -> OperatorStateStore:
        """For state that belongs to the subtask: lists and broadcast maps."""
        return cast("OperatorStateStore", self.operator_state)

    def get_keyed_state_store(self) -> RuntimeContext:
        """For state that belongs to keys, on a keyed stream."""
        return self._runtime_context


class FunctionSnapshotContext:
    """Given to `snapshot_state`: which checkpoint is being taken."""

    def __init__(self, checkpoint_id: int, checkpoint_timestamp: int) -> None:
        self._checkpoint_id = checkpoint_id
        self._checkpoint_timestamp = checkpoint_timestamp

    def get_checkpoint_id(self) -> int:
        """The checkpoint's number; numbers only grow."""
        return self._checkpoint_id

    def get_checkpoint_timestamp(self) -> int:
        """When it was started, in milliseconds since 1970."""
        return self._checkpoint_timestamp


class CheckpointedFunction(ABC):
    """A function with state of its subtask: `initialize_state` before `open`, `snapshot_state` at each checkpoint.

    Example::

        class BufferingSink(SinkFunction, CheckpointedFunction):
            def __init__(self):
                self.buffer = []

            def initialize_state(self, context):
                descriptor = ListStateDescriptor("buffered", Types.STRING())
                self.state = context.get_operator_state_store().get_list_state(descriptor)
                self.buffer = list(self.state.get())

            def snapshot_state(self, context):
                self.state.update(self.buffer)

            def invoke(self, value, context):
                self.buffer.append(value)
    """

    @abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Called once in each subtask before `open`: get the states, and take over what they hold."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Called at each checkpoint: put into the states what has to survive."""


class ListCheckpointed(ABC):
    """A function with a list as its state: given out at each checkpoint, handed back after a restore.

    Example::

        class Counter(MapFunction, ListCheckpointed):
            def __init__(self):
                self.count = 0

            def map(self, value):
                self.count += 1
                return self.count

            def snapshot_state(self, checkpoint_id, timestamp):
                return [self.count]

            def restore_state(self, state):
                self.count = sum(state)
    """

    @abstractmethod
    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[Any]:
        """The elements to store; when the parallelism changes they are dealt out anew."""

    @abstractmethod
    def restore_state(self, state: list[Any]) -> None:
        """Called before `open` after a restore, with this subtask's share of the elements."""


class CheckpointListener(ABC):
    """A function that wants to know what became of a checkpoint."""

    @abstractmethod
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """The checkpoint, and so every earlier one, is safe."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """The checkpoint was given up; a later one will contain what it would have."""
        return
