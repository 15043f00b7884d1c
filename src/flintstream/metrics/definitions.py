"""The engine's own metrics: of which kind each is, its unit, and what it means."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["JOB", "LATENCY", "OPERATOR", "SLOT", "TASK", "Definition"]


class Definition(NamedTuple):
    """What is known of a metric besides its value."""

    help: str
    counter: bool = False
    """Whether it only grows, until it starts again with an attempt."""
    unit: str = ""
    """`ms` for milliseconds, `ms/s` for milliseconds in a second, `time` for a time in milliseconds since 1970."""


_COUNTS = {
    "numRecordsIn": Definition("Records received; of a source, read.", counter=True),
    "numRecordsInPerSecond": Definition("Records received in a second; of a source, read."),
    "numRecordsOut": Definition("Records emitted.", counter=True),
    "numRecordsOutPerSecond": Definition("Records emitted in a second."),
}

TASK: dict[str, Definition] = {
    **_COUNTS,
    "numBytesIn": Definition("Bytes of blocks received from other tasks, or from Spark.", counter=True),
    "numBytesInPerSecond": Definition("Bytes of blocks received in a second."),
    "numBytesOut": Definition("Bytes of blocks sent to other tasks.", counter=True),
    "numBytesOutPerSecond": Definition("Bytes of blocks sent in a second."),
    "busyTimeMsPerSecond": Definition("The share of time spent in operators.", unit="ms/s"),
    "backPressuredTimeMsPerSecond": Definition(
        "The share of time in which output could not be handed on, or the source was held back for a later task.",
        unit="ms/s",
    ),
    "softBackPressuredTimeMsPerSecond": Definition(
        "The share of time in which the source was held back for a later task.", unit="ms/s"
    ),
    "hardBackPressuredTimeMsPerSecond": Definition(
        "The share of time in which a block could not be handed on.", unit="ms/s"
    ),
    "idleTimeMsPerSecond": Definition("The share of time without work: neither busy nor back-pressured.", unit="ms/s"),
    "isBackPressured": Definition("Whether the task is back-pressured."),
    "accumulateBusyTimeMs": Definition("The time spent in operators.", counter=True, unit="ms"),
    "accumulateBackPressuredTimeMs": Definition("The time spent back-pressured.", counter=True, unit="ms"),
    "accumulateIdleTimeMs": Definition("The time spent idle.", counter=True, unit="ms"),
    "currentInputWatermark": Definition("The last watermark received, the least over all inputs.", unit="time"),
}

OPERATOR: dict[str, Definition] = {
    **_COUNTS,
    "currentInputWatermark": TASK["currentInputWatermark"],
    "currentOutputWatermark": Definition("The last watermark emitted.", unit="time"),
    "numLateRecordsDropped": Definition("Records dropped since they came too late.", counter=True),
    "numRecordsSend": Definition("Records that a sink has received to write.", counter=True),
    "numRecordsSendPerSecond": Definition("Records that a sink receives in a second."),
    "pendingRecords": Definition("Records that the source has not fetched yet."),
    "currentFetchEventTimeLag": Definition("The age of the last record when the source fetched it.", unit="ms"),
    "currentEmitEventTimeLag": Definition("The age of the last record when the source emitted it.", unit="ms"),
    "watermarkLag": Definition("How far the source's watermark is behind the clock.", unit="ms"),
    "sourceIdleTime": Definition("How long the source has emitted nothing.", unit="ms"),
}

JOB: dict[str, Definition] = {
    "runningTime": Definition("How long the job has been running; 0 if it is not.", unit="ms"),
    "failingTime": Definition("How long the job has been failing; 0 if it is not.", unit="ms"),
    "cancellingTime": Definition("How long the job has been cancelling; 0 if it is not.", unit="ms"),
    "uptime": Definition("How long the job has been running without interruption; negative after its end.", unit="ms"),
    "downtime": Definition("How long a job that has failed has not been running again; 0 while it runs.", unit="ms"),
    "restartingTime": Definition("How long the last restart took, or has taken so far.", unit="ms"),
    "numRestarts": Definition("Restarts of the job.", counter=True),
    "fullRestarts": Definition("Restarts of the job; all are full.", counter=True),
    "lastCheckpointDuration": Definition("How long the last completed checkpoint took.", unit="ms"),
    "lastCheckpointSize": Definition("Bytes stored for the last completed checkpoint."),
    "lastCheckpointFullSize": Definition("Bytes that a restore of the last completed checkpoint reads."),
    "lastCompletedCheckpointId": Definition("The number of the last completed checkpoint."),
    "lastCheckpointRestoreTimestamp": Definition("When a checkpoint was last restored.", unit="time"),
    "numberOfCompletedCheckpoints": Definition("Completed checkpoints.", counter=True),
    "numberOfFailedCheckpoints": Definition("Failed checkpoints.", counter=True),
    "numberOfInProgressCheckpoints": Definition("Checkpoints in progress."),
    "totalNumberOfCheckpoints": Definition("Checkpoints completed, failed and in progress."),
    "numEpochs": Definition("Epochs that have ended.", counter=True),
    "lastEpochDurationMs": Definition("How long the last epoch took.", unit="ms"),
    "lastEpochRecords": Definition("Records that sources read in the last epoch."),
    "currentEpochDurationMs": Definition("How long the running epoch has taken so far.", unit="ms"),
}

LATENCY = Definition("How old a source's latency markers are when they reach the operator.", unit="ms")

SLOT: dict[str, Definition] = {"residentMemoryBytes": Definition("The resident memory of a slot.")}
