"""Queries of state by the program that runs the job, without a network."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from flintstream.common.completable_future import CompletableFuture
from flintstream.common.queryable_state import NOT_AVAILABLE, OK, StateNotAvailableException, error_of
from flintstream.jobmaster.queryable_states import QueryableStates
from flintstream.runtime.state.backend import kind_of_descriptor
from flintstream.runtime.state.read_only import ImmutableState, state_of

_THREADS = 4
_SLOT_SECONDS = 1.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5


class LocalStateClient:
    """Queries the states of a job of this process, some at a time."""

    def __init__(self, states: QueryableStates) -> None:
        self._states = states
        self._threads = ThreadPoolExecutor(_THREADS, "state query")

    def query(self, name: str, key: Any, descriptor: Any, seconds: float) -> CompletableFuture:
        """Returns a future of the read-only state of a key."""
        kind = None if descriptor is None else kind_of_descriptor(descriptor)
        if descriptor is not None and kind is None:
            raise TypeError(f"query_state: expected a state descriptor, got {descriptor!r}")
        deadline = time.monotonic() + seconds
        return CompletableFuture(self._threads.submit(self._ask, name, key, kind, deadline, seconds))

    def _ask(self, name: str, key: Any, kind: str | None, deadline: float, seconds: float) -> ImmutableState:
        pause = _FIRST_PAUSE
        while True:
            left = max(0.0, deadline - time.monotonic())
            [answer] = self._states.answers([(name, key)], seconds=min(_SLOT_SECONDS, left))
            if answer.status == OK:
                return state_of(name, answer, kind)
            if answer.status != NOT_AVAILABLE:
                raise error_of(answer.status, answer.value)
            if time.monotonic() + pause >= deadline:
                raise StateNotAvailableException(
                    f"queryable state {name!r} was not available within {seconds:g} s: {answer.value}"
                )
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
