"""CepSpec: what the operator of a pattern is to do."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from flintstream.runtime.cep.automaton import Automaton
from flintstream.runtime.cep.context import CepRuntimeContext
from flintstream.runtime.context import RuntimeContext


class CepSpec:
    """The automaton of a pattern, the function for its matches, and how events are ordered."""

    def __init__(
        self,
        automaton: Automaton,
        function: Any,
        handles_timeouts: bool,
        event_time: bool,
        compare: Callable[[Any, Any], int] | None = None,
        late_tag: str | None = None,
    ) -> None:
        self.automaton = automaton
        self.function = function
        self.handles_timeouts = handles_timeouts
        """Whether the function wants partial matches that have timed out."""
        self.event_time = event_time
        self.compare = compare
        """Orders the events of one timestamp; None for the order of arrival."""
        self.late_tag = late_tag
        """The id of the side output for late events; None if they are dropped."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Opens the user's conditions and function in a subtask."""
        context = CepRuntimeContext(runtime_context)
        for each in (*self.automaton.conditions(), self.function):
            setter = getattr(each, "set_runtime_context", None)
            if setter is not None:
                setter(context)
            opener = getattr(each, "open", None)
            if opener is not None:
                opener(context)

    def close(self) -> None:
        """Closes the user's conditions and function."""
        with ExitStack() as closing:  # Each is closed, also if another one fails.
            for each in (self.function, *reversed(list(self.automaton.conditions()))):
                closer = getattr(each, "close", None)
                if closer is not None:
                    closing.callback(closer)
