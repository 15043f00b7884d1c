"""Samples: all metrics of a job, each with its scope and labels, for reporters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from . import definitions
from .definitions import Definition

if TYPE_CHECKING:
    from flintstream.jobmaster.details import JobDetails, LatencyDetails, SubtaskDetails, UserMetric, VertexDetails

__all__ = ["Sample", "samples"]


class Sample(NamedTuple):
    """A metric and its value."""

    scope: tuple[str, ...]
    """Flink's name of the scope, and the names of the user's groups: `("taskmanager", "job", "task")`."""
    place: tuple[str, ...]
    """The same with names in their places, for people: `("host", "taskmanager", "slot-0", "my job", "Map", "0")`."""
    name: str
    value: Any
    labels: dict[str, str]
    definition: Definition
    kind: str | None = None
    """Of a user's metric: `counter`, `gauge`, `meter` or `distribution`; of a latency `histogram`."""


def samples(job: JobDetails) -> Iterator[Sample]:
    """Returns all metrics of a job."""
    of_job = {"job_id": job.job_id, "job_name": job.name, "host": job.driver_host}
    place = (job.driver_host, "jobmanager", job.name)
    yield from _known(("jobmanager", "job"), place, definitions.JOB, job.metrics, of_job)
    hosts = {slot.slot: slot.host for slot in job.slots}
    for slot in job.slots:
        labels = {**of_job, "host": slot.host, "tm_id": f"slot-{slot.slot}"}
        memory = {"residentMemoryBytes": slot.memory}
        yield from _known(
            ("taskmanager",), (slot.host, "taskmanager", f"slot-{slot.slot}"), definitions.SLOT, memory, labels
        )
    for vertex in job.vertices:
        for subtask in vertex.subtasks:
            host = hosts.get(subtask.slot, job.driver_host)
            labels = {
                **of_job,
                "host": host,
                "tm_id": f"slot-{subtask.slot}",
                "task_id": vertex.vertex_id,
                "task_name": vertex.name,
                "task_attempt_num": str(subtask.attempt),
                "subtask_index": str(subtask.index),
            }
            yield from _of_subtask(job.name, vertex, subtask, labels)
            of_slot = {**of_job, "host": host, "tm_id": labels["tm_id"]}
            yield from (_of_latency(each, of_slot) for each in subtask.latencies)


def _of_subtask(
    job_name: str, vertex: VertexDetails, subtask: SubtaskDetails, labels: dict[str, str]
) -> Iterator[Sample]:
    before = (labels["host"], "taskmanager", labels["tm_id"], job_name)
    task = ("taskmanager", "job", "task")
    yield from _known(task, (*before, vertex.name, str(subtask.index)), definitions.TASK, subtask.metrics, labels)
    names = {operator.operator_id: operator.name for operator in vertex.operators}
    for operator_id, metrics in subtask.operator_metrics.items():
        name = names.get(operator_id, operator_id)
        own = {**labels, "operator_id": operator_id, "operator_name": name}
        place = (*before, name, str(subtask.index))
        yield from _known((*task, "operator"), place, definitions.OPERATOR, metrics, own)
    for metric in subtask.user_metrics:
        name = names.get(metric.operator_id, metric.operator_id)
        yield _of_user(metric, (*before, name, str(subtask.index)), labels, name)


def _known(
    scope: tuple[str, ...],
    place: tuple[str, ...],
    known: Mapping[str, Definition],
    metrics: Mapping[str, Any],
    labels: dict[str, str],
) -> Iterator[Sample]:
    for name, value in metrics.items():
        yield Sample(scope, place, name, value, labels, known.get(name, Definition(name)))


def _of_latency(latency: LatencyDetails, labels: dict[str, str]) -> Sample:
    variables = latency.variables
    place = (labels["host"], "taskmanager", labels["tm_id"], labels["job_name"], "latency")
    return Sample(
        ("taskmanager", "job", "latency", *variables),
        (*place, *(part for pair in variables.items() for part in pair)),
        "latency",
        latency.statistics,
        {**labels, **variables},
        definitions.LATENCY,
        "histogram",
    )


def _of_user(metric: UserMetric, place: tuple[str, ...], labels: dict[str, str], operator: str) -> Sample:
    *groups, name = (metric.logical_name or metric.name).split(".")
    *places, _ = metric.name.split(".")
    own = {**metric.variables, **labels, "operator_id": metric.operator_id, "operator_name": operator}
    return Sample(
        ("taskmanager", "job", "task", "operator", *groups),
        (*place, *places),
        name,
        metric.value,
        own,
        Definition(f"A {metric.kind} that a function of the job has registered."),
        metric.kind,
    )
