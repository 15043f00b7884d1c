"""WindowParts: what a program has said about its windows, as the one function of a window operator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

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
class WindowParts(CheckpointedFunction, CheckpointListener):
    """Passes on to the user's objects that it is made of what an operator tells its function."""

    assigner: Any
    trigger: Any
    contents: WindowContents
    function: PassOn
    evictor: Any = None
    allowed_lateness: int = 0
    late_tag: str | None = None
    """The id of the side output for records that come too late; None to drop them."""
    mergeable: bool = False
    """Whether the contents of parts of a window, merged in any order, are known to be those of the whole."""

    def for_evictor(self) -> WindowParts:
        """The parts with all records kept, for an evictor to choose from: what reduces them does so when a window fires."""
        if not self.contents.incremental:
            return self
        return replace(self, contents=ListContents(), function=ReduceThen(self.contents, self.function))

    def open(self, runtime_context: Any) -> None:
        """Opens the user's functions."""
        for function in self._functions():
            opener = getattr(function, "open", None)
            if opener is not None:
                opener(runtime_context)

    def close(self) -> None:
        """Closes the user's functions."""
        for function in self._functions():
            closer = getattr(function, "close", None)
            if closer is not None:
                closer()

    # --- checkpoints ---

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Lets the user's objects take over what an earlier run has left."""
        store = context.operator_state
        self._lists: dict[str, OperatorListState] = {}
        for role, part in self._by_role():
            if isinstance(part, CheckpointedFunction):
                part.initialize_state(context)
            elif isinstance(part, ListCheckpointed):
                self._lists[role] = store.get_list_state(ListDescriptor(f"list-checkpointed {role}"))
                if context.is_restored():
                    part.restore_state(list(self._lists[role]))

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Lets the user's objects store what has to survive."""
        for role, part in self._by_role():
            if isinstance(part, CheckpointedFunction):
                part.snapshot_state(context)
            elif isinstance(part, ListCheckpointed):
                elements = part.snapshot_state(context.get_checkpoint_id(), context.get_checkpoint_timestamp())
                self._lists[role].update(elements or ())

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Tells the user's objects that a checkpoint is safe."""
        for listener in self._listeners():
            listener.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Tells the user's objects that a checkpoint was given up."""
        for listener in self._listeners():
            listener.notify_checkpoint_aborted(checkpoint_id)

    # --- the user's objects ---

    def _functions(self) -> list[Any]:
        """Those that are opened and closed."""
        functions = [self.assigner, *self.contents.functions, *self.function.reducers, self.function.function]
        return [function for function in functions if function is not None]

    def _by_role(self) -> Iterator[tuple[str, Any]]:
        """Those that may have state: each once, with a name for what it does that stays the same from run to run."""
        roles = [("assigner", self.assigner), ("evictor", self.evictor), ("window function", self.function.function)]
        roles += [("reducer", reducer) for reducer in (*self.contents.functions, *self.function.reducers)]
        trigger = self.trigger
        while trigger is not None:
            roles.append((f"trigger {type(trigger).__name__}", trigger))
            trigger = getattr(trigger, "nested_trigger", None)
        yield from {id(part): (role, part) for role, part in reversed(roles)}.values()

    def _listeners(self) -> list[CheckpointListener]:
        return [part for _, part in self._by_role() if isinstance(part, CheckpointListener)]


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
