"""Reading keyed state from outside, with each backend: what is seen, and that no trace is left."""

from __future__ import annotations

from typing import Any

import pytest
from tests.aggregates import Mean

from flintstream.common import Types
from flintstream.common.time import Time
from flintstream.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from flintstream.runtime.detach import set_object_reuse
from flintstream.runtime.state.backend import KeyedStateBackend
from flintstream.runtime.state.queryable import MISSING
from flintstream.runtime.windows.namespaces import NamespacedStateBackend
from flintstream.testing import OperatorHarness
from flintstream.testing.backends import ROCKSDB, make_backend

pytestmark = pytest.mark.usefixtures("state_backend")

LONG, ANY = Types.LONG(), Types.PICKLED_BYTE_ARRAY()


class Reader:
    """A backend with queryable states, whose clock the test sets."""

    def __init__(self) -> None:
        self.now = 1000
        self.backend: KeyedStateBackend = make_backend(
            OperatorHarness.default_state_backend, "op", 16, lambda: self.now
        )
        self.registered: list[str] = []
        self.backend.on_queryable = lambda state: self.registered.append(state.name)

    def state(self, descriptor: Any, key: Any) -> Any:
        """The state as a function has it, at a key."""
        if not descriptor.is_queryable():
            descriptor.set_queryable("q")
        state = self.backend.state_of(descriptor)
        self.backend.touch([key])
        self.backend.current_key = key
        return state

    def read(self, key: Any) -> Any:
        before = self.backend.current_key
        value = self.backend.queryable["q"].read(self.backend, key)
        assert self.backend.current_key is before
        return value

    def push_out(self) -> None:
        """Writes everything to the database, if there is one, and empties the caches."""
        if OperatorHarness.default_state_backend == ROCKSDB:
            for table in self.backend._tables.values():  # type: ignore[attr-defined]
                table.evict(1.0)
                assert not table._live

    def cached(self) -> list[Any]:
        tables = getattr(self.backend, "_tables", {})
        return [dict(getattr(table, "_live", {})) for table in tables.values()] + [
            set(getattr(table, "_dirty", ())) for table in tables.values()
        ]


@pytest.fixture
def reader():
    reader = Reader()
    yield reader
    reader.backend.close()


@pytest.mark.parametrize("pushed_out", [False, True])
def test_every_kind_is_read_as_its_function_sees_it(reader, pushed_out):
    expected = {}
    for name, descriptor, fill, seen in (
        ("value", ValueStateDescriptor("value", LONG), lambda state: state.update(7), 7),
        ("list", ListStateDescriptor("list", LONG), lambda state: state.add_all([1, 2]), [1, 2]),
        ("map", MapStateDescriptor("map", Types.STRING(), LONG), lambda state: state.put("a", 1), {"a": 1}),
        ("sum", ReducingStateDescriptor("sum", lambda a, b: a + b, LONG), lambda s: [s.add(1), s.add(2)], 3),
        ("mean", AggregatingStateDescriptor("mean", Mean(), ANY), lambda s: [s.add(1), s.add(2)], 1.5),
    ):
        descriptor.set_queryable(name)
        fill(reader.state(descriptor, "k"))
        expected[name] = seen
    if pushed_out:
        reader.push_out()
    before = reader.cached()
    for name, seen in expected.items():
        state = reader.backend.queryable[name]
        assert state.read(reader.backend, "k") == seen
        assert state.read(reader.backend, "another") is MISSING
    assert reader.cached() == before
    assert reader.registered == list(expected)


def test_reading_marks_no_key_as_changed(reader):
    reader.state(ValueStateDescriptor("v", ANY), "k").update([1])
    reader.backend.forget_changes()
    assert reader.read("k") == [1]
    assert not reader.backend.changed_keys()


def test_an_entry_that_was_cleared_is_unknown(reader):
    state = reader.state(ListStateDescriptor("l", LONG), "k")
    state.add(1)
    reader.push_out()
    reader.state(ListStateDescriptor("l", LONG), "k").clear()
    assert reader.read("k") is MISSING


