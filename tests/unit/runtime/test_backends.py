"""Both state backends against plain Python objects: any calls, over blocks, evictions, snapshots and restores."""

from __future__ import annotations

import copy
import random
import tempfile
from collections import namedtuple
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.aggregates import Mean

from flintstream.common import Row, Types
from flintstream.common.keys import key_group
from flintstream.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from flintstream.runtime.checkpoint.snapshot import restore_snapshots, take_snapshot
from flintstream.runtime.state.backend import KeyedStateBackend
from flintstream.runtime.state.operator_state import OperatorStateBackend
from flintstream.runtime.state.rocksdb import segments as rocksdb_segments
from flintstream.runtime.state.rocksdb.backend import RocksDBKeyedStateBackend
from flintstream.runtime.state.rocksdb.collections import CollectionTable
from flintstream.runtime.state.rocksdb.options import RocksDBOptions
from flintstream.testing.backends import HASHMAP, ROCKSDB, make_backend

pytestmark = pytest.mark.usefixtures("state_backend")

GROUPS = 16
KEYS = [0, 1, -7, 1 << 70, "", "a", "b", ("a", 1), (1, ("x",)), 2.5, b"bytes"]


DESCRIPTORS: list[Any] = [
    ValueStateDescriptor("value", Types.LONG()),
    ValueStateDescriptor("object", Types.PICKLED_BYTE_ARRAY()),
    ListStateDescriptor("list", Types.LONG()),
    MapStateDescriptor("map", Types.STRING(), Types.LONG()),
    ReducingStateDescriptor("reducing", lambda a, b: a + b, Types.LONG()),
    AggregatingStateDescriptor("mean", Mean(), Types.PICKLED_BYTE_ARRAY()),
]


class Plain:
    """All states of a key as a person would write them."""

    def __init__(self) -> None:
        self.value: Any = None
        self.object: Any = None
        self.list: list[int] = []
        self.map: dict[str, int] = {}
        self.reducing: Any = None
        self.mean: list[int] = []

    def seen(self) -> list[Any]:
        mean = sum(self.mean) / len(self.mean) if self.mean else None
        return [self.value, self.object, self.list, self.map, self.reducing, mean]

    def do(self, call: str, number: int) -> None:
        if call == "set":
            self.value, self.object = number, [number]
        elif call == "change in place":
            if self.object is not None:
                self.object.append(number)
        elif call == "add":
            self.list = [*self.list, number]
            self.map = {**self.map, str(number): number}
            self.reducing = number + (self.reducing or 0)
            self.mean = [*self.mean, number]
        elif call == "remove from map":
            self.map = {name: each for name, each in self.map.items() if name != str(number)}
        else:
            self.__init__()  # type: ignore[misc]


class Stored:
    """All states of a backend."""

    def __init__(self, backend: KeyedStateBackend) -> None:
        self.backend = backend
        self.states = {each.name: backend.state_of(each) for each in DESCRIPTORS}

    def at(self, key: Any) -> dict[str, Any]:
        self.backend.current_key = key
        return self.states

    def seen(self, key: Any) -> list[Any]:
        states = self.at(key)
        return [
            states["value"].value(),
            copy.copy(states["object"].value()),
            list(states["list"]),
            dict(states["map"].items()),
            states["reducing"].get(),
            states["mean"].get(),
        ]

    def do(self, key: Any, call: str, number: int) -> None:
        states = self.at(key)
        if call == "set":
            states["value"].update(number)
            states["object"].update([number])
        elif call == "change in place":
            found = states["object"].value()
            if found is not None:
                found.append(number)
        elif call == "add":
            states["list"].add(number)
            states["map"].put(str(number), number)
            states["reducing"].add(number)
            states["mean"].add(number)
        elif call == "remove from map":
            states["map"].remove(str(number))
        else:
            for state in states.values():
                state.clear()


calls = st.tuples(
    st.sampled_from(KEYS),
    st.sampled_from(["set", "change in place", "add", "remove from map", "clear", "read"]),
    st.integers(-3, 3),
)
blocks = st.lists(
    st.tuples(
        st.sampled_from(["touched", "touched behind", "evicted", "evicted", "restored", "other backend", "checkpoint"]),
        st.lists(calls, max_size=12),
    ),
    max_size=6,
)


