"""The metrics of a job's states and checkpoints."""

from __future__ import annotations

from typing import Any

from flintstream.common.job_status import JobStatus
from flintstream.jobmaster.details import CheckpointDetails, CheckpointsDetails
from flintstream.jobmaster.job_metrics import checkpoint_metrics, lifetime_metrics

FIRST = [(JobStatus.CREATED, 0), (JobStatus.RUNNING, 1000)]
HURT = [*FIRST, (JobStatus.FAILING, 5000), (JobStatus.RESTARTING, 5200)]


def at(times: Any, now: int) -> dict[str, Any]:
    return lifetime_metrics(times, 1, now)


class TestLifetime:
    def test_a_running_job(self):
        assert at(FIRST, 3000) == {
            "runningTime": 2000,
            "failingTime": 0,
            "cancellingTime": 0,
            "uptime": 2000,
            "downtime": 0,
            "restartingTime": 0,
            "numRestarts": 1,
            "fullRestarts": 1,
        }

    def test_a_job_that_restarts(self):
        metrics = at(HURT, 6200)
        assert (metrics["uptime"], metrics["downtime"], metrics["restartingTime"]) == (0, 1200, 1000)

    def test_a_job_that_runs_again(self):
        metrics = at([*HURT, (JobStatus.RUNNING, 7000)], 10_000)
        assert (metrics["uptime"], metrics["downtime"], metrics["restartingTime"]) == (3000, 0, 1800)

    def test_a_job_that_has_ended(self):
        metrics = at([*FIRST, (JobStatus.FINISHED, 4000)], 5000)
        assert (metrics["uptime"], metrics["downtime"], metrics["runningTime"]) == (-1, -1, 0)


def checkpoint(number: int, **changes: Any) -> CheckpointDetails:
    fields = {"status": "COMPLETED", "is_savepoint": False, "trigger_timestamp": 0, **changes}
    return CheckpointDetails(number, **fields)


class TestCheckpoints:
    def test_before_the_first(self):
        metrics = checkpoint_metrics(CheckpointsDetails(enabled=True))
        assert metrics["lastCheckpointSize"] == metrics["lastCompletedCheckpointId"] == -1
        assert (metrics["totalNumberOfCheckpoints"], metrics["lastCheckpointExternalPath"]) == (0, "n/a")

    def test_the_last_completed_one_counts_and_savepoints_do_not(self):
        history = [
            checkpoint(4, status="IN_PROGRESS"),
            checkpoint(3, is_savepoint=True),
            checkpoint(
                2, end_to_end_duration=70, checkpointed_size=5, state_size=9, external_path="file:///checkpoints/2"
            ),
            checkpoint(1, status="FAILED"),
        ]
        restored = {"id": 1, "restore_timestamp": 12}
        details = CheckpointsDetails(enabled=True, completed=2, failed=1, history=history, latest_restored=restored)
        assert checkpoint_metrics(details) == {
            "lastCheckpointDuration": 70,
            "lastCheckpointSize": 5,
            "lastCheckpointFullSize": 9,
            "lastCompletedCheckpointId": 2,
            "lastCheckpointExternalPath": "file:///checkpoints/2",
            "lastCheckpointRestoreTimestamp": 12,
            "numberOfCompletedCheckpoints": 2,
            "numberOfFailedCheckpoints": 1,
            "numberOfInProgressCheckpoints": 1,
            "totalNumberOfCheckpoints": 4,
        }