@pytest.mark.parametrize("size", [10, 3000])
def test_large_maps_and_lists_with_changes_that_are_not_written_yet(reader, size):
    entries = reader.state(MapStateDescriptor("m", LONG, LONG), "k")
    entries.put_all({n: n for n in range(size)})
    reader.push_out()
    entries = reader.state(MapStateDescriptor("m", LONG, LONG), "k")
    entries.put(1, 100)
    entries.put(size, size)
    entries.remove(2)
    wanted = {n: n for n in range(size + 1) if n != 2} | {1: 100}
    before = reader.cached()
    assert reader.read("k") == wanted
    assert reader.cached() == before
    reader.push_out()
    assert reader.read("k") == wanted


@pytest.mark.parametrize("size", [10, 3000])
def test_large_lists_keep_their_order(reader, size):
    reader.state(ListStateDescriptor("l", LONG), "k").add_all(range(size))
    reader.push_out()
    reader.state(ListStateDescriptor("l", LONG), "k").add(-1)
    assert reader.read("k") == [*range(size), -1]
    reader.push_out()
    assert reader.read("k") == [*range(size), -1]


def with_ttl(descriptor: Any, shows: bool) -> Any:
    builder = StateTtlConfig.new_builder(Time.milliseconds(100)).update_ttl_on_read_and_write()
    if shows:
        builder.return_expired_if_not_cleaned_up()
    descriptor.enable_time_to_live(builder.disable_cleanup_in_background().build())
    return descriptor


@pytest.mark.parametrize("shows", [False, True])
def test_time_to_live_is_respected_and_not_refreshed(reader, shows):
    reader.state(with_ttl(ValueStateDescriptor("v", LONG), shows), "k").update(7)
    reader.now += 99
    assert reader.read("k") == 7
    reader.now += 1
    assert reader.read("k") == (7 if shows else MISSING)
    assert reader.read("k") == (7 if shows else MISSING), "reading must not remove it"


@pytest.mark.parametrize("shows", [False, True])
def test_elements_expire_one_by_one(reader, shows):
    elements = reader.state(with_ttl(ListStateDescriptor("l", LONG), shows), "k")
    elements.add(1)
    reader.now += 60
    elements.add(2)
    reader.now += 60
    assert reader.read("k") == ([1, 2] if shows else [2])
    reader.now += 100
    assert reader.read("k") == ([1, 2] if shows else MISSING)


def test_a_map_with_a_time_to_live(reader):
    entries = reader.state(with_ttl(MapStateDescriptor("m", LONG, LONG), False), "k")
    entries.put(1, 10)
    reader.now += 60
    entries.put(2, 20)
    reader.push_out()
    reader.now += 60
    assert reader.read("k") == {2: 20}


@pytest.mark.parametrize("reuses", [False, True])
def test_a_result_does_not_change_the_accumulator(reader, reuses):
    class Drains(Mean):
        def create_accumulator(self):
            return []

        def add(self, value, accumulator):
            return [*accumulator, value]

        def get_result(self, accumulator):
            return [accumulator.pop() for _ in range(len(accumulator))]

    reader.state(AggregatingStateDescriptor("a", Drains(), ANY), "k").add(1)
    try:
        set_object_reuse(reuses)
        assert reader.read("k") == [1]
        assert reader.read("k") == [1]
    finally:
        set_object_reuse(False)


def test_two_states_of_an_operator_with_one_name_are_refused(reader):
    reader.state(ValueStateDescriptor("v", LONG), "k")
    other = ValueStateDescriptor("other", LONG)
    other.set_queryable("q")
    with pytest.raises(ValueError, match="states 'v' and 'other' are both queryable as 'q'"):
        reader.backend.value_state(other)


def test_the_state_of_a_window_cannot_be_queried(reader):
    descriptor = ValueStateDescriptor("v", LONG)
    descriptor.set_queryable("q")
    with pytest.raises(NotImplementedError, match="state 'v' belongs to a window"):
        NamespacedStateBackend(reader.backend, "w-").value_state(descriptor)


def test_nothing_is_registered_where_queries_are_disabled(reader):
    reader.backend.on_queryable = None
    reader.state(ValueStateDescriptor("v", LONG), "k").update(1)
    assert reader.backend.queryable == {}