@contextmanager
def sizes(tiny: bool) -> Iterator[None]:
    """With tiny sizes, RocksDB stores maps and lists in segments from two entries on, with the smallest caches."""
    with pytest.MonkeyPatch.context() as patch:
        if tiny:
            patch.setattr(CollectionTable, "most_entries", 1)
            patch.setattr(CollectionTable, "most_bytes", 0)
            for name in ("_CHUNK", "_ELEMENTS", "_FEW"):
                patch.setattr(rocksdb_segments, name, 2)
            patch.setattr(rocksdb_segments, "_CHECK_EVERY", 1)
        yield


@settings(max_examples=60)
@given(blocks, st.booleans())
def test_any_blocks_of_calls_equal_those_on_plain_objects(
    state_backend: str, blocks: list[tuple[str, list[tuple[Any, str, int]]]], tiny: bool
) -> None:
    with sizes(tiny):
        check_blocks(state_backend, blocks)


def check_blocks(state_backend: str, blocks: list[tuple[str, list[tuple[Any, str, int]]]]) -> None:
    stored = Stored(make_backend(state_backend, "my operator", GROUPS, lambda: 0))
    plain = {key: Plain() for key in KEYS}
    for before, block in blocks:
        stored = border(stored, before, state_backend)
        keys = [key for key, _, _ in block]
        if before != "touched behind":
            stored.backend.touch(keys)
        for key, call, number in block:
            if call != "read":
                stored.do(key, call, number)
                plain[key].do(call, number)
            assert stored.seen(key) == plain[key].seen()
        if before == "touched behind":
            stored.backend.touch(keys)
    check_all(stored, plain)
    stored.backend.close()


def border(stored: Stored, kind: str, state_backend: str) -> Stored:
    """What happens between two blocks."""
    backend = stored.backend
    if kind == "evicted" and isinstance(backend, RocksDBKeyedStateBackend):
        for table in backend._tables.values():
            table.evict(1.0, set())
    if kind == "checkpoint" and isinstance(backend, RocksDBKeyedStateBackend):
        return Stored(through_checkpoint(backend))
    if kind in ("restored", "other backend"):
        other = ROCKSDB if state_backend == HASHMAP else HASHMAP
        made = restored_from([backend], state_backend if kind == "restored" else other)
        backend.close()
        return Stored(made)
    return stored


def through_checkpoint(backend: RocksDBKeyedStateBackend) -> KeyedStateBackend:
    with tempfile.TemporaryDirectory() as directory:
        checkpoint = backend.checkpoint(str(Path(directory) / "chk-1"))
        backend.close()
        made = make_backend(ROCKSDB, "my operator", GROUPS, lambda: 0)
        assert isinstance(made, RocksDBKeyedStateBackend)
        made.restore([checkpoint])
    return made


def restored_from(backends: list[KeyedStateBackend], kind: str, key_groups: range | None = None) -> KeyedStateBackend:
    """A backend with what others hold, through snapshots."""
    taken = [take_snapshot(each, OperatorStateBackend("my operator"), ([], [])) for each in backends]
    made = make_backend(kind, "my operator", GROUPS, lambda: 0, key_groups)
    restore_snapshots([[each] for each in taken], made, OperatorStateBackend("my operator"), 0, 1)
    return made


def check_all(stored: Stored, plain: dict[Any, Plain]) -> None:
    for key, expected in plain.items():
        assert stored.seen(key) == expected.seen()
    with_value = {key for key, each in plain.items() if each.value is not None}
    backend = stored.backend
    assert set(backend.keys("value")) == with_value
    assert dict(backend.table("value")) == dict(backend.table("value").items())
    assert len(backend.table("value")) == len(with_value)
    by_group = backend.by_key_group("value")
    assert {key for entries in by_group.values() for key in entries} == with_value
    assert all(key_group(key, GROUPS) == group for group, entries in by_group.items() for key in entries)
    assert {group: content["value"] for group, content in backend.groups() if "value" in content} == by_group
    applied: list[Any] = []
    backend.apply_to_all_keys(DESCRIPTORS[0], lambda key, state: applied.append((key, state.value())))
    assert dict(applied) == {key: plain[key].value for key in with_value}
    assert len(applied) == len(with_value)


# --- maps ---

MAP = MapStateDescriptor("entries", Types.PICKLED_BYTE_ARRAY(), Types.PICKLED_BYTE_ARRAY())
MAP_KEYS = [None, 0, 1, True, 1.5, "", "a", "b", ("a", 1), date(2024, 1, 2)]
map_calls = st.tuples(
    st.sampled_from(
        [
            "put",
            "put",
            "put list",
            "put all",
            "change in place",
            "change all in place",
            "remove",
            "remove each",
            "change while iterating",
            "evict",
            "clear",
        ]
    ),
    st.sampled_from(["first", "second"]),
    st.sampled_from(MAP_KEYS),
    st.integers(0, 9),
)
map_blocks = st.lists(
    st.tuples(
        st.sampled_from(["touched", "evicted", "restored", "other backend", "checkpoint"]),
        st.lists(map_calls, max_size=15),
    ),
    max_size=5,
)


