"""A job's details with every metric there is, for the tests of reporters."""

from __future__ import annotations

from typing import Any

from flintstream.jobmaster.details import (
    CheckpointsDetails,
    JobDetails,
    OperatorDetails,
    SlotDetails,
    SubtaskDetails,
    UserMetric,
    VertexDetails,
)
from flintstream.metrics import definitions

OPERATOR_ID = "c" * 32
USER = [
    UserMetric(OPERATOR_ID, "shop.berlin.orders", "counter", 3, {"shop": "berlin"}, "shop.orders"),
    UserMetric(OPERATOR_ID, "load", "gauge", 0.5, {}, "load"),
    UserMetric(OPERATOR_ID, "state", "gauge", "open", {}, "state"),
    UserMetric(OPERATOR_ID, "openOrders", "gauge", True, {}, "openOrders"),
    UserMetric(OPERATOR_ID, "events", "meter", {"count": 7, "rate": 0.25}, {}, "events"),
    UserMetric(
        OPERATOR_ID,
        "price",
        "distribution",
        {"count": 2, "sum": 6.0, "min": 2, "max": 4, "mean": 3.0},
        {},
        "price",
    ),
]


def numbers(known: dict[str, Any]) -> dict[str, Any]:
    return dict.fromkeys(known, 1500)


def job_details(name: str = "my job", user: list[UserMetric] | None = None, **changes: Any) -> JobDetails:
    subtask = SubtaskDetails(
        index=1,
        slot=0,
        attempt=2,
        status="RUNNING",
        timestamps={},
        metrics=numbers(definitions.TASK),
        operator_metrics={OPERATOR_ID: numbers(definitions.OPERATOR)},
        user_metrics=USER if user is None else user,
    )
    vertex = VertexDetails(
        vertex_id="b" * 32,
        name="Source: orders -> Map",
        parallelism=2,
        max_parallelism=128,
        level=0,
        slot_sharing_group="default",
        operators=[OperatorDetails(OPERATOR_ID, "Source: orders")],
        inputs=[],
        subtasks=[subtask],
    )
    fields: dict[str, Any] = {
        "job_id": "a" * 32,
        "name": name,
        "status": "RUNNING",
        "job_type": "STREAMING",
        "start_time": 0,
        "end_time": -1,
        "now": 0,
        "timestamps": {},
        "parallelism": 2,
        "restarts": 0,
        "driver_pid": 1,
        "driver_host": "driver",
        "program": "",
        "configuration": {},
        "parameters": {},
        "restart_strategy": "none",
        "object_reuse": False,
        "vertices": [vertex],
        "slots": [SlotDetails(0, "worker", 17, 5000)],
        "checkpoints": CheckpointsDetails(enabled=False),
        "exceptions": [],
        "guarantees": [],
        "metrics": {**numbers(definitions.JOB), "lastCheckpointExternalPath": "file:///checkpoints/7"},
    }
    return JobDetails(**{**fields, **changes})
