"""StateQueries: the queries of state that wait in a slot, and their answers.

The processing thread receives and answers them at safe points, where no user code is on its stack: between two blocks,
between two slices of a long block, and while the slot waits for work. So a query sees what has been processed so far, and
never a function at work. What drives the slot does not matter.

Queries have a connection of their own, which no other thread reads: a thread that did would take the interpreter from the
functions with every query, and on a busy machine not give it back for long.
"""

from __future__ import annotations

import json
import pickle
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from selectors import EVENT_READ, BaseSelector
from typing import Any

from flintstream.common.keys import key_group
from flintstream.common.pickling import dumps
from flintstream.common.queryable_state import (
    AS_JSON,
    FAILED,
    NOT_AVAILABLE,
    OK,
    UNKNOWN_KEY,
    UNKNOWN_STATE,
    StateAnswer,
    shown,
)
from flintstream.runtime.slot.connections import JobConnection
from flintstream.runtime.slot.messages import Reply, Request
from flintstream.runtime.slot.protocol import StateQuery
from flintstream.runtime.slot.task import Task
from flintstream.runtime.state.backend import KeyedStateBackend
from flintstream.runtime.state.queryable import MISSING

LARGEST_VALUE = 16 << 20
"""The most bytes of a value; a larger one would keep the slot from its records."""
STEP_SECONDS = 0.005
"""The time for answers at one safe point; the rest wait for the next one."""
_LOOK_SECONDS = 0.002
"""Connections are not looked at more often than this, unless they are known to be readable."""


class StateQueries:
    """See the module. `tell` sends a message to the driver."""

    def __init__(self, tell: Callable[[Any], None]) -> None:
        self._tell = tell
        self._waiting: deque[tuple[Callable[[Reply], None], int, Sequence[tuple[str, int, str, Any, str]]]] = deque()
        self._connections: dict[JobConnection, BaseSelector] = {}
        self._next_look = 0.0
        self._backends: dict[tuple[str, int], KeyedStateBackend] = {}

    def open(self, tasks: Iterable[Task]) -> None:
        """Starts to answer from the states of tasks, which are open."""
        self._backends = {
            (operator.context.operator_id, task.subtask): operator.context.keyed_state
            for task in tasks
            for operator in task.operators.values()
            if operator.context.keyed_state is not None
        }

    def close(self) -> None:
        """Stops to read: the states are about to be closed."""
        self._backends = {}

    def add(self, number: int, queries: Sequence[tuple[str, int, str, Any, str]]) -> None:
        """Adds the queries of a request, whose reply goes to `tell`."""
        self._waiting.append((self._tell, number, queries))

    def connect(self, connection: JobConnection, selector: BaseSelector) -> None:
        """Adds a connection to receive requests from. Until its end the selector knows it, with this object as its data."""
        selector.register(connection, EVENT_READ, self)
        self._connections[connection] = selector

    def look(self) -> None:
        """Called when a connection is readable: the next safe point looks at them."""
        self._next_look = 0.0

    def _receive(self) -> None:
        self._next_look = time.perf_counter() + _LOOK_SECONDS
        for connection in list(self._connections):
            try:
                while (frame := connection.next_frame()) is not None:
                    request: Request = pickle.loads(frame)
                    self._waiting.append((connection.send, request.number, request.message.queries))  # type: ignore[attr-defined]
            except (EOFError, OSError):
                self._connections.pop(connection).unregister(connection)
                connection.close()

    @property
    def waiting(self) -> bool:
        """Returns whether there are queries to answer."""
        return bool(self._waiting)

    def answer(self) -> None:
        """Receives queries, and answers for a few milliseconds at most; at a safe point of the processing thread."""
        if self._connections and time.perf_counter() >= self._next_look:
            self._receive()
        if not self._waiting:
            return
        deadline = time.perf_counter() + STEP_SECONDS
        while self._waiting:
            reply, number, queries = self._waiting.popleft()
            answers = [tuple(self._answer(StateQuery(*fields))) for fields in queries]
            try:
                reply(Reply(number, answers))
            except OSError:
                continue  # The driver has hung up: this process is about to end.
            if time.perf_counter() >= deadline:
                return

    def _answer(self, query: StateQuery) -> StateAnswer:
        backend = self._backends.get((query.operator_id, query.subtask))
        if backend is None:
            return StateAnswer(NOT_AVAILABLE, value="the operator is not open")
        state = backend.queryable.get(query.name)
        if state is None:
            return StateAnswer(
                UNKNOWN_STATE, value=f"operator '{backend.operator}' has no queryable state {query.name!r}"
            )
        try:
            if key_group(query.key, backend.max_parallelism) not in backend.key_groups:
                return StateAnswer(FAILED, value=f"subtask {query.subtask} does not own the key group of {query.key!r}")
            value = state.read(backend, query.key)
            if value is MISSING:
                return StateAnswer(
                    UNKNOWN_KEY, value=f"queryable state {query.name!r} has no entry for the key {query.key!r}"
                )
            data = json.dumps(shown(value)) if query.form == AS_JSON else dumps(value)
        except Exception as error:  # A function of the user, or a value that cannot be pickled: the job goes on.
            return StateAnswer(
                FAILED,
                value=f"queryable state {query.name!r} of operator '{backend.operator}' cannot be read: {error!r}",
            )
        if len(data) > LARGEST_VALUE:
            return StateAnswer(
                FAILED,
                value=f"the value of {query.key!r} in queryable state {query.name!r} has {len(data):,} bytes, and more than "
                f"{LARGEST_VALUE:,} cannot be queried",
            )
        return StateAnswer(OK, state.kind, data)
