"""QueryableStates: the queryable states of a job, and queries of them.

The driver knows which operator has which name, routes a key to the slot that owns its key group, as `key_by` does, and
sends the queries of a request to each slot together.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flintstream.common.canonical_keys import canonical_key
from flintstream.common.job_status import JobStatus
from flintstream.common.keys import key_group, subtask_for_group
from flintstream.common.queryable_state import (
    AS_JSON,
    FAILED,
    GONE,
    LONGEST_SECONDS,
    MOST_QUERIES,
    NOT_AVAILABLE,
    OK,
    PICKLED,
    UNKNOWN_STATE,
    FlinkJobNotFoundException,
    StateAnswer,
    key_from_json,
)
from flintstream.graph.execution_graph import ExecutionGraph
from flintstream.graph.partitioners import KeyGroupPartitioner
from flintstream.jobmaster.queryable_settings import ENABLE
from flintstream.runtime.faults import Fault
from flintstream.runtime.slot.messages import QueryStates, StateRegistered
from flintstream.runtime.slot.protocol import StateQuery

if TYPE_CHECKING:
    from flintstream.common.typeinfo import TypeInformation
    from flintstream.jobmaster.query_connections import QueryConnections

MOST_IN_FLIGHT = 10_000
"""The most queries that wait for slots; further ones are told to try again."""

Query = tuple[str, Any]
"""The queryable name, and the key."""

_Replies = Future[list[tuple[str, str, Any]]]


@dataclass(frozen=True)
class _Location:
    """Where a queryable state is."""

    slots: tuple[int, ...]
    """By subtask."""
    operator_id: str
    operator: str
    parallelism: int
    max_parallelism: int
    key_type: TypeInformation | None


class QueryableStates:
    """The queryable states of a job in its current attempt; used by any thread.

    `status` returns the status of the job, `slots` how to ask its slots while it runs, else None.
    """

    def __init__(
        self,
        graph: ExecutionGraph,
        job_id: str,
        enabled: bool,
        status: Callable[[], JobStatus],
        slots: Callable[[], QueryConnections | None],
    ) -> None:
        self.job_id = job_id
        self._graph = graph
        self._enabled = enabled
        self._status = status
        self._slots = slots
        self._lock = threading.Lock()
        self._known: dict[str, _Location] = {}
        self._in_flight = 0

    # --- names ---

    def begin_attempt(self) -> None:
        """Forgets the states of the last attempt: those of the next one are opened anew."""
        with self._lock:
            self._known = {}

    def register(self, message: StateRegistered) -> Fault | None:
        """Registers a state of an operator; returns a fault if another operator has one of that name."""
        with self._lock:
            known = self._known.get(message.name)
            if known is None:
                self._known[message.name] = self._location(message)
                return None
        if known.operator_id == message.operator_id:
            return None  # Another subtask of it.
        summary = (
            f"operators '{known.operator}' and '{message.operator}' both have a queryable state {message.name!r}: give "
            "each a name of its own (set_queryable)"
        )
        return Fault(message.operator, None, None, summary, summary, permanent=True)

    def _location(self, message: StateRegistered) -> _Location:
        job = self._graph.job_graph
        vertex = job.vertices[message.vertex_id]
        partitioners = (edge.partitioner for edge in job.in_edges(vertex.id))
        types = (each.key_type for each in partitioners if isinstance(each, KeyGroupPartitioner))
        return _Location(
            tuple(self._graph.slot(vertex.id, subtask) for subtask in range(vertex.parallelism)),
            message.operator_id,
            message.operator,
            vertex.parallelism,
            vertex.max_parallelism,
            next(types, None),
        )

    # --- queries ---

    def answers(self, queries: Sequence[Query], form: str = PICKLED, seconds: float = 1.0) -> list[StateAnswer]:
        """Returns the answers to queries, in their order; those that take longer than `seconds` are "not available".

        Raises a FlinkJobNotFoundException if the job has ended.
        """
        refused = self._refused()
        if refused is not None:
            return [refused] * len(queries)
        found = [self._routed(name, key, form) for name, key in queries]
        by_slot: dict[int, list[int]] = {}
        for index, routed in enumerate(found):
            if not isinstance(routed, StateAnswer):
                by_slot.setdefault(routed[0], []).append(index)
        waiting = _Waiting(len(by_slot))
        sent = {
            slot: self._send(slot, [found[index][1] for index in indices], waiting) for slot, indices in by_slot.items()
        }
        waiting.wait(min(seconds, LONGEST_SECONDS))
        answers = [each if isinstance(each, StateAnswer) else _UNANSWERED for each in found]
        for slot, indices in by_slot.items():
            for index, answer in zip(indices, _result(sent[slot], len(indices), seconds)):
                answers[index] = answer
        return answers

    def _refused(self) -> StateAnswer | None:
        """Returns the answer to all queries if there can be no other one now."""
        if not self._enabled:
            return StateAnswer(
                UNKNOWN_STATE, value=f"state cannot be queried: {ENABLE} is not set for job {self.job_id}"
            )
        status = self._status()
        if status is JobStatus.RUNNING:
            return None
        if status.is_globally_terminal_state():
            raise FlinkJobNotFoundException(f"job {self.job_id} is {status.name}: it has no state any more")
        return StateAnswer(NOT_AVAILABLE, value=f"job {self.job_id} is {status.name}: try again")

    def _routed(self, name: str, key: Any, form: str) -> Any:
        """Returns the slot of a key with the query for it, or an answer if it is known already."""
        location = self._known.get(name)
        if location is None:
            known = ", ".join(sorted(map(repr, list(self._known)))) or "none"
            return StateAnswer(
                UNKNOWN_STATE, value=f"job {self.job_id} has no queryable state {name!r}; there are: {known}"
            )
        try:
            key, subtask = _route(key, location)
        except Exception as error:
            return StateAnswer(FAILED, value=f"{key!r} is no key of queryable state {name!r}: {error}")
        return location.slots[subtask], StateQuery(location.operator_id, subtask, name, key, form)

    def _send(self, slot: int, queries: list[StateQuery], waiting: _Waiting) -> _Replies | None:
        """Sends queries to a slot; None if there are too many, or no slots any more."""
        slots = self._slots()
        with self._lock:
            refused = slots is None or self._in_flight + len(queries) > MOST_IN_FLIGHT
            if not refused:
                self._in_flight += len(queries)
        if refused or slots is None:
            waiting.arrived()
            return None

        def done(_: _Replies) -> None:
            with self._lock:
                self._in_flight -= len(queries)
            waiting.arrived()

        future = slots.send(slot, QueryStates(tuple(map(tuple, queries))))
        future.add_done_callback(done)
        return future

    # --- as JSON, for other processes ---

    def answers_as_json(self, queries: Any, form: str, seconds: float) -> list[dict[str, Any]]:
        """Returns the answers to queries that came as JSON: pairs of a name and the JSON of a key.

        A pickled value is in base64. Raises a ValueError for what is malformed.
        """
        if form not in (PICKLED, AS_JSON):
            raise ValueError(f"form must be {PICKLED!r} or {AS_JSON!r}, got {form!r}")
        if not isinstance(queries, list) or len(queries) > MOST_QUERIES:
            raise ValueError(f"queries must be a list of at most {MOST_QUERIES} pairs")
        read: list[Query] = []
        for query in queries:
            if not isinstance(query, list) or len(query) != 2 or not isinstance(query[0], str):
                raise ValueError("each query must be a pair of a name and a key")
            read.append((query[0], key_from_json(query[1])))
        try:
            answers = self.answers(read, form, float(seconds))
        except FlinkJobNotFoundException as error:
            return [{"status": GONE, "value": str(error)} for _ in read]
        return [_as_json(answer) for answer in answers]


class _Waiting:
    """Waits for the replies of some slots: once, where `concurrent.futures.wait` wakes and allocates for each."""

    def __init__(self, replies: int) -> None:
        self._left = replies
        self._lock = threading.Lock()
        self._all = threading.Lock()
        if replies:
            self._all.acquire()

    def arrived(self) -> None:
        """A slot has replied, or will not."""
        with self._lock:
            self._left -= 1
            if not self._left:
                self._all.release()

    def wait(self, seconds: float) -> None:
        """Waits until all have replied, for at most some seconds."""
        self._all.acquire(timeout=max(0.0, seconds))


_UNANSWERED = StateAnswer(NOT_AVAILABLE, value="the slot has not answered: try again")


def _as_json(answer: StateAnswer) -> dict[str, Any]:
    value = answer.value
    if isinstance(value, bytes):
        value = base64.b64encode(value).decode("ascii")
    elif answer.status == OK:
        value = json.loads(value)
    return {"status": answer.status, "kind": answer.kind, "value": value}


def _route(key: Any, location: _Location) -> tuple[Any, int]:
    """Returns the key as the state has it, and the subtask that owns its key group."""
    if location.key_type is not None:
        [key] = location.key_type.coerce([key])
    try:
        hash(key)
        group = key_group(key, location.max_parallelism)
    except Exception:
        key = canonical_key(key)
        group = key_group(key, location.max_parallelism)
    return key, subtask_for_group(group, location.max_parallelism, location.parallelism)


def _result(future: _Replies | None, count: int, seconds: float) -> list[StateAnswer]:
    if future is None:
        why = "too many queries wait, or the job has just stopped running: try again"
    elif not future.done():
        why = f"the slot has not answered within {seconds:g} s, since its function is busy: try again"
    elif (error := future.exception()) is None:
        return [StateAnswer(*fields) for fields in future.result()]
    else:
        why = f"{error}: try again"
    return [StateAnswer(NOT_AVAILABLE, value=why)] * count
