"""The epochs of an attempt, with slots and a Spark that the test plays."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from flintstream.common.accumulators import IntCounter
from flintstream.graph import FeedbackTransformation
from flintstream.jobmaster.control import JobCancelled, JobFailed
from flintstream.jobmaster.epoch_loop import EpochLoop
from flintstream.jobmaster.iterations import IterationCoordinator
from flintstream.jobmaster.sources import SourceCoordinator
from flintstream.runtime.checkpoint.pieces import CheckpointTarget
from flintstream.runtime.slot.messages import BeginEpoch, Close, EndEpoch, PassBarrier, TakeSnapshot
from flintstream.runtime.slot.protocol import EpochReport, SourceWork, VertexReport

from ..graph.programs import AnyOperator, execution_graph, key_by, op, sink, source
from .played import SPOOL, PlayedJob, died, report


class Loop:
    """An epoch loop whose slots answer each epoch with the next of these reports."""

    standing = False

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


class PipelinedLoop(Loop):
    """A loop whose slots are pipelined, and announce data as soon as an epoch begins, unless they are `idle`."""

    standing = True

    def __init__(self, *reports: EpochReport, idle: bool = False) -> None:
        super().__init__(*reports)
        self.job.pool.replies[PassBarrier] = self.job.pool.replies[EndEpoch]
        begin = self.job.pool.replies[BeginEpoch]

        def begin_epoch(slot: int, message: BeginEpoch) -> None:
            begin(slot, message)
            if not idle:
                self.job.control.data_ready()

        self.job.pool.replies[BeginEpoch] = begin_epoch


def test_a_barrier_ends_a_pipelined_epoch_and_its_slots_may_take_their_time():
    loop = PipelinedLoop(report(), report(finished=True))
    loop.run_to_end()
    one = ["begin_epoch", "tend", "pass_barrier", "write epoch {0}"]
    assert loop.done == [each.format(epoch) for epoch in (1, 2) for each in one]
    assert PassBarrier.runs_user_code


def test_a_pipelined_epoch_lasts_until_something_has_happened_whatever_else_is_tended():
    loop = PipelinedLoop(report(finished=True), idle=True)
    tended: list[int] = []

    def tend() -> None:
        tended.append(loop.loop.advanced_to)
        loop.job.control.wake() if len(tended) < 3 else loop.job.control.hurry()

    loop.tend = tend  # type: ignore[method-assign]
    loop.job.control.wake()
    loop.run_to_end()
    assert loop.done == ["begin_epoch", "pass_barrier", "write epoch 1"]
    assert tended == [0, 0, 0, 1], "nothing had happened in the epoch before the sources ended"


def test_a_snapshot_ends_a_pipelined_epoch_with_its_barrier():
    loop = PipelinedLoop(report(), report(finished=True))
    barriers: list[PassBarrier] = []
    pass_barrier = loop.job.pool.replies[PassBarrier]
    loop.job.pool.replies[PassBarrier] = lambda slot, message: [barriers.append(message), pass_barrier(slot, message)][
        1
    ]
    wanted = TakeSnapshot(7, 0, CheckpointTarget(None))

    def tend() -> None:
        if not barriers:
            loop.loop.pass_barrier(wanted, halts=True)

    loop.tend = tend  # type: ignore[method-assign]
    loop.run_to_end()
    assert barriers == [PassBarrier(wanted, halts=True), PassBarrier()]
    assert loop.done == [step for epoch in (1, 2) for step in ("begin_epoch", "pass_barrier", f"write epoch {epoch}")]


def test_a_drained_pipelined_job_ends_with_one_barrier_more():
    loop = PipelinedLoop(report(finished=True))
    loop.tend = loop.loop.drain  # type: ignore[method-assign]
    loop.run_to_end()
    assert loop.done == ["begin_epoch", "begin_epoch", "pass_barrier", "write epoch 2"]
    assert [work[0].drain for work in loop.work] == [False, True]


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


def loop_with_an_iteration(*reports: EpochReport) -> Loop:
    """A source (vertex 0) and the head of an iteration (vertex 1)."""
    numbers = source()
    head = FeedbackTransformation(numbers, 0.0, lambda *_: AnyOperator(), lambda *_: AnyOperator(), None)
    body = op(head, "body")
    head.add_feedback(body)
    graph = execution_graph(body)
    loop = Loop(*reports, graph=graph)
    (vertex,) = [each for each in graph.job_graph.vertices if each.name.startswith("IterationSource")]
    loop.loop._sources["head"] = IterationCoordinator.of(graph, vertex)  # type: ignore[index]
    return loop


def looping(read: int, finished: bool, feedback: int, fed: int, ended: bool = False) -> EpochReport:
    vertices = [
        VertexReport(0, 0, read, 0, finished),
        VertexReport(1, 0, fed, 0, ended, feedback=feedback),
        VertexReport(2, 0, read + fed, 0, ended),
    ]
    return report(levels=frozenset({0, 1}), vertices=vertices, next_due=AT_ONCE if feedback else None)


def test_epochs_go_on_until_nothing_is_fed_back_any_more():
    loop = loop_with_an_iteration(
        looping(5, True, 5, 0), looping(5, True, 2, 5), looping(5, True, 0, 7), looping(5, True, 0, 7, ended=True)
    )
    loop.run_to_end()
    assert loop.loop.number == 4
    assert [work[1].complete for work in loop.work] == [False, False, False, True]
    assert loop.job.context.progress.records_in == 5, "what is fed back was read before"


def test_a_job_with_an_iteration_is_drained_until_nothing_is_fed_back_any_more():
    loop = loop_with_an_iteration(looping(5, True, 5, 0), looping(5, True, 0, 5), looping(5, True, 0, 5, ended=True))
    loop.loop.drain()
    assert loop.loop.number == 3
    assert [(work[0].drain, work[1].drain, work[1].complete) for work in loop.work] == [
        (True, False, False),
        (True, False, False),
        (True, False, True),
    ]


def test_sources_read_less_while_more_is_fed_back_than_an_epoch_takes():
    loop = loop_with_an_iteration(
        looping(5, False, 40_000, 0), looping(5, True, 0, 0), looping(5, True, 0, 0, ended=True)
    )
    loop.run_to_end()
    first, second, third = loop.work
    assert second[0].limit == second[1].limit // 4 and first[0].limit == first[1].limit
    assert third[0].limit == third[1].limit


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
