"""Executions: the execution states of a job's subtasks in its current attempt, by Flink's names."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from flintstream.graph.execution_graph import ExecutionGraph
from flintstream.runtime.slot.protocol import VertexReport

CREATED, DEPLOYING, INITIALIZING, RUNNING = "CREATED", "DEPLOYING", "INITIALIZING", "RUNNING"
CANCELING = "CANCELING"
FINISHED, CANCELED, FAILED = "FINISHED", "CANCELED", "FAILED"
_ENDED = (FINISHED, CANCELED, FAILED)


@dataclass
class Execution:
    """A subtask in an attempt."""

    status: str = CREATED
    timestamps: dict[str, int] = field(default_factory=dict)
    """When it entered each state, in milliseconds since 1970."""


class Executions:
    """Written by the job's thread, read by others."""

    def __init__(self, graph: ExecutionGraph) -> None:
        self._graph = graph
        self._lock = threading.Lock()
        self._attempt = 0
        self._executions: dict[tuple[int, int], Execution] = {}
        self.begin_attempt(0)

    def begin_attempt(self, number: int) -> None:
        """Creates the subtasks of an attempt."""
        with self._lock:
            self._attempt = number
            self._executions = {(subtask.vertex_id, subtask.index): Execution() for subtask in self._graph.subtasks}
            self._enter(CREATED, self._executions)

    def enter(self, state: str) -> None:
        """Moves all subtasks that have not ended to a state."""
        with self._lock:
            self._enter(state, self._executions)

    def fail(self, vertex_id: int | None, subtask: int | None, slot: int | None) -> None:
        """Begins the end of an attempt that has failed: in a subtask, in a slot, or, if neither is known, elsewhere."""
        with self._lock:
            if vertex_id is not None and subtask is not None:
                self._enter(FAILED, [(vertex_id, subtask)])
            elif slot is not None:
                self._enter(FAILED, [(each.vertex_id, each.index) for each in self._graph.slot_subtasks(slot)])
            self._enter(CANCELING, self._executions)

    def epoch_done(self, vertices: Iterable[VertexReport]) -> None:
        """Finishes the subtasks whose input has ended."""
        finished = [(vertex.vertex_id, vertex.subtask) for vertex in vertices if vertex.finished]
        if finished:
            with self._lock:
                self._enter(FINISHED, finished)

    def read(self) -> tuple[int, dict[tuple[int, int], Execution]]:
        """Returns the number of the attempt, and a copy of its executions by vertex and subtask."""
        with self._lock:
            copies = {key: Execution(each.status, dict(each.timestamps)) for key, each in self._executions.items()}
            return self._attempt, copies

    def _enter(self, state: str, keys: Iterable[tuple[int, int]]) -> None:
        now = int(time.time() * 1000)
        for key in keys:
            execution = self._executions.get(key)
            if execution is not None and execution.status not in _ENDED:
                execution.status = state
                execution.timestamps.setdefault(state, now)
