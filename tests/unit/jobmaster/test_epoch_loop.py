"""The epochs of an attempt, with slots and a Spark that the test plays."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from flintstream.common.accumulators import IntCounter
from flintstream.jobmaster.control import JobCancelled, JobFailed
from flintstream.jobmaster.epoch_loop import EpochLoop
from flintstream.jobmaster.sources import SourceCoordinator
from flintstream.runtime.slot.messages import BeginEpoch, Close, EndEpoch
from flintstream.runtime.slot.protocol import EpochReport, SourceWork, VertexReport

from ..graph.programs import execution_graph, key_by, op, sink, source
from .played import SPOOL, PlayedJob, died, report


class Loop:
    """An epoch loop whose slots answer each epoch with the next of these reports."""

    def __init__(self, *reports: EpochReport, graph: Any = None) -> None:
        self.job = PlayedJob(graph)
        self.done: list[str] = self.job.pool.called
        """The calls of slots, and what else is done."""
        self.work: list[dict[int, SourceWork]] = []
        left = list(reports)
        self.job.pool.replies[BeginEpoch] = lambda slot, message: self.work.append(message.sources)
        self.job.pool.replies[EndEpoch] = lambda slot, message: left.pop(0)
        self.job.pool.replies[Close] = lambda slot, message: report(finished=True)
        self.source = SourceCoordinator(0, "Numbers", 1)
        writers: Any = SimpleNamespace(
            spools=set(), write_epoch=lambda epoch, reports: self.done.append(f"write epoch {epoch}")
        )
        self.loop = EpochLoop(self.job.context, self.job.slots, {"numbers": self.source}, writers, self)

    def run(self, epoch: int, readers: Any = ()) -> None:
        """Plays Spark."""
        self.done.append(f"run {epoch}")

    def next_due(self) -> float | None:
        return None

    def tend(self) -> None:
        self.done.append("tend")

    def run_to_end(self) -> None:
        self.loop.run(self)


AT_ONCE = 0.0


def test_epochs_run_until_the_sources_have_ended_and_between_them_checkpoints_are_tended():
    loop = Loop(report(next_due=AT_ONCE), report(finished=True))
    loop.run_to_end()
    one = ["tend", "begin_epoch", "run {0}", "end_epoch", "write epoch {0}"]
    assert loop.done == [each.format(epoch) for epoch in (1, 2) for each in one]
    assert loop.loop.number == 2
    progress = loop.job.context.progress
    assert [numbers.epoch for numbers in progress.epochs] == [1, 2]
    assert progress.records_in == 1, "slots count on: the second epoch has read nothing more"


def test_an_idle_job_waits_for_data_and_for_being_cancelled():
    loop = Loop(report())
    loop.tend = lambda: None  # type: ignore[method-assign]
    asked: list[float] = []

    def due() -> float | None:
        asked.append(time.monotonic())
        if len(asked) == 2:
            loop.job.control.cancel()
        return None

    loop.source.next_due = due  # type: ignore[method-assign]
    with pytest.raises(JobCancelled):
        loop.run_to_end()
    assert loop.loop.number == 1


def test_a_source_that_wants_an_epoch_gets_one():
    loop = Loop(report(), report(finished=True))
    loop.source.next_due = time.monotonic  # type: ignore[method-assign]
    loop.run_to_end()
    assert loop.loop.number == 2


def test_a_slot_that_has_not_seen_a_level_fails_the_job():
    loop = Loop(report(levels=frozenset()))
    with pytest.raises(JobFailed, match="epoch 1: level 0 did not reach slot 0"):
        loop.run_to_end()


def test_the_end_of_the_sources_must_reach_every_vertex():
    graph = execution_graph(sink(op(key_by(source()), "Count")))
    vertices = [VertexReport(0, 0, 1, 0, True), VertexReport(1, 0, 1, 0, False)]
    loop = Loop(report(levels=frozenset({0, 1}), vertices=vertices), graph=graph)
    with pytest.raises(
        JobFailed, match="epoch 1: the sources have ended, but the end of the input did not reach 'Count"
    ):
        loop.run_to_end()


def test_what_a_slot_says_about_a_failed_epoch_counts_more_than_what_spark_says():
    loop = Loop()

    def fail(epoch: int, readers: Any = ()) -> None:
        loop.job.control.fail(died())
        raise RuntimeError("Job aborted due to stage failure")

    loop.run = fail  # type: ignore[method-assign]
    with pytest.raises(JobFailed, match="slot 0 died"):
        loop.run_to_end()
    assert loop.done == ["tend", "begin_epoch"]


def test_a_job_is_drained_in_an_epoch_in_which_its_sources_end():
    loop = Loop(report(finished=True))
    loop.loop.drain()
    assert [work[0].drain for work in loop.work] == [True]


def test_accumulators_are_those_of_all_slots():
    counted = [report(finished=True, accumulators={"seen": IntCounter(number)}) for number in (3, 4)]
    loop = Loop(*counted)
    loop.job.pool.count = 2
    loop.run_to_end()
    assert loop.loop.accumulators["seen"].get_local_value() == 7
    assert [report.accumulators["seen"].get_local_value() for report in counted] == [3, 4], "they are merged apart"
    assert set(loop.loop.accumulators_of) == {(0, 0)}


def test_a_source_that_waits_for_a_checkpoint_gets_one_soon(monkeypatch):
    loop = Loop(report(finished=True))
    monkeypatch.setattr(SourceCoordinator, "waits_for_checkpoint", True)
    assert not loop.job.coordinator.is_due(1)
    loop.run_to_end()
    assert loop.job.coordinator.is_due(1)


def test_the_last_results_come_when_operators_are_closed():
    loop = Loop()
    loop.job.pool.replies[Close] = lambda slot, message: report(spools={SPOOL: ["last"]})
    loop.loop.close()
    assert loop.job.collected() == ["last"]
