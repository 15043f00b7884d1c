"""Timers in checkpoints: written by what has changed, and restored as they were."""

from __future__ import annotations

import pickle
import shutil
import zlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintstream.common import Time
from flintstream.common.keys import key_group, key_group_range, subtask_for_group
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows
from flintstream.runtime.checkpoint.chain import SnapshotChain
from flintstream.runtime.checkpoint.databases import SharedFiles
from flintstream.runtime.checkpoint.metadata import (
    DatabaseHandle,
    KeyedHandle,
    OperatorState,
    Piece,
    SubtaskState,
)
from flintstream.runtime.checkpoint.pieces import CheckpointTarget, PieceWriter, RestoredOperators
from flintstream.runtime.checkpoint.rescaling import share_of
from flintstream.runtime.checkpoint.snapshot import restore_snapshots, take_snapshot
from flintstream.runtime.deployment import OperatorDeployment, VertexDeployment
from flintstream.runtime.state.operator_state import OperatorStateBackend
from flintstream.runtime.time.timers import TimerService
from flintstream.testing import OneInputOperatorHarness
from flintstream.testing.backends import make_backend

GROUPS = 8
OPERATOR = "a" * 32
Timers = set[tuple[int, int]]


def clock() -> int:
    return 0


class Subtask:
    """The timers of an operator in a subtask, and the chain of its snapshots."""

    def __init__(self, backend: str, index: int, parallelism: int, left: RestoredOperators | None) -> None:
        groups = key_group_range(GROUPS, parallelism, index)
        self.state = make_backend(backend, "Later", GROUPS, clock, groups)
        self.service = TimerService("Later", clock, self.state)
        self.chain = SnapshotChain(self.state, incremental=True)
        self.whole: dict[int, SubtaskState] = {}
        if left is not None:
            share = share_of(left, [(_vertex(parallelism), index)])
            chains = share.chains(OPERATOR, groups, f"{self.state.database or ''}-")
            self.service.restore(
                restore_snapshots(chains, self.state, OperatorStateBackend("Later"), index, parallelism)
            )

    def take(self, checkpoint_id: int) -> None:
        snapshot = self.chain.take(checkpoint_id, OperatorStateBackend("Later"), self.service)
        stored = PieceWriter(CheckpointTarget(None), "Later", 0).write(snapshot, SharedFiles())
        if snapshot.database is not None:
            shutil.rmtree(snapshot.database.directory)
        self.whole[checkpoint_id] = stored if snapshot.base is None else stored.based_on(self.whole[snapshot.base])


class Run:
    """An operator in several subtasks."""

    def __init__(self, backend: str, parallelism: int, left: RestoredOperators | None = None) -> None:
        self.subtasks = [Subtask(backend, index, parallelism, left) for index in range(parallelism)]

    def of(self, key: int) -> TimerService:
        return self.subtasks[subtask_for_group(key_group(key, GROUPS), GROUPS, len(self.subtasks))].service

    @property
    def timers(self) -> tuple[Timers, Timers]:
        stored = [subtask.service.stored() for subtask in self.subtasks]
        return _union(event for event, _ in stored), _union(processing for _, processing in stored)

    def checkpoint(self, checkpoint_id: int) -> RestoredOperators:
        states = {index: subtask.whole[checkpoint_id] for index, subtask in enumerate(self.subtasks)}
        operator = OperatorState("Later", None, len(states), GROUPS, states)
        return RestoredOperators(checkpoint_id, None, {OPERATOR: operator})

    def close(self) -> None:
        for subtask in self.subtasks:
            subtask.state.close()


def _union(parts: Iterable[Iterable[Any]]) -> Timers:
    found = [timer for part in parts for timer in part]
    assert len(found) == len(set(found))
    return set(found)


def _vertex(parallelism: int) -> VertexDeployment:
    operator = OperatorDeployment(0, OPERATOR, "Later", None, None, {}, [])
    return VertexDeployment(0, "Later", 1, parallelism, GROUPS, [operator], [], [], [])


STEPS = st.one_of(
    st.tuples(st.just("register"), st.integers(0, 11), st.integers(0, 12)),
    st.tuples(st.just("delete"), st.integers(0, 11), st.integers(0, 12)),
    st.tuples(st.just("fire"), st.just(0), st.integers(0, 6)),
    st.tuples(st.just("checkpoint"), st.sampled_from([0, 0, 0, 1, 2]), st.just(0)),
    st.tuples(st.just("restore"), st.just(0), st.integers(1, 3)),
)


