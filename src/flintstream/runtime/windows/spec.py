"""WindowSpec: the assigner, trigger, evictor and functions of a program's windows, as the function of a window
operator.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from flintstream.runtime.captured import close_function, open_function
from flintstream.runtime.state.checkpointed import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    ListCheckpointed,
)
from flintstream.runtime.state.operator_state import ListDescriptor, OperatorListState
from flintstream.runtime.windows.contents import MISSING, ListContents, WindowContents
from flintstream.runtime.windows.functions import PassOn, WindowContext


@dataclass
class WindowSpec(CheckpointedFunction, CheckpointListener):
    """Delegates the calls of an operator to the user's objects that make up the windows."""

    assigner: Any
    trigger: Any
    contents: WindowContents
    function: PassOn
    evictor: Any = None
    allowed_lateness: int = 0
    late_tag: str | None = None
    """The id of the side output for late records; None to drop them."""
    mergeable: bool = False
    """Whether partial contents of a window, merged in any order, are known to equal the contents of the whole."""

    def for_evictor(self) -> WindowSpec:
        """Returns a spec that keeps all records for an evictor, and reduces them only when a window fires."""
        if not self.contents.incremental:
            return self
        return replace(self, contents=ListContents(), function=ReduceThen(self.contents, self.function))

    def open(self, runtime_context: Any) -> None:
        """Opens the user's functions."""
        for function in self._functions():
            open_function(function, runtime_context)

    def close(self) -> None:
        """Closes the user's functions."""
        for function in self._functions():
            close_function(function)

    # --- checkpoints ---

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Initialises or restores the state of the user's objects."""
        store = context.operator_state
        self._lists: dict[str, OperatorListState] = {}
        for role, function in self._by_role():
            if isinstance(function, CheckpointedFunction):
                function.initialize_state(context)
            elif isinstance(function, ListCheckpointed):
                self._lists[role] = store.get_list_state(ListDescriptor(f"list-checkpointed {role}"))
                if context.is_restored():
                    function.restore_state(list(self._lists[role]))

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Stores the state of the user's objects."""
        for role, function in self._by_role():
            if isinstance(function, CheckpointedFunction):
                function.snapshot_state(context)
            elif isinstance(function, ListCheckpointed):
                elements = function.snapshot_state(context.get_checkpoint_id(), context.get_checkpoint_timestamp())
                self._lists[role].update(elements or ())

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notifies the user's objects that a checkpoint is complete."""
        for listener in self._listeners():
            listener.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notifies the user's objects that a checkpoint was aborted."""
        for listener in self._listeners():
            listener.notify_checkpoint_aborted(checkpoint_id)

    # --- the user's objects ---

    def _functions(self) -> list[Any]:
        """Returns the user's functions to open and close."""
        functions = [self.assigner, *self.contents.functions, *self.function.reducers, self.function.function]
        return [function for function in functions if function is not None]

    def _by_role(self) -> Iterator[tuple[str, Any]]:
        """Yields the user's objects that may have state, each once, with its role, which is stable across restarts."""
        roles = [("assigner", self.assigner), ("evictor", self.evictor), ("window function", self.function.function)]
        roles += [("reducer", reducer) for reducer in (*self.contents.functions, *self.function.reducers)]
        trigger = self.trigger
        while trigger is not None:
            roles.append((f"trigger {type(trigger).__name__}", trigger))
            trigger = getattr(trigger, "nested_trigger", None)
        yield from {id(function): (role, function) for role, function in reversed(roles)}.values()

    def _listeners(self) -> list[CheckpointListener]:
        return [function for _, function in self._by_role() if isinstance(function, CheckpointListener)]


class ReduceThen(PassOn):
    """Reduces or aggregates all records when the window fires, then calls the function."""

    def __init__(self, contents: WindowContents, function: PassOn) -> None:
        self._contents = contents
        self._then = function
        self.function = function.function
        self.clears = function.clears
        self.reducers = contents.functions

    def results(self, key: Any, context: WindowContext, elements: list[Any]) -> Iterable[Any]:
        reduced = MISSING if elements else self._contents.empty()
        for element in elements:
            reduced = self._contents.add(reduced, element)
        if reduced is MISSING or not (result := self._contents.elements(reduced)):
            return ()
        return self._then.results(key, context, result)

    def clear(self, context: WindowContext) -> None:
        self._then.clear(context)
