"""Interfaces of functions with operator state, or with callbacks for checkpoints."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from flintstream.datastream.state import OperatorStateStore
    from flintstream.runtime.context import RuntimeContext
    from flintstream.runtime.state.operator_state import OperatorStateBackend


class FunctionInitializationContext:
    """Passed to `initialize_state`: provides the function's state."""

    def __init__(self, operator_state: OperatorStateBackend, runtime_context: RuntimeContext) -> None:
        self.operator_state = operator_state
        self._runtime_context = runtime_context

    def is_restored(self) -> bool:
        """Returns whether state is being restored."""
        return self.operator_state.is_restored

    def get_operator_state_store(self) -> OperatorStateStore:
        """Returns the store of operator state: lists and broadcast maps."""
        return cast("OperatorStateStore", self.operator_state)

    def get_keyed_state_store(self) -> RuntimeContext:
        """Returns the store of keyed state, on a keyed stream."""
        return self._runtime_context


class FunctionSnapshotContext:
    """Passed to `snapshot_state`: describes the checkpoint."""

    def __init__(self, checkpoint_id: int, checkpoint_timestamp: int) -> None:
        self._checkpoint_id = checkpoint_id
        self._checkpoint_timestamp = checkpoint_timestamp

    def get_checkpoint_id(self) -> int:
        """Returns the checkpoint's number; numbers only grow."""
        return self._checkpoint_id

    def get_checkpoint_timestamp(self) -> int:
        """Returns when it was triggered, in milliseconds since 1970."""
        return self._checkpoint_timestamp


class CheckpointedFunction(ABC):
    """A function with operator state: `initialize_state` is called before `open`, `snapshot_state` at each checkpoint.

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
        """Called once per subtask before `open`: get the states, and restore their contents."""

    @abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Called at each checkpoint: update the states with everything to store."""


class ListCheckpointed(ABC):
    """A function whose state is a list: returned at each checkpoint, passed back after a restore.

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
        """Returns the elements to store; on rescaling they are redistributed."""

    @abstractmethod
    def restore_state(self, state: list[Any]) -> None:
        """Called before `open` after a restore, with this subtask's share of the elements."""


class CheckpointListener(ABC):
    """A function that is notified of the outcome of checkpoints."""

    @abstractmethod
    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Called when the checkpoint, and so every earlier one, is complete."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Called when the checkpoint was aborted; a later one will include its changes."""
        return
