"""Watermark alignment: sources of a group keep step, and nobody waits for one that cannot go on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintstream.common.time import Duration
from flintstream.common.watermark_strategy import WatermarkAlignment, WatermarkStrategy
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.connectors.source import PythonSource
from flintstream.graph import SinkTransformation, StreamGraphConfig, StreamGraphGenerator
from flintstream.jobmaster.alignment import AlignmentGroups
from flintstream.runtime.batch import MAX_WATERMARK
from flintstream.runtime.operators.sinks import CollectOperator
from flintstream.runtime.slot.protocol import VertexReport
from flintstream.runtime.source import AlignedProgress
from flintstream.testing import LocalJob


def report(vertex: int, watermark: int | None, waiting: int | None = None, finished: bool = False) -> VertexReport:
    return VertexReport(vertex, 0, 0, 0, finished, progress=AlignedProgress(watermark, waiting))


def groups(**drifts: tuple[str, int]) -> AlignmentGroups:
    """Vertices `v0`, `v1`, ... with their group and drift."""
    return AlignmentGroups({int(name[1:]): WatermarkAlignment(group, drift) for name, (group, drift) in drifts.items()})


class TestGroups:
    def test_nobody_is_aligned(self) -> None:
        nobody = AlignmentGroups({})
        nobody.epoch_done([report(0, 5)])
        assert nobody.limit(0) is None
        assert nobody.next_due() is None

    def test_as_far_as_the_slowest_and_the_drift(self) -> None:
        both = groups(v0=("g", 10), v1=("g", 30))
        assert both.limit(0) is None, "before the first epoch nobody knows"
        both.epoch_done([report(0, 100), report(1, 50)])
        assert (both.limit(0), both.limit(1)) == (60, 80)
        assert both.limit(7) is None

    def test_groups_are_apart(self) -> None:
        two = groups(v0=("g", 10), v1=("h", 10))
        two.epoch_done([report(0, 100), report(0, 120), report(1, 50), report(1, 70)])
        assert (two.limit(0), two.limit(1)) == (110, 60)

    def test_one_that_is_left_alone_waits_for_nobody(self) -> None:
        both = groups(v0=("g", 10), v1=("h", 10))
        both.epoch_done([report(0, 100), report(1, 50)])
        assert (both.limit(0), both.limit(1)) == (MAX_WATERMARK, MAX_WATERMARK)

    def test_all_subtasks_of_a_source_count(self) -> None:
        one = groups(v0=("g", 10))
        one.epoch_done([report(0, 100), report(0, 20), report(0, 300)])
        assert one.limit(0) == 30

    def test_nobody_waits_for_one_without_a_watermark_or_at_its_end(self) -> None:
        both = groups(v0=("g", 10), v1=("g", 10))
        both.epoch_done([report(0, 100), report(1, None)])
        assert both.limit(0) == 110
        both.epoch_done([report(0, 100), report(0, 90), report(1, 5, finished=True)])
        assert both.limit(0) == 100
        both.epoch_done([report(0, None), report(1, None)])
        assert both.limit(0) == MAX_WATERMARK

    def test_an_epoch_is_wanted_only_if_one_that_waits_may_go_on(self) -> None:
        both = groups(v0=("g", 10), v1=("g", 10))
        both.epoch_done([report(0, 100, waiting=100), report(1, 50)])
        assert both.next_due() is None
        both.epoch_done([report(0, 100, waiting=100), report(1, 90)])
        assert both.next_due() == 0.0
        both.epoch_done([report(0, 100), report(1, 90)])
        assert both.next_due() is None
        both.epoch_done([report(0, 100, waiting=100), report(1, 50, finished=True)])
        assert both.next_due() == 0.0

    def test_reports_of_others_are_passed_over(self) -> None:
        one = groups(v0=("g", 10))
        one.epoch_done([report(3, 1), VertexReport(0, 0, 0, 0, False), report(0, 5), report(0, 8)])
        assert one.limit(0) == 15


# --- whole jobs ---


class Timeline(PythonSource):
    """Splits of timestamps; a record is (name, timestamp). A float is a pause of so many seconds."""

    def __init__(self, name: str, *splits: list[float]) -> None:
        self.name = name
        self.timelines = splits

    def splits(self, parallelism: int) -> range:
        return range(len(self.timelines))

    def read(self, split: int, position: Any) -> Iterator[Any]:
        for offset, moment in enumerate(self.timelines[split]):
            if isinstance(moment, float):
                until = time.monotonic() + moment
                while time.monotonic() < until:
                    yield None
            else:
                yield offset + 1, (f"{self.name}{split}", moment), moment


STRATEGY = WatermarkStrategy.for_monotonous_timestamps()


def aligned(drift: int, group: str = "g", strategy: WatermarkStrategy = STRATEGY) -> WatermarkStrategy:
    return strategy.with_watermark_alignment(group, Duration.of_millis(drift))


def job_of(*sources: tuple[Timeline, WatermarkStrategy], parallelism: int = 1, limit: int = 10) -> LocalJob:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(parallelism)
    streams = [env.from_source(source, strategy, source.name) for source, strategy in sources]
    stream = streams[0].union(*streams[1:]) if len(streams) > 1 else streams[0]
    sink = SinkTransformation(stream._transformation, "collect", CollectOperator("c"))
    graph = StreamGraphGenerator([sink], StreamGraphConfig(parallelism=parallelism)).generate()
    return LocalJob(graph, records_per_epoch=limit)


def lead(collected: list[tuple[str, int]], fast: str, slow: str) -> int:
    """How far the fast one was ahead at most while the slow one was under way."""
    last = {fast: 0, slow: 0}
    most = 0
    ends = max(index for index, (name, _) in enumerate(collected) if name == slow)
    for name, moment in collected[:ends]:
        last[name] = moment
        most = max(most, last[fast] - last[slow])
    return most


FAST = list(range(0, 20_000, 100))
SLOW = list(range(0, 400, 2))


class TestTwoSources:
    def test_without_alignment_the_fast_one_runs_away(self) -> None:
        collected = job_of((Timeline("fast", FAST), STRATEGY), (Timeline("slow", SLOW), STRATEGY)).run().collected["c"]
        assert lead(collected, "fast0", "slow0") > 15_000

    @pytest.mark.parametrize("drift", [0, 50, 1000])
    def test_the_fast_one_waits_and_goes_on(self, drift: int) -> None:
        job = job_of((Timeline("fast", FAST), aligned(drift)), (Timeline("slow", SLOW), aligned(drift)))
        collected = job.run(timeout=60).collected["c"]
        assert [moment for name, moment in collected if name == "fast0"] == FAST
        assert [moment for name, moment in collected if name == "slow0"] == SLOW
        assert lead(collected, "fast0", "slow0") <= drift + 10 * 100, "at most what one step reads beyond"
        # A step of the watermark that is longer than the drift takes an epoch; else many records fit into one.
        records = len(FAST) + len(SLOW)
        assert job.epochs <= (records if drift < 1000 else records // 4) + 20, "no epochs for nothing"

    def test_each_source_has_a_drift_of_its_own(self) -> None:
        job = job_of((Timeline("fast", FAST), aligned(2000)), (Timeline("slow", SLOW), aligned(0)))
        collected = job.run(timeout=60).collected["c"]
        assert 1000 < lead(collected, "fast0", "slow0") <= 2000 + 10 * 100

    def test_another_group_does_not_wait(self) -> None:
        job = job_of((Timeline("fast", FAST), aligned(0, "g")), (Timeline("slow", SLOW), aligned(0, "h")))
        collected = job.run(timeout=60).collected["c"]
        assert len(collected) == len(FAST) + len(SLOW)
        assert lead(collected, "fast0", "slow0") > 10_000

    def test_one_without_records_is_not_waited_for(self) -> None:
        job = job_of((Timeline("fast", FAST), aligned(10)), (Timeline("slow", [0.1]), aligned(10)))
        assert len(job.run(timeout=60).collected["c"]) == len(FAST)

    def test_it_goes_on_when_the_slow_one_ends(self) -> None:
        job = job_of((Timeline("fast", FAST), aligned(10)), (Timeline("slow", [0, 1, 2]), aligned(10)))
        assert len(job.run(timeout=60).collected["c"]) == len(FAST) + 3

    def test_while_the_slow_one_pauses_no_epochs_run(self) -> None:
        job = job_of((Timeline("fast", FAST), aligned(10)), (Timeline("slow", [0, 1, 600.0, 2]), aligned(10)))
        job.open()
        deadline = time.monotonic() + 60
        waiting = 0
        while waiting <= 20:
            assert time.monotonic() < deadline
            if job.is_due():
                job.run_epoch()
            else:
                waiting += 1
                time.sleep(0.001)
        assert job.epochs < 30, "the fast one waits, the slow one pauses: nothing to do"
        assert ("fast0", FAST[-1]) not in job.collected["c"]
        job.close()

    def test_an_idle_one_is_not_waited_for(self) -> None:
        idling = STRATEGY.with_idleness(Duration.of_millis(30))
        slow = Timeline("slow", [0, 1, 3.0, 5])
        job = job_of((Timeline("fast", FAST), aligned(10)), (slow, aligned(10, strategy=idling)))
        collected = job.run(timeout=60).collected["c"]
        assert collected.index(("fast0", FAST[-1])) < collected.index(("slow0", 5)), "it went on while slow was idle"
        assert job.epochs < 400

    def test_one_that_waits_is_not_idle(self) -> None:
        idling = STRATEGY.with_idleness(Duration.of_millis(20))
        fast = Timeline("fast", [0, 1000, 2000])
        slow = Timeline("slow", [0, 1, 0.1, 2, 0.05, 3000])
        job = job_of((fast, aligned(10, strategy=idling)), (slow, aligned(10)), limit=1)
        job.run(timeout=60)
        assert len(job.collected["c"]) == 7
        assert job.epochs < 100


class TestSplitsOfOneSource:
    def test_the_fast_split_waits(self) -> None:
        job = job_of((Timeline("t", FAST, SLOW), aligned(50)))
        collected = job.run(timeout=60).collected["c"]
        assert len(collected) == len(FAST) + len(SLOW)
        assert lead(collected, "t0", "t1") <= 50 + 10 * 100

    def test_in_two_subtasks(self) -> None:
        job = job_of((Timeline("t", FAST, SLOW), aligned(50)), parallelism=2)
        collected = job.run(timeout=60).collected["c"]
        assert sorted(collected) == sorted([("t0", each) for each in FAST] + [("t1", each) for each in SLOW])
        assert job.epochs <= len(FAST) + len(SLOW) + 20

    def test_alone_it_never_waits(self) -> None:
        job = job_of((Timeline("t", FAST), aligned(0)), limit=100)
        assert [moment for _, moment in job.run(timeout=60).collected["c"]] == FAST
        assert job.epochs <= len(FAST) + 20


timelines = st.lists(st.integers(0, 500), max_size=20).map(sorted)


@given(
    st.lists(st.lists(timelines, min_size=1, max_size=2), min_size=1, max_size=3),
    st.integers(0, 200),
    st.integers(1, 2),
    st.sampled_from([1, 3, 50]),
)
@settings(max_examples=40)
def test_every_job_ends_with_every_record(
    sources: list[list[list[int]]], drift: int, parallelism: int, limit: int
) -> None:
    made = [
        (Timeline(f"s{number}-", *(list(split) for split in splits)), aligned(drift))
        for number, splits in enumerate(sources)
    ]
    job = job_of(*made, parallelism=parallelism, limit=limit)
    collected = job.run(timeout=60).collected.get("c", [])
    records = 0
    for number, splits in enumerate(sources):
        for index, split in enumerate(splits):
            records += len(split)
            assert [moment for name, moment in collected if name == f"s{number}-{index}"] == split
    assert len(collected) == records
    assert job.epochs <= records + 20
