"""Expired entries leave RocksDB and its disk, also those of keys that are never seen again."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.waiting import wait_until

from flintstream.common import Types
from flintstream.common.time import Duration, Time
from flintstream.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from flintstream.runtime.slot.handshake import Credentials
from flintstream.runtime.slot.process import SlotProcess, SlotSpec
from flintstream.runtime.state.rocksdb.backend import RocksDBKeyedStateBackend
from flintstream.runtime.state.rocksdb.options import RocksDBOptions

GROUPS = 8
TTL = 10_000


class Clock:
    now = 0

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def backend(tmp_path: Path, clock: Clock) -> Iterator[RocksDBKeyedStateBackend]:
    made = RocksDBKeyedStateBackend("my operator", GROUPS, clock, None, str(tmp_path / "db"))
    yield made
    made.close()


def config(**settings: Any) -> StateTtlConfig:
    builder = StateTtlConfig.new_builder(Time.milliseconds(TTL)).disable_cleanup_in_background()
    if settings.get("cleans", True):
        builder.cleanup_in_rocksdb_compact_filter(settings.get("entries", 1000), settings.get("every"))
    return builder.build()


def value_state(backend: RocksDBKeyedStateBackend, **settings: Any) -> Any:
    descriptor = ValueStateDescriptor("value", Types.STRING())
    descriptor.enable_time_to_live(config(**settings))
    return backend.value_state(descriptor)


def fill(backend: RocksDBKeyedStateBackend, state: Any, keys: range, size: int = 10) -> None:
    for key in keys:
        backend.current_key = key
        state.update(f"{key:0{size}}")


def is_due(backend: RocksDBKeyedStateBackend) -> bool:
    return any(rounds.due_in() <= 0 for rounds in backend._cleanup._rounds)


def clean(backend: RocksDBKeyedStateBackend) -> None:
    """As a slot does that has nothing else to do, without its pauses."""
    while is_due(backend):
        backend._cleanup._not_before = 0.0
        backend.clean_up(idle=True)


def stored_entries(backend: RocksDBKeyedStateBackend) -> int:
    return sum(1 for group in range(GROUPS) for _ in backend._store().items(group.to_bytes(2, "big")))


def size_on_disk(directory: str) -> int:
    return sum(entry.stat().st_size for entry in os.scandir(directory) if entry.name.endswith(".sst"))


@pytest.mark.parametrize("where", ["in the cache", "in both", "in RocksDB"])
def test_entries_that_nobody_uses_go_wherever_they_are(backend, clock, where):
    state = value_state(backend)
    fill(backend, state, range(3000))
    table = backend.table("value")
    if where != "in the cache":
        table.flush()
    if where == "in RocksDB":
        table.evict(1.0)
    clock.now = TTL - 1
    fill(backend, state, range(2900, 3000))
    clean(backend)
    assert len(table) == 3000
    clock.now = 2 * TTL - 2
    clean(backend)
    assert set(table) == set(range(2900, 3000))
    assert set(table._live) <= set(table)
    clock.now = 3 * TTL
    clean(backend)
    assert (stored_entries(backend), table._live, table._dirty) == (0, {}, set())


def test_nothing_goes_unless_it_is_switched_on(backend, clock):
    state = value_state(backend, cleans=False)
    fill(backend, state, range(100))
    clock.now = 10 * TTL
    assert backend.cleanup_due() is None
    backend.clean_up()
    assert len(backend.table("value")) == 100


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["value", "list", "map"]), st.integers(0, 9), st.integers(0, 3)),
        st.tuples(st.just("clock"), st.integers(1, TTL), st.just(0)),
        st.tuples(st.sampled_from(["flush", "evict", "clean", "step"]), st.just(0), st.just(0)),
    ),
    max_size=40,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_what_has_expired_goes_and_nothing_else(tmp_path_factory, steps):
    clock = Clock()
    directory = tmp_path_factory.mktemp("state") / "db"
    backend = RocksDBKeyedStateBackend(
        "my operator", GROUPS, clock, None, str(directory), RocksDBOptions(memory=1 << 20)
    )
    descriptors: list[Any] = [
        ValueStateDescriptor("value", Types.LONG()),
        ListStateDescriptor("list", Types.LONG()),
        MapStateDescriptor("map", Types.LONG(), Types.LONG()),
    ]
    for descriptor in descriptors:
        descriptor.enable_time_to_live(config(entries=3))
    states = {descriptor.name: backend.state_of(descriptor) for descriptor in descriptors}
    last_used: dict[tuple[str, int], int] = {}
    try:
        for what, number, other in steps:
            if what in states:
                backend.current_key = number
                if what == "value":
                    states[what].update(other)
                elif what == "list":
                    states[what].add(other)
                else:
                    states[what].put(other, number)
                last_used[what, number] = clock.now
            elif what == "clock":
                clock.now += number
            elif what == "step":
                backend._cleanup._not_before = 0.0
                for rounds in backend._cleanup._rounds:
                    if rounds.due_in() <= 0:
                        rounds.step()
            elif what == "clean":
                clean(backend)
            else:
                for table in backend._tables.values():
                    table.flush() if what == "flush" else table.evict(1.0)
            unexpired = {each for each, used in last_used.items() if used + TTL > clock.now}
            there = {(name, key) for name in states for key in backend.table(name)}
            assert unexpired <= there
        clock.now += 2 * TTL
        for table in backend._tables.values():
            table.flush()
        clean(backend)
        clock.now += TTL
        clean(backend)
        assert stored_entries(backend) == 0
    finally:
        backend.close()


# --- time ---


def test_rounds_come_when_something_can_have_expired(backend, clock):
    state = value_state(backend)
    clean(backend)
    fill(backend, state, range(10))
    assert not is_due(backend), "there was nothing, so nothing can expire before its time"
    clock.now = TTL
    clean(backend)
    assert stored_entries(backend) == 0
    clock.now = TTL + 100
    fill(backend, state, range(10))
    clock.now = 2 * TTL + 50
    clean(backend)
    assert not is_due(backend)
    clock.now += TTL // 4
    assert is_due(backend), "a quarter of the time to live later"


@pytest.mark.parametrize(
    ("every", "then"), [(None, TTL // 4), (Duration.of_seconds(2), 2000), (Duration.of_millis(0), TTL // 4)]
)
def test_the_user_says_how_often(backend, clock, every, then):
    state = value_state(backend, every=every)
    fill(backend, state, range(5))
    clean(backend)
    clock.now = 1000
    fill(backend, state, range(5, 10))
    clock.now = TTL
    clean(backend)
    assert set(backend.table("value")) == set(range(5, 10))
    clock.now = TTL + then - 1
    assert not is_due(backend)
    clock.now = TTL + then
    assert is_due(backend)


def test_a_run_is_short_and_the_next_one_waits(backend, clock):
    state = value_state(backend)
    fill(backend, state, range(30_000))
    backend.table("value").evict(1.0)
    clock.now = TTL
    runs, longest = 0, 0.0
    while is_due(backend):
        backend._cleanup._not_before = 0.0
        started = time.thread_time()
        backend.clean_up()
        spent = time.thread_time() - started
        longest = max(longest, spent)
        runs += 1
        due = backend.cleanup_due()
        assert due is not None
    assert runs >= 8
    assert stored_entries(backend) == 0
    assert longest < 0.1, "a millisecond, and what one chunk of a thousand entries takes"


def test_between_two_runs_a_busy_slot_has_time_for_records(backend, clock):
    state = value_state(backend)
    fill(backend, state, range(20_000))
    backend.table("value").evict(1.0)
    clock.now = TTL
    before = time.monotonic()
    backend.touch([1])
    after = time.monotonic()
    due = backend.cleanup_due()
    assert due is not None and is_due(backend)
    assert due - after > 10 * min(after - before, 0.001), "it takes one part in 32 of the time"
    left = stored_entries(backend)
    backend.touch([1])
    assert stored_entries(backend) == left or time.monotonic() >= due


def test_an_idle_slot_cleans_up_and_then_waits(backend, clock, tmp_path):
    state = value_state(backend)
    fill(backend, state, range(5000))
    backend.table("value").evict(1.0)
    control, other = Pipe()
    spec = SlotSpec(0, "f" * 32, 0, str(tmp_path / "driver"), Credentials(b"a key"), str(tmp_path))
    process = SlotProcess(spec, control, str(tmp_path / "slot"))
    process._slot.tasks = [SimpleNamespace(keyed_states=[backend])]  # type: ignore[list-item]
    clock.now = TTL
    with process._selector, process._woken, process._waker, control, other:
        deadline = time.monotonic() + 60
        while is_due(backend):
            assert time.monotonic() < deadline
            process._wait()
        assert stored_entries(backend) == 0
        due = process._slot.cleanup_due()
        assert due is not None and due > time.monotonic() + TTL / 1000 - 5


# --- the disk ---


def test_the_files_shrink_and_checkpoints_do_not_have_what_was_removed(backend, clock, tmp_path):
    state = value_state(backend)
    fill(backend, state, range(30_000), size=200)
    before = backend.checkpoint(str(tmp_path / "chk-1"))
    backend.table("value").evict(1.0)
    full = size_on_disk(backend.database)
    assert full > 200_000
    clock.now = TTL - 1
    fill(backend, state, range(300))
    clock.now = TTL
    clean(backend)
    after = backend.checkpoint(str(tmp_path / "chk-2"))
    restored = RocksDBKeyedStateBackend("my operator", GROUPS, clock, None, str(tmp_path / "restored"))
    try:
        restored.restore([after])
        value_state(restored)
        assert set(restored.table("value")) == set(range(300))
    finally:
        restored.close()
    wait_until(lambda: size_on_disk(backend.database) < full / 10, what="that RocksDB compacts its files")
    assert {file.identity for file in before.files} != {file.identity for file in after.files}
    assert set(backend.table("value")) == set(range(300))


def test_a_number_of_entries_below_one_is_refused():
    builder = StateTtlConfig.new_builder(Time.hours(1))
    with pytest.raises(ValueError, match=r"query_time_after_num_entries must be at least 1, got 0"):
        builder.cleanup_in_rocksdb_compact_filter(0)
