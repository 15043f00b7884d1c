"""QueryableState: a keyed state that is read from outside its operator, without a trace.

Reading neither changes the current key nor refreshes a time-to-live, and leaves caches as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flintstream.runtime.detach import copied
from flintstream.runtime.state.ttl import TimeToLive, without_times

if TYPE_CHECKING:
    from flintstream.runtime.state.backend import KeyedStateBackend

MISSING: Any = object()
"""There is no entry for the key, or it has expired."""


@dataclass(frozen=True)
class QueryableState:
    """A state of an operator that may be queried under a name of its own."""

    name: str
    """The name of `set_queryable`."""
    state: str
    """The name of the state within its operator."""
    kind: str
    time_to_live: TimeToLive | None = None
    function: Any = None
    """Of an aggregating state: the function that makes a result of an accumulator."""

    def read(self, backend: KeyedStateBackend, key: Any) -> Any:
        """Returns the value of a key; MISSING if there is none. The caller must not keep it: it may be the live object."""
        entry = backend.peek(self.state, key, MISSING)
        if entry is not MISSING and self.time_to_live is not None:
            entry = self._visible(self.time_to_live, entry, backend.clock())
        if entry is MISSING or (self.kind in ("list", "map") and not entry):
            return MISSING
        return entry if self.function is None else self.function.get_result(copied(entry))

    def _visible(self, live: TimeToLive, entry: Any, now: int) -> Any:
        left = entry if live.shows_expired else live.unexpired(self.kind, entry, now)
        return MISSING if left is None else without_times(self.kind, [left])[0][0]
