"""FailureHistory: the latest failures of a job's attempts."""

from __future__ import annotations

import time
from collections import deque

from flintstream.graph.execution_graph import ExecutionGraph
from flintstream.jobmaster.details import ExceptionDetails
from flintstream.runtime.faults import Fault

REMEMBERED = 16
"""The default of `web.exception-history-size`."""


class FailureHistory:
    """Written by the job's thread, read by others."""

    def __init__(self, graph: ExecutionGraph, size: int = REMEMBERED) -> None:
        self._graph = graph
        self._failures: deque[ExceptionDetails] = deque(maxlen=size)

    def add(self, fault: Fault, attempt: int, host: str | None) -> None:
        """Adds the failure of an attempt; `host` is the machine of the slot at fault."""
        vertex_id = self.vertex_of(fault)
        job = self._graph.job_graph
        self._failures.appendleft(
            ExceptionDetails(
                int(time.time() * 1000),
                fault.headline,
                fault.traceback or fault.summary,
                fault.operator,
                fault.subtask,
                fault.record,
                attempt,
                host,
                None if vertex_id is None else job.nodes[job.vertices[vertex_id].head_id].operator_id,
            )
        )

    def read(self) -> list[ExceptionDetails]:
        """Returns the failures, the newest first."""
        return list(self._failures.copy())

    def vertex_of(self, fault: Fault) -> int | None:
        """Returns the vertex of the operator at fault: the one that its slot names, or else the only one with an operator of
        its name; None if there is none.
        """
        if fault.operator is None or fault.vertex is not None:
            return fault.vertex
        job = self._graph.job_graph
        named = [
            vertex.id
            for vertex in job.vertices
            if any(job.nodes[node_id].name == fault.operator for node_id in vertex.node_ids)
            and (fault.subtask is None or fault.subtask < vertex.parallelism)
        ]
        return named[0] if len(named) == 1 else None
