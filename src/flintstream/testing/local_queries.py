"""LocalQueries: queries of the state of a LocalJob, by the code that answers them in a real job."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from flintstream.common.job_status import JobStatus
from flintstream.common.queryable_state import OK, QueryableStateError, error_of
from flintstream.graph.execution_graph import ExecutionGraph
from flintstream.jobmaster.queryable_states import QueryableStates
from flintstream.runtime.slot.messages import QueryStates, Reply, StateRegistered
from flintstream.runtime.slot.slot import Slot
from flintstream.runtime.state.read_only import ImmutableState, state_of


class LocalQueries:
    """The queryable states of slots in this process; `job_id` is the job's. It takes the place of a pool of slots."""

    def __init__(self, graph: ExecutionGraph, job_id: str, slots: Sequence[Slot]) -> None:
        self.status = JobStatus.RUNNING
        self.states = QueryableStates(graph, job_id, True, lambda: self.status, lambda: self)  # type: ignore[arg-type,return-value]
        self._slots = slots
        self._numbers = itertools.count()
        self._sent: dict[int, Future[Any]] = {}

    def told(self, message: Any) -> None:
        """Receives a message of a slot."""
        if isinstance(message, StateRegistered):
            fault = self.states.register(message)
            if fault is not None:
                raise QueryableStateError(fault.summary)
        elif isinstance(message, Reply):
            self._sent.pop(message.number).set_result(message.result)

    def send(self, slot: int, message: QueryStates) -> Future[Any]:
        """Lets a slot answer."""
        number, future = next(self._numbers), Future[Any]()
        self._sent[number] = future
        queries = self._slots[slot].queries
        queries.add(number, message.queries)
        queries.answer()
        return future

    def query(self, name: str, key: Any) -> ImmutableState:
        """Returns the state of a key; raises what a client would."""
        [answer] = self.states.answers([(name, key)])
        if answer.status != OK:
            raise error_of(answer.status, answer.value)
        return state_of(name, answer, None)