def check(backend: str, parallelism: int, steps: list[tuple[str, int, int]]) -> None:
    """Any calls, any outcome of checkpoints, and restores of the last completed one, against sets of timers."""
    run = Run(backend, parallelism)
    reference: tuple[Timers, Timers] = (set(), set())
    completed: tuple[RestoredOperators, tuple[Timers, Timers]] | None = None
    try:
        for number, (what, how, value) in enumerate(steps, 1):
            if what == "register":
                run.of(how).event.add(value, how)
                run.of(how).processing.add(value % 3, how)
                reference[0].add((value, how))
                reference[1].add((value % 3, how))
            elif what == "delete":
                run.of(how).event.remove(value, how)
                reference[0].discard((value, how))
            elif what == "fire":
                for subtask in run.subtasks:
                    list(subtask.service.event.due(value))
                reference[0].difference_update([timer for timer in reference[0] if timer[0] <= value])
            elif what == "checkpoint":
                for subtask in run.subtasks:
                    subtask.take(number)
                    if how == 0:
                        subtask.chain.completed(number)
                    elif how == 1:
                        subtask.chain.aborted(number)
                if how == 0:
                    completed = run.checkpoint(number), (set(reference[0]), set(reference[1]))
                    assert backend == "rocksdb" or _read(completed[0]) == reference
            elif completed is not None:
                run.close()
                run = Run(backend, value, completed[0])
                reference = set(completed[1][0]), set(completed[1][1])
            assert run.timers == reference
    finally:
        run.close()


def _read(left: RestoredOperators) -> tuple[Timers, Timers]:
    """The timers of a checkpoint, restored at another parallelism."""
    run = Run("hashmap", 2, left)
    try:
        return run.timers
    finally:
        run.close()


@settings(max_examples=150, deadline=None)
@given(parallelism=st.integers(1, 3), steps=st.lists(STEPS, max_size=40))
def test_timers_against_a_reference(parallelism, steps):
    check("hashmap", parallelism, steps)


@settings(max_examples=12, deadline=None)
@given(parallelism=st.integers(1, 2), steps=st.lists(STEPS, min_size=10, max_size=30))
def test_timers_against_a_reference_with_rocksdb(parallelism, steps):
    check("rocksdb", parallelism, steps)


# --- sizes ---

LIVE, CHANGED = 100_000, 1_000


class Moved(KeyedProcessFunction):
    """Each record `(key, delete at, register at)` moves the timer of its key."""

    def process_element(self, value: tuple[int, int, int], ctx: KeyedProcessFunction.Context) -> None:
        if value[1]:
            ctx.timer_service().delete_event_time_timer(value[1])
        if value[2]:
            ctx.timer_service().register_event_time_timer(value[2])

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> None:
        return


def sizes(harness: Any, first: list[Any], then: list[Any], watermark: int | None = None) -> tuple[int, int]:
    """The bytes of timers in a first checkpoint, and in a second one with some changes."""
    found = []
    for checkpoint_id, records in ((1, first), (2, then)):
        harness.process_elements(records, [record[2] - 1 for record in records])
        if checkpoint_id == 2 and watermark is not None:
            harness.process_watermark(watermark)
        harness.end_epoch()
        (snapshot,) = harness.task.snapshot(checkpoint_id, 0).values()
        harness.task.notify_checkpoint_complete(checkpoint_id)
        assert snapshot.only_changes == (checkpoint_id == 2)
        found.append(snapshot.keyed_size)
    return found[0], found[1]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("spread", [1, 100_000], ids=["each at its own time", "all at one time"])
