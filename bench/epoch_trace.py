"""Where the time of an epoch goes: the driver's steps, Spark's stages, and what the slots were busy with."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar
from unittest import mock

from pyspark import SparkContext

from flintstream.jobmaster.job_master import JobMaster
from flintstream.runtime.slot.messages import BeginEpoch, EndEpoch, Message
from flintstream.spark.epoch import EpochRunner
from flintstream.spark.slots import SlotPool


@dataclass(frozen=True)
class EpochTrace:
    """An epoch through two levels, in seconds."""

    epoch: int
    records: int
    seconds: float
    announce: float
    plan: float
    launch: float
    first_stage: float
    first_busy: float
    exchange: float
    second_stage: float
    second_busy: float
    collect: float
    reports: float

    PARTS: ClassVar[dict[str, str]] = {
        "announce": "announced to the slots",
        "plan": "Spark plans",
        "launch": "until the first stage's tasks are launched",
        "first_stage": "first stage",
        "first_busy": "  of it: slots busy with level 0",
        "exchange": "between the stages",
        "second_stage": "second stage",
        "second_busy": "  of it: slots busy with level 1",
        "collect": "until the driver has the result",
        "reports": "the slots' reports",
    }
    """Each part and what it is called; all but the busy times add up to the epoch."""


@contextmanager
def traced_epochs() -> Iterator[Callable[[Any], list[EpochTrace]]]:
    """While it lasts, the epochs of the one job that runs are timed.

    Gives a function that makes the traces, once the job has ended, from its client.
    """
    epochs: list[dict[str, float]] = []
    run, frame, call_all = EpochRunner.run, EpochRunner._frame, SlotPool.call_all

    def traced_run(self: EpochRunner, *args: Any, **kwargs: Any) -> None:
        epochs[-1]["announced"] = time.time()
        run(self, *args, **kwargs)
        epochs[-1]["collected"] = time.time()

    def traced_frame(self: EpochRunner, *args: Any) -> Any:
        planned = frame(self, *args)
        planned._jdf.queryExecution().executedPlan()
        epochs[-1]["planned"] = time.time()
        return planned

    def traced_call(self: SlotPool, message: Message[Any], *args: Any, **kwargs: Any) -> list[Any]:
        if isinstance(message, BeginEpoch):
            epochs.append({"begun": time.time()})
        replies = call_all(self, message, *args, **kwargs)
        if isinstance(message, EndEpoch):
            epochs[-1]["ended"] = time.time()
        return replies

    with (
        mock.patch.object(EpochRunner, "run", traced_run),
        mock.patch.object(EpochRunner, "_frame", traced_frame),
        mock.patch.object(SlotPool, "call_all", traced_call),
    ):
        yield lambda client: _traces(client.master, epochs)


def _traces(master: JobMaster, epochs: list[dict[str, float]]) -> list[EpochTrace]:
    numbers = master.progress.epochs
    context = SparkContext.getOrCreate()
    assert master.attempt is not None and master.attempt.runner is not None
    jobs = sorted(context.statusTracker().getJobIdsForGroup(master.attempt.runner.group))
    if not len(numbers) == len(epochs) == len(jobs):
        raise AssertionError(f"{len(numbers)} epochs, but {len(epochs)} traces and {len(jobs)} Spark jobs")
    return [_trace(context, *matching) for matching in zip(numbers, epochs, jobs, strict=True)]


def _trace(context: Any, numbers: Any, times: dict[str, float], job: int) -> EpochTrace:
    store = context._jsc.sc().statusStore()
    stage_ids = sorted(context.statusTracker().getJobInfo(job).stageIds)
    stages = [store.lastStageAttempt(stage) for stage in stage_ids]
    if len(stages) != 2:
        raise AssertionError(f"an epoch through two levels has two stages, not {len(stages)}")
    (launched, first_done), (relaunched, second_done) = (
        (_seconds(stage.firstTaskLaunchedTime()), _seconds(stage.completionTime())) for stage in stages
    )
    return EpochTrace(
        epoch=numbers.epoch,
        records=numbers.records,
        seconds=numbers.seconds,
        announce=times["announced"] - times["begun"],
        plan=times["planned"] - times["announced"],
        launch=launched - times["planned"],
        first_stage=first_done - launched,
        first_busy=_busy(numbers, 0),
        exchange=relaunched - first_done,
        second_stage=second_done - relaunched,
        second_busy=_busy(numbers, 1),
        collect=times["collected"] - second_done,
        reports=times["ended"] - times["collected"],
    )


def _busy(numbers: Any, level: int) -> float:
    busy: list[float] = [slot.get(level, 0.0) for slot in numbers.busy]
    return max(busy)


def _seconds(date: Any) -> float:
    milliseconds: int = date.get().getTime()
    return milliseconds / 1000