@settings(max_examples=150)
@given(map_blocks, st.booleans())
def test_any_calls_on_a_map_equal_those_on_a_dict(
    state_backend: str, blocks: list[tuple[str, list[tuple[str, str, Any, int]]]], tiny: bool
) -> None:
    with sizes(tiny):
        stored = Stored(make_backend(state_backend, "my operator", GROUPS, lambda: 0))
        dicts: dict[str, dict[Any, Any]] = {"first": {}, "second": {}}
        for before, block in blocks:
            stored = border(stored, before, state_backend)
            backend = stored.backend
            state = backend.map_state(MAP)
            backend.touch([owner for _, owner, _, _ in block])
            for call, owner, key, number in block:
                backend.current_key = owner
                call_both(backend, state, dicts[owner], call, key, number)
                check_map(state, dicts[owner])
                assert len(backend.table("entries").get(owner, ())) == len(dicts[owner])
            filled = {owner for owner, entries in dicts.items() if entries}
            assert sorted(backend.keys("entries")) == sorted(filled)
            assert dict(backend.table("entries").items()) == {owner: dicts[owner] for owner in filled}
        stored.backend.close()


def call_both(
    backend: KeyedStateBackend, state: Any, expected: dict[Any, Any], call: str, key: Any, number: int
) -> None:
    if call in ("put", "put list"):
        put: Any = number if call == "put" else [number]
        state.put(key, put)
        expected[key] = copy.copy(put)
    elif call == "put all":
        state.put_all(dict.fromkeys(MAP_KEYS[number:], number))
        expected.update(dict.fromkeys(MAP_KEYS[number:], number))
    elif call == "change in place":
        found = state.get(key)
        list(state.items())
        for value in (found, expected.get(key)):
            if isinstance(value, list):
                value.append(number)
    elif call == "change all in place":
        for entries in (state, expected):
            for value in entries.values():
                if isinstance(value, list):
                    value.append(number)
    elif call == "remove":
        state.remove(key)
        expected.pop(key, None)
    elif call == "remove each":
        for each in state:
            state.remove(each)
        expected.clear()
    elif call == "change while iterating":
        change_while_iterating(state, expected, key, number)
    elif call == "evict" and isinstance(backend, RocksDBKeyedStateBackend):
        backend.table("entries").trim(0.5)
    elif call == "clear":
        state.clear()
        expected.clear()


def change_while_iterating(state: Any, expected: dict[Any, Any], key: Any, number: int) -> None:
    """What an iteration gives is the map as it was when that began."""
    before = copy.deepcopy(expected)
    found, keys, values = state.items(), state.keys(), state.values()
    seen: dict[Any, Any] = {}
    for count, (each, value) in enumerate(found):
        seen[each] = copy.copy(value)
        if count == 0:
            state.put(key, number)
            expected[key] = number
            for ahead in MAP_KEYS[number:]:
                state.remove(ahead)
                expected.pop(ahead, None)
    assert seen == before
    assert set(keys) == set(before)
    assert sorted(map(repr, values)) == sorted(map(repr, before.values()))


@pytest.mark.parametrize("tiny", [False, True])
def test_values_of_a_map_may_be_changed_in_place(state_backend: str, tiny: bool) -> None:
    with sizes(tiny):
        stored = Stored(make_backend(state_backend, "my operator", GROUPS, lambda: 0))
        state = stored.backend.map_state(MAP)
        stored.backend.current_key = "a"
        for number in range(8):
            state.put(number, [number])
        border(stored, "evicted", state_backend)
        seen = {}
        for key, value in state.items():
            seen[key] = list(value)
            if len(seen) == 1:
                state.remove(5)
                state.put(6, ["new"])
            value.append("changed")
        border(stored, "evicted", state_backend)
        held = state.get(7)
        assert len(list(state.keys())) == 7
        held.append("held")
        border(stored, "evicted", state_backend)
        assert seen == {number: [number] for number in range(8)}
        expected: dict[int, list[Any]] = {number: [number, "changed"] for number in range(8)}
        del expected[5]
        expected[6] = ["new"]
        expected[7].append("held")
        assert dict(state.items()) == expected
        stored.backend.close()


