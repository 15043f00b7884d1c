"""A job as a driver reports it, and jobs that a server would know, without drivers."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from flintstream.jobmaster.details import (
    CheckpointDetails,
    CheckpointsDetails,
    EdgeDetails,
    ExceptionDetails,
    GuaranteeDetails,
    JobDetails,
    OperatorDetails,
    SlotDetails,
    SubtaskCheckpoint,
    SubtaskDetails,
    UserMetric,
    VertexDetails,
)
from flintstream.server.jobs import JobRefusedError, JobSummary, Operation, UnknownJobError

JOB = "f2d9a97680ecb835b367583e810321e0"
FINISHED_JOB = "0a" * 16
FAILED_JOB = "0b" * 16
SOURCE = "cbc357ccb763df2852fee8c4fc7d55f2"
COUNT = "f6dc7f4d2283f4605b127b9364e21148"
SINK = "20ba6b65f97481d5570070de90e4e791"
STARTED = 1_794_829_853_646
NOW = STARTED + 172_688
HOSTS = ("node-1", "node-2")


def subtask(vertex, index, **changes):
    deployed = STARTED + 6_000
    rate = {SOURCE: (0.0, 620.0, 380.0), COUNT: (930.0, 0.0, 70.0), SINK: (12.5, 0.0, 987.5)}[vertex]
    found = SubtaskDetails(
        index=index,
        slot=index,
        attempt=1,
        status="RUNNING",
        timestamps={
            "CREATED": deployed - 3_000,
            "SCHEDULED": deployed - 1_000,
            "DEPLOYING": deployed,
            "INITIALIZING": deployed + 1_500,
            "RUNNING": deployed + 4_500,
        },
        metrics={
            "numRecordsIn": 0 if vertex == SOURCE else 3_000 + 1_000 * index,
            "numRecordsOut": 4_000,
            "numRecordsInPerSecond": 120.5,
            "numBytesIn": 92_703,
            "numBytesOut": 133_853,
            "busyTimeMsPerSecond": rate[0],
            "backPressuredTimeMsPerSecond": rate[1],
            "idleTimeMsPerSecond": rate[2],
            "accumulateBusyTimeMs": 2_055 + index,
            "accumulateBackPressuredTimeMs": 0,
            "accumulateIdleTimeMs": 157_473,
            "currentInputWatermark": NOW - 2_000 + index,
        },
        operator_metrics={vertex: {"numRecordsOut": 4_000, "numLateRecordsDropped": 2}},
        user_metrics=[
            UserMetric(vertex, "shop.berlin.orders", "counter", 7 + index, {"shop": "berlin"}),
            UserMetric(vertex, "sales", "meter", {"count": 12, "rate": 0.5}),
            UserMetric(vertex, "price", "distribution", {"count": 3, "sum": 6, "min": 1, "max": 3, "mean": 2.0}),
        ],
        accumulators={"words": {"type": "IntCounter", "value": "12"}} if vertex == COUNT else {},
    )
    return replace(found, **changes)


def vertex(vertex_id, name, level, operators, inputs):
    return VertexDetails(
        vertex_id=vertex_id,
        name=name,
        parallelism=2,
        max_parallelism=128,
        level=level,
        slot_sharing_group="default",
        operators=operators,
        inputs=inputs,
        subtasks=[subtask(vertex_id, 0), subtask(vertex_id, 1)],
    )


def checkpoint(number, **changes):
    triggered = STARTED + 20_000 + 2_000 * number
    shares = {
        vertex_id: [
            SubtaskCheckpoint(index, triggered + 10 + index, 4_307 + index, 9_000 + index, 1, 8) for index in (0, 1)
        ]
        for vertex_id in (SOURCE, COUNT, SINK)
    }
    found = CheckpointDetails(
        checkpoint_id=number,
        status="COMPLETED",
        is_savepoint=False,
        trigger_timestamp=triggered,
        latest_ack_timestamp=triggered + 11,
        end_to_end_duration=15 + number,
        checkpointed_size=8_696,
        state_size=18_000,
        external_path=f"file:///checkpoints/{JOB}/chk-{number}",
        tasks=shares,
    )
    return replace(found, **changes)


def job_details(**changes):
    in_progress = {
        vertex_id: [SubtaskCheckpoint(0, -1), SubtaskCheckpoint(1, -1)] for vertex_id in (SOURCE, COUNT, SINK)
    }
    found = JobDetails(
        job_id=JOB,
        name="words <of> shops",
        status="RUNNING",
        job_type="STREAMING",
        start_time=STARTED,
        end_time=-1,
        now=NOW,
        timestamps={"INITIALIZING": STARTED, "CREATED": STARTED + 3_000, "RUNNING": STARTED + 5_474},
        parallelism=2,
        restarts=1,
        driver_pid=4_711,
        driver_host=HOSTS[0],
        program="/home/someone/words.py --shop berlin",
        configuration={"parallelism.default": "2", "execution.checkpointing.interval": "2 s"},
        parameters={"shop": "berlin"},
        restart_strategy="fixed delay, 3 attempts, 1 s",
        object_reuse=False,
        vertices=[
            vertex(
                SOURCE,
                "Source: orders -> parse",
                0,
                [OperatorDetails(SOURCE, "Source: orders"), OperatorDetails("3a" * 16, "parse <json>")],
                [],
            ),
            vertex(COUNT, "count", 1, [OperatorDetails(COUNT, "count", "count-uid")], [EdgeDetails(SOURCE, "HASH")]),
            vertex(SINK, "Sink: shelf", 2, [OperatorDetails(SINK, "Sink: shelf")], [EdgeDetails(COUNT, "REBALANCE")]),
        ],
        slots=[SlotDetails(0, HOSTS[0], 5_001, 60 << 20), SlotDetails(1, HOSTS[1], 5_002, 80 << 20)],
        checkpoints=CheckpointsDetails(
            enabled=True,
            interval=2_000,
            storage="file:///checkpoints",
            restored=1,
            completed=4,
            failed=1,
            history=[
                checkpoint(6, status="IN_PROGRESS", latest_ack_timestamp=-1, external_path=None, tasks=in_progress),
                checkpoint(5),
                checkpoint(
                    4,
                    status="FAILED",
                    failure_timestamp=STARTED + 30_000,
                    failure_message="the disk is full",
                    external_path=None,
                ),
                checkpoint(3, is_savepoint=True, external_path="file:///savepoints/savepoint-f2d9a9-1"),
                checkpoint(2, discarded=True),
                checkpoint(1, discarded=True, tasks={}),
            ],
            latest_restored={
                "id": 2,
                "restore_timestamp": STARTED + 25_000,
                "is_savepoint": False,
                "external_path": f"file:///checkpoints/{JOB}/chk-2",
            },
        ),
        exceptions=[
            ExceptionDetails(
                timestamp=STARTED + 24_000,
                exception="ValueError: invalid literal for int() with base 10: 'x'",
                stacktrace='Traceback (most recent call last):\n  File "words.py", line 12, in parse\nValueError: …',
                operator="parse <json>",
                subtask=1,
                record="'x'",
                attempt=0,
                host=HOSTS[1],
                vertex_id=SOURCE,
            ),
            ExceptionDetails(
                timestamp=STARTED + 22_000,
                exception="ConnectionError: the broker is gone",
                stacktrace="ConnectionError",
            ),
        ],
        guarantees=[GuaranteeDetails("Source: orders", "Sink: shelf", "exactly-once")],
        metrics={
            "uptime": 160_000,
            "numRestarts": 1,
            "lastCheckpointSize": 8_696,
            "lastCheckpointRestoreTimestamp": -1,
        },
        accumulators={"words": {"type": "IntCounter", "value": "24"}},
    )
    return replace(found, **changes)


def ended(job_id, status, **changes):
    """A job that has ended, with its last report."""
    end = STARTED + 60_000
    details = job_details(
        job_id=job_id, status=status, end_time=end, now=end, timestamps={"CREATED": STARTED, status: end}, slots=[]
    )
    vertices = [
        replace(
            each,
            subtasks=[replace(one, status=status, timestamps={**one.timestamps, status: end}) for one in each.subtasks],
        )
        for each in details.vertices
    ]
    return replace(details, vertices=vertices, **changes)


def summary(details):
    tasks = {}
    for each in details.vertices:
        for one in each.subtasks:
            tasks[one.status.lower()] = tasks.get(one.status.lower(), 0) + 1
    return JobSummary(
        job_id=details.job_id,
        name=details.name,
        status=details.status,
        job_type=details.job_type,
        start_time=details.start_time,
        end_time=details.end_time,
        last_modification=max(details.timestamps.values()),
        tasks=tasks,
        submitted=True,
    )


class SampleJobs:
    """Jobs whose drivers answer from here: what they are asked is in `asked`, what they are to answer in `answers`."""

    def __init__(self, *details):
        self.reset(*details)

    def reset(self, *details):
        """Forgets what has happened."""
        found = details or (job_details(), ended(FINISHED_JOB, "FINISHED"), ended(FAILED_JOB, "FAILED"))
        self.known = {each.job_id: each for each in found}
        self.asked = []
        self.submitted = []
        self.answers = {
            "flamegraph": {"name": "root", "value": 3, "children": [{"name": "count", "value": 3, "children": []}]},
            "threads": [{"name": "MainThread", "stack": 'File "slot.py", line 3, in run'}],
            "query_state": lambda queries, **_: [
                {"status": "ok", "kind": "value", "value": "gARLBy4="} for _ in queries
            ],
        }
        self.operations = {}
        self.logs = {}

    def summaries(self):
        return [summary(each) for each in self.known.values()]

    def details(self, job_id):
        if job_id not in self.known:
            raise UnknownJobError(f"no job {job_id}")
        return self.known[job_id]

    async def ask(self, job_id, command, **arguments):
        self.asked.append((job_id, command, arguments))
        answer = self.answers.get(command)
        if answer is None:
            raise JobRefusedError(f"the driver of job {job_id} does not answer")
        await asyncio.sleep(0)
        return answer(**arguments) if callable(answer) else answer

    async def submit(self, submission):
        self.submitted.append(submission)
        return submission.job_id or "c0" * 16

    async def cancel(self, job_id):
        self.asked.append((job_id, "cancel", {}))

    def begin(self, job_id, kind, command, trigger_id, **arguments):
        key = (job_id, kind, trigger_id)
        if key not in self.operations:
            self.asked.append((job_id, command, arguments))
            self.operations[key] = Operation(trigger_id, kind, job_id, done=False)
        return self.operations[key]

    def operation(self, job_id, kind, trigger_id):
        return self.operations[job_id, kind, trigger_id]

    def finish(self, trigger_id, result=None, failure=None):
        """Lets an asynchronous request end."""
        for key, operation in self.operations.items():
            if key[2] == trigger_id:
                self.operations[key] = replace(operation, done=True, result=result, failure=failure)

    def log_files(self, job_id):
        return dict(self.logs.get(job_id, {}))
