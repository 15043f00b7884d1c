"""Chains of snapshots: a restore from any completed checkpoint gives what was there when its snapshot was taken."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintstream.common import Time, Types
from flintstream.common.keys import key_group, key_group_range, subtask_for_group
from flintstream.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from flintstream.runtime.checkpoint import chain as chain_module
from flintstream.runtime.checkpoint.chain import SnapshotChain
from flintstream.runtime.checkpoint.databases import SharedFiles
from flintstream.runtime.checkpoint.metadata import OperatorState, SubtaskState
from flintstream.runtime.checkpoint.pieces import CheckpointTarget, PieceWriter, RestoredOperators
from flintstream.runtime.checkpoint.rescaling import share_of
from flintstream.runtime.checkpoint.snapshot import OperatorSnapshot, restore_snapshots
from flintstream.runtime.deployment import OperatorDeployment, VertexDeployment
from flintstream.runtime.state.heap import HeapKeyedStateBackend
from flintstream.runtime.state.operator_state import OperatorStateBackend
from flintstream.runtime.time.timers import TimerQueue, TimerService

GROUPS = 8
OPERATOR = "a" * 32
VALUE = ValueStateDescriptor("value", Types.LONG())
LIST = ListStateDescriptor("list", Types.STRING())
MAP = MapStateDescriptor("map", Types.STRING(), Types.LONG())
FADING = ValueStateDescriptor("fading", Types.LONG())
FADING.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
POSITIONS = ListStateDescriptor("positions", Types.LONG())
Tables = dict[str, dict[Any, Any]]


def clock() -> int:
    return 1_000_000


class Subtask:
    """The state of an operator in a subtask, as a function changes it, and the chain of its snapshots."""

    def __init__(self, index: int, parallelism: int, with_state: bool = True) -> None:
        groups = key_group_range(GROUPS, parallelism, index)
        self.index = index
        self.backend = HeapKeyedStateBackend("Count", GROUPS, clock, groups)
        self.operator_state = OperatorStateBackend("Count")
        self.positions = self.operator_state.get_list_state(POSITIONS)
        self.chain = SnapshotChain(self.backend, incremental=True)
        self.service = TimerService("Count", clock, self.backend)
        self.whole: dict[int, SubtaskState] = {}
        if with_state:
            self.value = self.backend.value_state(VALUE)
            self.list = self.backend.list_state(LIST)
            self.map = self.backend.map_state(MAP)
            self.fading = self.backend.value_state(FADING)

    def change(self, what: str, key: int, number: int) -> None:
        """What a function does with a record of a key."""
        self.backend.touch([key])
        self.backend.current_key = key
        if what == "update":
            self.value.update(number)
            self.fading.update(number)
        elif what == "add":
            self.list.add(str(number))
            self.positions.add(number)
        elif what == "put":
            self.map.put(str(number % 3), number)
        elif what == "remove":
            self.map.remove(str(number % 3))
        elif what == "clear":
            for state in (self.value, self.list, self.map, self.fading):
                state.clear()
            self.positions.clear()
        elif what == "timer":
            self.queues[number % 2].add(number, key)
        elif what == "delete":
            for queue in self.queues:
                for timer in [timer for timer in queue if timer[1] == key]:
                    queue.remove(*timer)
        elif what == "fire":
            list(self.queues[number % 2].due(number))

    @property
    def queues(self) -> tuple[TimerQueue, TimerQueue]:
        return self.service.event, self.service.processing

    @property
    def timers(self) -> tuple[list[Any], list[Any]]:
        return self.service.stored()

    def take(self, checkpoint_id: int) -> OperatorSnapshot:
        snapshot = self.chain.take(checkpoint_id, self.operator_state, self.service)
        stored = PieceWriter(CheckpointTarget(None), "Count", self.index).write(snapshot, SharedFiles())
        self.whole[checkpoint_id] = stored if snapshot.base is None else stored.based_on(self.whole[snapshot.base])
        return snapshot

    @property
    def tables(self) -> Tables:
        return copy.deepcopy({info.name: dict(table) for info, table in self.backend.entries()})


class Run:
    """An operator in several subtasks."""

    def __init__(self, parallelism: int, with_state: bool = True) -> None:
        self.subtasks = [Subtask(index, parallelism, with_state) for index in range(parallelism)]
        self.content: dict[int, Any] = {}

    def change(self, what: str, key: int, number: int) -> None:
        owner = subtask_for_group(key_group(key, GROUPS), GROUPS, len(self.subtasks))
        self.subtasks[owner].change(what, key, number)

    def take(self, checkpoint_id: int) -> None:
        for subtask in self.subtasks:
            subtask.take(checkpoint_id)
        self.content[checkpoint_id] = merged((each.tables, each.timers, list(each.positions)) for each in self.subtasks)

    def completed(self, checkpoint_id: int) -> None:
        for subtask in self.subtasks:
            subtask.chain.completed(checkpoint_id)

    def aborted(self, checkpoint_id: int) -> None:
        for subtask in self.subtasks:
            subtask.chain.aborted(checkpoint_id)

    def restored(self, checkpoint_id: int, parallelism: int) -> Any:
        states = {subtask.index: subtask.whole[checkpoint_id] for subtask in self.subtasks}
        operators = {OPERATOR: OperatorState("Count", None, len(states), GROUPS, states)}
        left = RestoredOperators(checkpoint_id, None, operators)
        shares = [share_of(left, [(vertex(parallelism), index)]) for index in range(parallelism)]
        restored = merged(restore(share, index, parallelism) for index, share in enumerate(shares))
        assert restored == merged(restore(left, index, parallelism) for index in range(parallelism))
        return restored


def vertex(parallelism: int) -> VertexDeployment:
    operator = OperatorDeployment(0, OPERATOR, "Count", None, None, {}, [])
    return VertexDeployment(0, "Count", 1, parallelism, GROUPS, [operator], [], [], [])


def restore(left: RestoredOperators, index: int, parallelism: int) -> Any:
    groups = key_group_range(GROUPS, parallelism, index)
    backend = HeapKeyedStateBackend("Count", GROUPS, clock, groups)
    operator_state = OperatorStateBackend("Count")
    timers = restore_snapshots(left.chains(OPERATOR, groups), backend, operator_state, index, parallelism)
    tables = {info.name: dict(table) for info, table in backend.entries()}
    for table in tables.values():
        assert all(key_group(key, GROUPS) in groups for key in table)
    return tables, timers, list(operator_state.get_list_state(POSITIONS))


def merged(parts: Iterable[Any]) -> Any:
    """The content of all subtasks together."""
    tables: Tables = {}
    event, processing, positions = [], [], []
    for part, timers, elements in parts:
        for name, table in part.items():
            assert not tables.get(name, {}).keys() & table.keys()
            tables.setdefault(name, {}).update(table)
        event += timers[0]
        processing += timers[1]
        positions += elements
    return tables, sorted(event), sorted(processing), sorted(positions)


CHANGES = st.tuples(
    st.sampled_from(["update", "update", "add", "put", "remove", "clear", "clear", "timer", "timer", "delete", "fire"]),
    st.integers(0, 5),
    st.integers(0, 1000),
)
PHASES = st.lists(
    st.tuples(
        st.lists(CHANGES, max_size=8), st.lists(st.sampled_from(["complete", "complete", "abort", "lose"]), max_size=2)
    ),
    max_size=10,
)
"""Changes, a snapshot, and what becomes of one of the checkpoints on their way, none or two."""


@settings(max_examples=200)
@given(parallelism=st.integers(1, 3), phases=PHASES, data=st.data())
def test_any_completed_checkpoint_restores_what_its_snapshot_saw(parallelism, phases, data):
    run = Run(parallelism)
    pending: list[int] = []
    completed: list[int] = []
    for number, (changes, outcomes) in enumerate(phases, 1):
        for change in changes:
            run.change(*change)
        run.take(number)
        pending.append(number)
        for outcome in outcomes[: len(pending)]:
            ended = data.draw(st.sampled_from(pending))
            pending.remove(ended)
            if outcome == "complete":
                completed.append(ended)
                run.completed(ended)
            elif outcome == "abort":
                run.aborted(ended)
    for checkpoint_id in completed:
        for restored_parallelism in (1, 2, 3):
            assert run.restored(checkpoint_id, restored_parallelism) == run.content[checkpoint_id]


def test_what_was_cleared_is_gone():
    run = Run(2)
    for key in range(10):
        for what in ("update", "add", "put"):
            run.change(what, key, key)
    run.take(1)
    run.completed(1)
    run.change("clear", 3, 0)
    run.take(2)
    tables = run.restored(2, 3)[0]
    assert run.subtasks[0].whole[2].keyed[-1].only_changes
    for name in ("value", "list", "map", "fading"):
        assert sorted(tables[name]) == [0, 1, 2, 4, 5, 6, 7, 8, 9]


def test_timers_that_have_fired_are_gone_though_the_operator_has_no_state():
    run = Run(1, with_state=False)
    run.change("timer", 1, 500)
    run.take(1)
    run.completed(1)
    run.change("fire", 1, 500)
    run.take(2)
    assert run.restored(1, 1)[1] == [(500, 1)]
    assert run.restored(2, 1)[1] == []


def test_the_size_of_changes_follows_the_keys_touched():
    subtask = Subtask(0, 1)
    for key in range(1000):
        subtask.change("update", key, 1)
    full = subtask.take(1)
    subtask.chain.completed(1)
    for key in range(10):
        subtask.change("update", key, 2)
    few = subtask.take(2)
    assert few.only_changes and few.base == 1
    assert few.keyed_size < full.keyed_size / 10
    subtask.chain.completed(2)
    nothing = subtask.take(3)
    assert nothing.only_changes and nothing.base == 2
    assert nothing.groups == {}


def test_a_checkpoint_given_up_leaves_its_changes_to_the_next():
    subtask = Subtask(0, 1)
    for key in range(1000):
        subtask.change("update", key, 1)
    subtask.take(1)
    subtask.chain.completed(1)
    subtask.change("update", 1, 2)
    subtask.take(2)
    subtask.change("update", 2, 3)
    snapshot = subtask.take(3)
    assert snapshot.base == 1
    restored = RestoredOperators(3, None, {OPERATOR: OperatorState("Count", None, 1, GROUPS, {0: subtask.whole[3]})})
    tables, _, _ = restore(restored, 0, 1)
    assert (tables["value"][1], tables["value"][2], tables["value"][3]) == (2, 3, 1)


def test_without_a_completed_checkpoint_everything_is_stored():
    subtask = Subtask(0, 1)
    subtask.change("update", 1, 1)
    assert not subtask.take(1).only_changes
    subtask.change("update", 2, 1)
    assert not subtask.take(2).only_changes


def test_a_chain_is_cut_when_its_changes_outgrow_the_snapshot_of_everything():
    subtask = Subtask(0, 1)
    for key in range(20):
        subtask.change("update", key, 1)
    full = subtask.take(1)
    subtask.chain.completed(1)
    changes = 0
    for number in range(2, 100):
        for key in range(6):
            subtask.change("update", key, number)
        snapshot = subtask.take(number)
        subtask.chain.completed(number)
        if not snapshot.only_changes:
            break
        assert changes < full.keyed_size
        changes += snapshot.keyed_size
    assert changes >= full.keyed_size
    assert len(subtask.whole[number].keyed) == 1
    subtask.change("update", 1, 0)
    assert subtask.take(number + 1).base == number


def test_a_chain_is_cut_when_it_is_long_though_nothing_changes(monkeypatch):
    monkeypatch.setattr(chain_module, "LONGEST_CHAIN", 5)
    subtask = Subtask(0, 1)
    subtask.change("update", 1, 1)
    lengths = []
    for number in range(1, 14):
        subtask.take(number)
        subtask.chain.completed(number)
        lengths.append(len(subtask.whole[number].keyed))
    assert lengths == [1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6, 1]


def test_without_increments_everything_is_stored_each_time():
    backend = HeapKeyedStateBackend("Count", GROUPS, clock)
    state = backend.value_state(VALUE)
    chain = SnapshotChain(backend, incremental=False)
    backend.touch([1])
    backend.current_key = 1
    state.update(5)
    for number in (1, 2, 3):
        snapshot = chain.take(number, OperatorStateBackend("Count"), None)
        chain.completed(number)
        assert not snapshot.only_changes
        assert snapshot.groups
    assert backend.changed_keys() is None


def test_values_migrated_behind_a_snapshot_of_everything_are_changes():
    """A function may ask for its state late, with another type than it had in the run before."""
    nothing = OperatorStateBackend("Count")
    before, between, after = (HeapKeyedStateBackend("Count", GROUPS, clock) for _ in range(3))
    state = before.value_state(ValueStateDescriptor("value", Types.INT()))
    for key in range(30):
        before.current_key = key
        state.update(key)
    restore_snapshots([[SnapshotChain(before, True).take(1, nothing, None)]], between, nothing, 0, 1)
    chain = SnapshotChain(between, True)
    left = [chain.take(2, nothing, None)]
    chain.completed(2)
    now = ValueStateDescriptor("value", Types.DOUBLE())
    between.value_state(now)
    left.append(chain.take(3, nothing, None))
    assert left[1].only_changes
    restore_snapshots([left], after, nothing, 0, 1)
    after.value_state(now)
    assert {type(value) for value in after.table("value").values()} == {float}


def test_state_that_cannot_be_written_is_told_by_operator_and_name():
    backend = HeapKeyedStateBackend("Count", GROUPS, clock)
    state = backend.value_state(VALUE)
    backend.current_key = 1
    state.update("not a number")
    with pytest.raises(ValueError, match=r"operator 'Count': state 'value' cannot be written"):
        SnapshotChain(backend, True).take(1, OperatorStateBackend("Count"), None)
