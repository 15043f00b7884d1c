"""Details of a job as JSON, between drivers and servers that may be of different versions."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from flintstream.jobmaster.details import (
    CheckpointDetails,
    CheckpointsDetails,
    JobDetails,
    LatencyDetails,
    OperatorDetails,
    SubtaskCheckpoint,
    SubtaskDetails,
    UserMetric,
    VertexDetails,
    from_json,
    to_json,
)

SUBTASK = SubtaskDetails(
    index=0,
    slot=1,
    attempt=2,
    status="RUNNING",
    timestamps={"CREATED": 1},
    metrics={"numRecordsIn": 3},
    operator_metrics={"op": {"a": 1}},
    user_metrics=[UserMetric("op", "n", "counter", 4)],
    latencies=[LatencyDetails("op", 0, "source", None, {"count": 1, "median": 2.5})],
)
VERTEX = VertexDetails("v", "name", 1, 128, 0, "default", [OperatorDetails("op", "map")], [], [SUBTASK])
CHECKPOINT = CheckpointDetails(1, "COMPLETED", False, 5, tasks={"v": [SubtaskCheckpoint(0, 6)]})


def test_records_within_records_are_the_same_afterwards():
    for record in (VERTEX, CheckpointsDetails(True, history=[CHECKPOINT], latest_restored={"id": 1})):
        written = to_json(record)
        assert written == asdict(record)
        assert from_json(type(record), json.loads(json.dumps(written))) == record


def test_what_a_sender_did_not_know_has_its_default_and_what_this_version_does_not_know_is_ignored():
    written = {**to_json(CHECKPOINT), "of a later version": 1}
    del written["tasks"]
    assert from_json(CheckpointDetails, written) == CheckpointDetails(1, "COMPLETED", False, 5)


def test_a_missing_field_that_is_required_is_named():
    with pytest.raises(ValueError, match="JobDetails lacks 'job_id'"):
        from_json(JobDetails, {})
