"""Collects what a driver reports about one of its jobs. It runs on the threads that ask, never in the path of records."""

from __future__ import annotations

import os
import shlex
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flintstream.graph.execution_graph import ExecutionGraph
from flintstream.graph.guarantees import guarantees
from flintstream.graph.job_graph import JobVertex
from flintstream.jobmaster.checkpoint_reporting import checkpoints_details
from flintstream.jobmaster.details import (
    EdgeDetails,
    GuaranteeDetails,
    JobDetails,
    OperatorDetails,
    SlotDetails,
    SubtaskDetails,
    VertexDetails,
)
from flintstream.jobmaster.executions import Execution
from flintstream.jobmaster.job_metrics import checkpoint_metrics, lifetime_metrics
from flintstream.jobmaster.statistics import SubtaskMetrics
from flintstream.runtime.slot.messages import Measure
from flintstream.runtime.slot.protocol import VertexReport

if TYPE_CHECKING:
    from flintstream.jobmaster.attempt import JobAttempt
    from flintstream.jobmaster.job_master import JobMaster

_SECRETS = (
    "password",
    "secret",
    "fs.azure.account.key",
    "apikey",
    "api-key",
    "auth-params",
    "service-key",
    "token",
    "basic-auth",
    "jaas.config",
    "http-headers",
)
"""Flink's list of what marks a key whose value is a secret."""
HIDDEN = "******"
_MEASURE_SECONDS = 0.5
"""How long slots have to say how far they are."""


def collect_details(master: JobMaster) -> JobDetails:
    """Returns everything known about a job now; may be called from any thread."""
    settings = master.settings
    _measure(master)
    times = [(status, int(seconds * 1000)) for status, seconds in list(master.status_times)]
    status, since = times[-1]
    now = int(time.time() * 1000)
    checkpoints = checkpoints_details(master.checkpoints, master.context.graph.job_graph, settings.state_backend, now)
    return JobDetails(
        job_id=str(master.job_id),
        name=settings.job_name,
        status=status.name,
        job_type="BATCH" if settings.batch_mode else "STREAMING",
        start_time=times[0][1],
        end_time=since if status.is_globally_terminal_state() else -1,
        now=now,
        timestamps={status.name: entered for status, entered in times},
        parallelism=master.parallelism,
        restarts=master.restarts,
        driver_pid=os.getpid(),
        driver_host=socket.gethostname(),
        program=program(),
        configuration=without_secrets(settings.configuration),
        parameters=without_secrets(settings.parameters),
        restart_strategy=str(settings.restart_strategy()),
        object_reuse=settings.object_reuse,
        vertices=_vertices(master),
        slots=_slots(master),
        checkpoints=checkpoints,
        exceptions=master.failures.read(),
        guarantees=_guarantees(master),
        metrics=lifetime_metrics(times, master.restarts, now)
        | checkpoint_metrics(checkpoints)
        | master.statistics.job_metrics(),
        accumulators=_accumulators({} if master.attempt is None else master.attempt.accumulators),
        history=master.statistics.history(),
        phase=None if status.is_globally_terminal_state() else master.progress.current_phase,
    )


def _measure(master: JobMaster) -> None:
    attempt = master.attempt
    if attempt is None:
        return

    def ask() -> list[VertexReport] | None:
        answers = attempt.pool.ask(Measure(), _MEASURE_SECONDS).values()
        complete = [answer for answer in answers if answer is not None]
        return [report for answer in complete for report in answer] if len(complete) == len(answers) else None

    master.statistics.measure(ask)


def without_secrets(values: Mapping[str, str]) -> dict[str, str]:
    """Returns settings whose keys do not look like those of secrets, and those that do with hidden values."""
    return {
        str(key): HIDDEN if any(secret in str(key).lower() for secret in _SECRETS) else str(value)
        for key, value in values.items()
    }


def program() -> str:
    """Returns the script of this process with its arguments; empty for an interactive one."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    if file is None or hasattr(sys.modules.get("builtins"), "__IPYTHON__"):
        return ""
    return shlex.join([os.path.abspath(file), *sys.argv[1:]])


def vertex_key(graph: ExecutionGraph, vertex: JobVertex) -> str:
    """Returns the id by which a vertex is known outside: that of the first operator of its chain, as in Flink."""
    return graph.job_graph.nodes[vertex.head_id].operator_id


# --- the parts ---


def _vertices(master: JobMaster) -> list[VertexDetails]:
    graph = master.context.graph
    attempt, executions = master.context.executions.read()
    return [
        _vertex(graph, vertex, attempt, executions, master.statistics.vertex(vertex.id), master.attempt)
        for vertex in graph.job_graph.vertices
    ]


def _vertex(
    graph: ExecutionGraph,
    vertex: JobVertex,
    attempt: int,
    executions: dict[tuple[int, int], Execution],
    metrics: Sequence[SubtaskMetrics],
    running: JobAttempt | None,
) -> VertexDetails:
    job = graph.job_graph
    return VertexDetails(
        vertex_id=vertex_key(graph, vertex),
        name=vertex.name,
        parallelism=vertex.parallelism,
        max_parallelism=vertex.max_parallelism,
        level=graph.level(vertex.id),
        slot_sharing_group=vertex.slot_sharing_group,
        operators=[
            OperatorDetails(node.operator_id, node.name, node.uid)
            for node in (job.nodes[node_id] for node_id in vertex.node_ids)
        ],
        inputs=[
            EdgeDetails(
                vertex_key(graph, job.vertices[edge.source_vertex]), edge.partitioner.ship_strategy, edge.side_tag
            )
            for edge in job.in_edges(vertex.id)
        ],
        subtasks=[
            SubtaskDetails(
                index=index,
                slot=graph.slot(vertex.id, index),
                attempt=attempt,
                status=executions[vertex.id, index].status,
                timestamps=executions[vertex.id, index].timestamps,
                metrics=metrics[index].task,
                operator_metrics=metrics[index].operators,
                user_metrics=metrics[index].user,
                latencies=metrics[index].latencies,
                accumulators=_accumulators({} if running is None else running.accumulators_of(vertex.id, index)),
            )
            for index in range(vertex.parallelism)
        ],
        feeds_back_to=[vertex_key(graph, job.vertices[head]) for head in job.feeds_back_to(vertex)],
    )


def _slots(master: JobMaster) -> list[SlotDetails]:
    attempt = master.attempt
    if attempt is None:
        return []
    epochs = master.progress.epochs
    memory = epochs[-1].memory if epochs else []
    return [
        SlotDetails(handle.slot, handle.host, handle.pid, memory[handle.slot] if handle.slot < len(memory) else 0)
        for handle in attempt.pool.handles
    ]


def _guarantees(master: JobMaster) -> list[GuaranteeDetails]:
    return [
        GuaranteeDetails(each.source, each.sink, each.delivery.value, each.reason)
        for each in guarantees(master.context.graph.job_graph, master.checkpoints.settings.enabled)
    ]


def _accumulators(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: {"type": type(each).__name__, "value": _text(each)} for name, each in values.items()}


def _text(accumulator: Any) -> str:
    try:
        return str(accumulator.get_local_value())
    except Exception as error:  # It may be of a class of the user.
        return f"<{error!r}>"
