"""Execution states: their counts, and the times that subtasks spend in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import cast

from flintstream.jobmaster.details import JobDetails, SubtaskDetails
from flintstream.server.rest.shapes import IOMetrics, StateCounts

__all__ = [
    "aggregate_state",
    "elapsed",
    "ended_at",
    "endpoint",
    "host_of",
    "io_metrics",
    "number_of",
    "started_at",
    "state_counts",
    "state_durations",
    "sum_metrics",
]

EXECUTION_STATES = (
    "CANCELED",
    "FAILED",
    "RUNNING",
    "INITIALIZING",
    "DEPLOYING",
    "CREATED",
    "SCHEDULED",
    "CANCELING",
    "FINISHED",
    "RECONCILING",
)
_FINAL = ("FINISHED", "CANCELED", "FAILED")
_TIMED = ("CREATED", "SCHEDULED", "DEPLOYING", "INITIALIZING", "RUNNING")
_IO = {
    "read-bytes": "numBytesIn",
    "write-bytes": "numBytesOut",
    "read-records": "numRecordsIn",
    "write-records": "numRecordsOut",
}
_TIMES = {
    "accumulated-backpressured-time": "accumulateBackPressuredTimeMs",
    "accumulated-idle-time": "accumulateIdleTimeMs",
    "accumulated-busy-time": "accumulateBusyTimeMs",
}
IO_NAMES = (*_IO, *_TIMES)


def state_counts(states: Iterable[str]) -> StateCounts:
    """Returns how many there are in each execution state."""
    counts = dict.fromkeys(EXECUTION_STATES, 0)
    for state in states:
        counts[state] = counts.get(state, 0) + 1
    return cast(StateCounts, counts)


def aggregate_state(states: Sequence[str]) -> str:
    """Returns the state of a vertex by those of its subtasks."""
    for state in ("FAILED", "CANCELING", "CANCELED", "INITIALIZING", "RUNNING"):
        if state in states:
            return state
    if states and all(state == "FINISHED" for state in states):
        return "FINISHED"
    return "RUNNING" if "FINISHED" in states else "CREATED"


def started_at(subtask: SubtaskDetails) -> int:
    """Returns when a subtask was deployed; -1 if it was not yet."""
    return subtask.timestamps.get("DEPLOYING", -1)


def ended_at(subtask: SubtaskDetails) -> int:
    """Returns when a subtask ended; -1 if it has not."""
    return subtask.timestamps.get(subtask.status, -1) if subtask.status in _FINAL else -1


def elapsed(start: int, end: int, now: int) -> int:
    """Returns the time from a start to an end, or to now if there is none (-1); -1 before the start."""
    return -1 if start < 0 else max((now if end < 0 else end) - start, 0)


def state_durations(subtask: SubtaskDetails, now: int) -> dict[str, int]:
    """Returns the time that a subtask spent in each state before its end; -1 if it has not entered it."""
    entered = sorted(subtask.timestamps.items(), key=lambda entry: entry[1])
    left = {state: after for (state, _), (_, after) in pairwise(entered)}
    return {
        state: left.get(state, now) - subtask.timestamps[state] if state in subtask.timestamps else -1
        for state in _TIMED
    }


def host_of(details: JobDetails, subtask: SubtaskDetails) -> str:
    """Returns the host of a subtask's slot; empty if it has none yet."""
    return next((slot.host for slot in details.slots if slot.slot == subtask.slot), "")


def endpoint(host: str) -> str:
    """Returns where a subtask runs. A slot has no port for data, which Flink writes as -1."""
    return f"{host}:-1" if host else "(unassigned)"


def number_of(metrics: Mapping[str, object], name: str) -> int | float | None:
    """Returns a metric if it is there and a number."""
    value = metrics.get(name)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def io_metrics(subtask: SubtaskDetails) -> IOMetrics:
    """Returns the records, bytes and times of a subtask."""
    return sum_metrics([subtask])


def sum_metrics(subtasks: Iterable[SubtaskDetails]) -> IOMetrics:
    """Returns the records, bytes and times of subtasks together."""
    subtasks = list(subtasks)
    result: dict[str, object] = {}
    for field, name in _IO.items():
        found = [number_of(subtask.metrics, name) for subtask in subtasks]
        result[field] = sum(int(value) for value in found if value is not None)
        result[f"{field}-complete"] = None not in found
    for field, name in _TIMES.items():
        result[field] = sum(int(number_of(subtask.metrics, name) or 0) for subtask in subtasks)
    return cast(IOMetrics, result)