def check_map(state: Any, expected: dict[Any, Any]) -> None:
    assert dict(state.items()) == expected
    assert len(state.keys()) == len(expected)
    assert set(state.keys()) == set(state) == set(expected)
    assert sorted(map(repr, state.values())) == sorted(map(repr, expected.values()))
    assert state.is_empty() == (not expected)
    for key in MAP_KEYS:
        assert state.contains(key) == (key in expected)
        assert state.get(key) == expected.get(key)


# --- keys ---


class Colour(Enum):
    RED = 1


@dataclass(frozen=True)
class Place:
    name: str


Named = namedtuple("Named", ["x"])
ODD_KEYS = [
    True,
    1.5,
    Decimal("2.5"),
    Named(1),
    Place("here"),
    Colour.RED,
    date(2024, 1, 2),
    Row(1, "x"),
    (Place("a"),),
]


@pytest.mark.parametrize("key", ODD_KEYS, ids=repr)
def test_a_key_of_any_type_comes_back_as_it_was(key: Any, state_backend: str) -> None:
    backend = make_backend(state_backend, "my operator", GROUPS, lambda: 0)
    state = backend.value_state(DESCRIPTORS[0])
    backend.touch([key])
    backend.current_key = key
    state.update(5)
    (found,) = backend.keys("value")
    assert found == key
    assert type(found) is type(key)
    made = restored_from([backend], state_backend)
    assert made.table("value") == {key: 5}


def test_equal_keys_share_their_state(state_backend: str) -> None:
    backend = make_backend(state_backend, "my operator", GROUPS, lambda: 0)
    state = backend.value_state(DESCRIPTORS[0])
    for number, key in enumerate([1, 1.0, True, Decimal(1)]):
        backend.touch([key])
        backend.current_key = key
        assert state.value() == (number or None)
        state.update(number + 1)
        if isinstance(backend, RocksDBKeyedStateBackend):
            backend.table("value").evict(1.0, set())


# --- many keys ---


@pytest.fixture
def small(tmp_path: Path) -> Iterator[RocksDBKeyedStateBackend]:
    """A RocksDB backend with room for a few thousand entries in its cache."""
    options = RocksDBOptions(memory=1 << 20)
    backend = RocksDBKeyedStateBackend("my operator", 128, lambda: 0, None, str(tmp_path / "db"), options)
    yield backend
    backend.close()


def test_many_more_keys_than_fit_into_the_cache(small: RocksDBKeyedStateBackend) -> None:
    count, seen = (small.state_of(DESCRIPTORS[index]) for index in (0, 2))
    expected: dict[int, list[int]] = {}
    chosen = random.Random(7)
    for block in range(60):
        keys = [chosen.randrange(30_000) for _ in range(1000)]
        small.touch(keys)
        for key in keys:
            small.current_key = key
            count.update((count.value() or 0) + 1)
            seen.add(block)
            expected.setdefault(key, []).append(block)
        assert sum(table.size for table in small._tables.values()) < 2 << 20
    assert dict(small.table("list").items()) == expected
    assert dict(small.table("value").items()) == {key: len(blocks) for key, blocks in expected.items()}


def test_a_table_that_is_not_used_is_not_fetched(small: RocksDBKeyedStateBackend) -> None:
    used, unused = (small.state_of(DESCRIPTORS[index]) for index in (0, 2))
    for key in range(20_000):
        small.current_key = key
        used.update(key)
        unused.add(key)
    small.table("value").flush()
    small.table("list").flush()
    small.table("value").evict(1.0, set())
    small.table("list").evict(1.0, set())
    for start in range(0, 20_000, 2000):
        keys = list(range(start, start + 2000))
        small.touch(keys)
        for key in keys:
            small.current_key = key
            assert used.value() == key
    assert len(small.table("list")._live) < 2100, "of one block, until it was seen that nobody reads it"
    keys = list(range(2000))
    for _ in range(3):
        small.touch(keys)
        for key in keys:
            small.current_key = key
            assert list(unused) == [key]
    assert small.table("list")._wanted


def test_entries_that_grow_in_place_count_as_what_they_are(small: RocksDBKeyedStateBackend) -> None:
    seen = small.state_of(DESCRIPTORS[2])
    for _ in range(20):
        for start in range(0, 200, 10):
            keys = list(range(start, start + 10))
            small.touch(keys)
            for key in keys:
                small.current_key = key
                seen.add_all(range(1000, 1100))
    table = small.table("list")
    assert len(table._live) < 100, "2,000 numbers for each of 200 keys are far more than half a megabyte"
    assert dict(table.items()) == {key: list(range(1000, 1100)) * 20 for key in range(200)}