def test_of_many_timers_only_those_that_have_changed_are_written(backend, spread):
    def at(key: int) -> int:
        return 1 + key // spread

    later = 2 * LIVE
    with OneInputOperatorHarness(Moved(), lambda record: record[0], state_backend=backend) as harness:
        first = [(key, 0, at(key)) for key in range(LIVE)]
        # A third is moved, a third deleted, a third new.
        then = [(key, at(key) * (key % 3 < 2), (later + key) * (key % 3 > 0)) for key in range(3 * CHANGED // 4)]
        then = [(key + LIVE * (key % 3 == 2), before, after) for key, before, after in then]
        whole, changes = sizes(harness, first, then)
    # A timer that is moved is removed and added. A key group costs some bytes whatever it contains.
    assert changes < whole * 0.01 + 128 * 100, (whole, changes)


def test_timers_that_fire_are_not_listed():
    with OneInputOperatorHarness(Moved(), lambda record: record[0]) as harness:
        whole, changes = sizes(harness, [(key, 0, 1 + key) for key in range(LIVE)], [], watermark=LIVE // 2)
    assert changes < 100, (whole, changes)


def test_timers_that_come_and_go_between_two_checkpoints_are_not_listed():
    with OneInputOperatorHarness(Moved(), lambda record: record[0]) as harness:
        # One key in a thousand moves its timer a hundred times.
        moves = [
            (key, 10_000 * (turn - 1) + key, 10_000 * turn + key) for turn in range(2, 102) for key in range(1, 100)
        ]
        first = [(key, 0, 10_000 + key) for key in range(1, 9_999)]
        whole, changes = sizes(harness, first, moves)
    assert changes < whole * 0.02 + 99 * 80, (whole, changes)


WINDOWS = {
    "sessions": EventTimeSessionWindows.with_gap(Time.milliseconds(10)),
    "hours": TumblingEventTimeWindows.of(Time.hours(1)),
}


@pytest.mark.parametrize(("backend", "kind"), [("hashmap", "sessions"), ("rocksdb", "sessions"), ("hashmap", "hours")])
def test_of_many_windows_only_those_that_have_changed_are_written(backend, kind):
    stream = StreamExecutionEnvironment.get_execution_environment().from_collection([(0, 0, 0)])
    windows = stream.key_by(lambda record: record[0]).window(WINDOWS[kind])
    operator = windows.reduce(lambda left, right: (left[0], 0, left[2]))._transformation.operator
    with OneInputOperatorHarness(operator, lambda record: record[0], state_backend=backend) as harness:
        first = [(key, 0, 1 + key) for key in range(20_000)]
        whole, changes = sizes(harness, first, [(key, 0, 6 + key) for key in range(200)])
    assert changes < whole * 0.02 + 128 * 400, (whole, changes)


# --- checkpoints of before ---


def test_checkpoints_written_before_there_were_changes_are_read():
    """Their handles and groups have fewer fields, and all timers are in the last of a chain."""

    def piece(*timers: tuple[int, int]) -> Piece:
        data = pickle.dumps({"entries": {}, "removed": {}, "timers": (list(timers), [])})
        return Piece(len(data), zlib.crc32(data), data)

    def group(key: int) -> int:
        return key_group(key, GROUPS)

    chain = (
        KeyedHandle({}, {group(1): piece((5, 1)), group(2): piece((7, 2))}),
        KeyedHandle({}, {group(1): piece((9, 1))}, True),
    )
    for handle in chain:
        del handle.__dict__["fired"]
    operator = OperatorState("Later", None, 1, GROUPS, {0: SubtaskState(chain)})
    assert _read(RestoredOperators(1, None, {OPERATOR: operator})) == ({(9, 1)}, set())
    before = Run("rocksdb", 1)
    before.subtasks[0].take(1)
    (database,) = before.subtasks[0].whole[1].keyed
    assert isinstance(database, DatabaseHandle)
    before.close()
    with_timers = replace(database, timers={group(3): piece((4, 3))})
    operator = OperatorState("Later", None, 1, GROUPS, {0: SubtaskState((with_timers,))})
    after = Run("rocksdb", 2, RestoredOperators(1, None, {OPERATOR: operator}))
    assert after.timers == ({(4, 3)}, set())
    after.close()


def test_a_savepoint_has_all_timers_and_leaves_the_changes_to_the_next_checkpoint():
    run = Run("hashmap", 1)
    (subtask,) = run.subtasks
    for key in range(10):
        subtask.service.event.add(100 + key, key)
    subtask.take(1)
    subtask.chain.completed(1)
    subtask.service.event.add(200, 0)
    subtask.service.event.remove(101, 1)
    savepoint = take_snapshot(subtask.state, OperatorStateBackend("Later"), subtask.service.stored())
    assert savepoint.fired is None and savepoint.base is None
    subtask.take(2)
    assert subtask.whole[2].keyed[-1].fired is not None
    assert _read(run.checkpoint(2)) == run.timers
