"""What a pipelined slot does first: sources are read when what has arrived is processed."""

from __future__ import annotations

import pytest

from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.connectors.number_seq import NumberSequenceSource
from flintstream.datastream.functions import KeyedProcessFunction
from flintstream.jobmaster.sources import SplitCoordinator
from flintstream.runtime.operators.source import READ_RECORDS
from flintstream.runtime.slot import pipeline as module

from .counting import environment
from .deployed import Deployed

SOURCE = "Source: Sequence Source"


def deployed(env: StreamExecutionEnvironment, limit: int = 1) -> Deployed:
    """A slot with a source that has more than it will ever read, and an operator behind it."""
    env.from_sequence(1, 10**15).rebalance().map(lambda n: n).name("Map")
    coordinator = SplitCoordinator(0, "numbers", 2, NumberSequenceSource(1, 10**15))
    coordinator.start()
    return Deployed(env, sources={0: coordinator.work(limit)})


def reads(slot: Deployed) -> list[int]:
    """Works until ten blocks are processed that arrive at once; returns what the source had read after each step."""
    slot.pipeline.step()
    for _ in range(10):
        slot.give("Map")
    found = []
    task = slot.tasks["Map"]
    until = task.records_in + 200
    while task.records_in < until:
        slot.pipeline.step()
        found.append(slot.tasks[SOURCE].head.output.records)
    return found


@pytest.fixture
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets each task process one block in a step."""
    monkeypatch.setattr(module, "_STEP_SECONDS", 0.0)


@pytest.mark.usefixtures("short_turns")
def test_a_source_is_read_when_the_blocks_that_have_arrived_are_processed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_LONGEST_ROUND_SECONDS", 3600.0)
    slot = deployed(environment(2))
    slot.pipeline.step()
    found = reads(slot)
    # With the first of the ten, since none was known before, and not again until the others are processed.
    assert len(found) >= 9 and len(set(found[:9])) == 1
    slot.pipeline.step()
    slot.pipeline.step()
    assert slot.tasks[SOURCE].head.output.records > found[0]


@pytest.mark.usefixtures("short_turns")
def test_it_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_LONGEST_ROUND_SECONDS", 0.0)
    found = reads(deployed(environment(2)))
    assert len(found) >= 9 and found == sorted(set(found))


class Clock:
    """Seconds that pass whenever somebody looks."""

    def __init__(self, step: float) -> None:
        self.now, self.step = 1000.0, step

    def monotonic(self) -> float:
        self.now += self.step
        return self.now

    time = perf_counter = monotonic


@pytest.mark.parametrize(("seconds_a_look", "at_least", "at_most"), [(0.0, 10, 10), (0.004, 2, 4), (1.0, 1, 1)])
def test_a_task_processes_blocks_while_it_has_its_turn(
    monkeypatch: pytest.MonkeyPatch, seconds_a_look: float, at_least: int, at_most: int
):
    monkeypatch.setattr(module, "_STEP_SECONDS", 0.02)
    slot = deployed(environment(2))
    for _ in range(10):
        slot.give("Map")
    monkeypatch.setattr(module, "time", Clock(seconds_a_look))
    slot.pipeline.step()
    assert at_least <= slot.tasks["Map"].records_in / 20 <= at_most


def test_a_source_reads_on_while_it_has_its_turn_and_credit(monkeypatch: pytest.MonkeyPatch):
    def read(seconds: float) -> int:
        monkeypatch.setattr(module, "_STEP_SECONDS", seconds)
        slot = deployed(environment(2), limit=10**6)
        for _ in range(4):  # The first reads are small.
            slot.pipeline.step()
        return slot.tasks[SOURCE].head.output.records

    assert read(0.0) < READ_RECORDS
    # Nobody grants it more: its turn is over when that is used up.
    assert READ_RECORDS < read(3600.0) < 100 * READ_RECORDS


def test_a_timer_in_a_far_future_is_not_waited_for_at_once():
    class Never(KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_processing_time_timer((1 << 63) - 1)

    env = environment(2)
    env.from_sequence(1, 2).key_by(lambda n: n).process(Never()).name("Never")
    slot = Deployed(env, job_timeout=None)
    assert slot.pipeline.patience() is None
    slot.pipeline.look_soon()
    slot.give("Never")
    slot.work()
    assert slot.pipeline.patience() == 3600.0
