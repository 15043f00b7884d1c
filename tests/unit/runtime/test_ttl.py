"""Time to live: what expires when, by a clock that the test sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintstream.common import Types
from flintstream.common.time import Time
from flintstream.datastream import state as public
from flintstream.datastream.functions import AggregateFunction, KeyedProcessFunction
from flintstream.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from flintstream.runtime.state.rocksdb import segments as rocksdb_segments
from flintstream.runtime.state.rocksdb.collections import CollectionTable
from flintstream.testing import OneInputOperatorHarness, OperatorHarness
from flintstream.testing.backends import make_backend

pytestmark = pytest.mark.usefixtures("state_backend")

TTL = 100
LONG, STRING = Types.LONG(), Types.STRING()
Settings = Callable[[Any], Any]


class Sum(AggregateFunction):
    def create_accumulator(self) -> Any:
        return [0]

    def add(self, value: Any, accumulator: Any) -> Any:
        return [accumulator[0] + value]

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return [acc_a[0] + acc_b[0]]


def config(reading: bool = False, shows: bool = False, settings: Settings | None = None) -> StateTtlConfig:
    """Without clean-up, unless the settings switch some on."""
    builder = StateTtlConfig.new_builder(Time.milliseconds(TTL)).disable_cleanup_in_background()
    if reading:
        builder.update_ttl_on_read_and_write()
    if shows:
        builder.return_expired_if_not_cleaned_up()
    return (builder if settings is None else settings(builder)).build()


def descriptor(kind: str, ttl: StateTtlConfig | None, name: str = "s", default: Any = None) -> Any:
    made: Any = {
        "value": lambda: ValueStateDescriptor(name, LONG, default),
        "list": lambda: ListStateDescriptor(name, LONG),
        "map": lambda: MapStateDescriptor(name, STRING, LONG),
        "reducing": lambda: ReducingStateDescriptor(name, lambda a, b: a + b, LONG),
        "aggregating": lambda: AggregatingStateDescriptor(name, Sum(), Types.PICKLED_BYTE_ARRAY()),
    }[kind]()
    if ttl is not None:
        made.enable_time_to_live(ttl)
    return made


class Clocked:
    """A state with a clock; the key is `a` unless set."""

    def __init__(self, kind: str, ttl: StateTtlConfig, default: Any = None) -> None:
        self.now = 0
        self.backend = make_backend(OperatorHarness.default_state_backend, "my operator", 128, lambda: self.now)
        self.descriptor = descriptor(kind, ttl, default=default)
        self.state = self.backend.state_of(self.descriptor)
        self.backend.current_key = "a"
        self.kind = kind

    def at(self, now: int, key: str = "a") -> Any:
        self.now = now
        self.backend.current_key = key
        return self.state

    @property
    def table(self) -> dict[Any, Any]:
        return self.backend.table("s")

    def write(self, number: int) -> None:
        """One more value, in the way of the state's kind."""
        if self.kind == "value":
            self.state.update(number)
        elif self.kind == "map":
            self.state.put(str(number), number)
        else:
            self.state.add(number)

    def read(self) -> Any:
        """All that can be seen; None for nothing."""
        if self.kind == "value":
            return self.state.value()
        if self.kind == "list":
            return list(self.state.get()) or None
        if self.kind == "map":
            return dict(self.state.items()) or None
        return self.state.get()


KINDS = ["value", "list", "map", "reducing", "aggregating"]
SINGLE = ["value", "reducing", "aggregating"]
ONE = {"value": 1, "list": [1], "map": {"1": 1}, "reducing": 1, "aggregating": 1}


@pytest.mark.parametrize("kind", KINDS)
class TestEveryKind:
    def test_it_is_the_public_kind_of_state(self, kind: str) -> None:
        made = Clocked(kind, config()).state
        assert isinstance(made, getattr(public, f"{kind.capitalize()}State"))

    def test_alive_until_just_before_the_end_of_its_time(self, kind: str) -> None:
        clocked = Clocked(kind, config())
        assert clocked.read() is None
        clocked.write(1)
        clocked.at(TTL - 1)
        assert clocked.read() == ONE[kind]
        clocked.at(TTL)
        assert clocked.read() is None
        assert clocked.table == {}, "what was found to be expired is removed"

    def test_reading_prolongs_it_only_if_asked(self, kind: str) -> None:
        for reading in (False, True):
            clocked = Clocked(kind, config(reading=reading))
            clocked.write(1)
            for now in range(50, 500, 50):
                clocked.at(now)
                assert clocked.read() == (ONE[kind] if reading or now < TTL else None)
            clocked.at(550)
            assert clocked.read() is None or reading
            clocked.at(700)
            assert clocked.read() is None

    def test_reading_an_expired_one_does_not_wake_it(self, kind: str) -> None:
        clocked = Clocked(kind, config(reading=True))
        clocked.write(1)
        clocked.at(TTL)
        assert clocked.read() is None
        assert clocked.read() is None

    def test_expired_ones_can_be_seen_once_if_asked(self, kind: str) -> None:
        for reading in (False, True):
            clocked = Clocked(kind, config(shows=True, reading=reading))
            clocked.write(1)
            clocked.at(10 * TTL)
            assert clocked.read() == ONE[kind]
            assert clocked.read() is None, "the first read has removed it"
            assert clocked.table == {}

    def test_writing_after_the_end_begins_anew(self, kind: str) -> None:
        # An expired element of a list may be shown for as long as there are others.
        for shows in (False,) if kind == "list" else (False, True):
            clocked = Clocked(kind, config(shows=shows))
            clocked.write(5)
            clocked.at(TTL)
            clocked.write(1)
            if kind in SINGLE:
                assert clocked.read() == 1, "an expired value does not go into a new one"
            elif not shows:
                assert clocked.read() == ONE[kind]
            clocked.at(2 * TTL - 1)
            clocked.read()
            assert clocked.read() == ONE[kind]
            clocked.at(2 * TTL)
            clocked.read()
            assert clocked.read() is None

    def test_keys_are_apart(self, kind: str) -> None:
        clocked = Clocked(kind, config())
        clocked.write(1)
        clocked.at(60, "b")
        clocked.write(1)
        clocked.at(120, "a")
        assert clocked.read() is None
        clocked.at(120, "b")
        assert clocked.read() == ONE[kind]

    def test_clear(self, kind: str) -> None:
        clocked = Clocked(kind, config(shows=True))
        clocked.state.clear()
        clocked.write(1)
        clocked.state.clear()
        assert clocked.read() is None
        assert clocked.table == {}

    def test_disabled_never_expires(self, kind: str) -> None:
        builder = StateTtlConfig.new_builder(Time.milliseconds(TTL)).set_update_type(StateTtlConfig.UpdateType.Disabled)
        clocked = Clocked(kind, builder.build())
        clocked.write(1)
        clocked.at(10**9)
        assert clocked.read() == ONE[kind]

    def test_every_call_needs_a_key(self, kind: str) -> None:
        clocked = Clocked(kind, config())
        clocked.backend.current_key = clocked.backend.no_key
        for call in (clocked.read, lambda: clocked.write(1), clocked.state.clear):
            with pytest.raises(RuntimeError, match="operator 'my operator': there is no current key"):
                call()

    def test_with_and_without_under_one_name_is_refused(self, kind: str) -> None:
        clocked = Clocked(kind, config())
        with pytest.raises(ValueError, match=r"operator 'my operator': state 's' .* once with a time-to-live and once"):
            clocked.backend.state_of(descriptor(kind, None))


class TestValue:
    def test_an_update_begins_a_new_life(self) -> None:
        clocked = Clocked("value", config())
        for now in range(0, 500, 90):
            clocked.at(now)
            clocked.write(now + 1)
        clocked.at(549)
        assert clocked.read() == 451
        clocked.at(550)
        assert clocked.read() is None

    def test_none_clears(self) -> None:
        clocked = Clocked("value", config(shows=True))
        clocked.write(1)
        clocked.state.update(None)
        assert clocked.read() is None
        assert clocked.table == {}

    def test_the_default_comes_back_and_is_not_shared(self) -> None:
        default: list[int] = []
        clocked = Clocked("value", config(), default=default)
        clocked.state.value().append(1)
        assert clocked.state.value() == []
        clocked.state.update([5])
        clocked.at(TTL)
        assert clocked.state.value() == []
        assert default == []

    @pytest.mark.parametrize("value", [0, "", False, []])
    def test_falsy_values(self, value: Any) -> None:
        clocked = Clocked("value", config(), default=7)
        clocked.state.update(value)
        assert clocked.state.value() == value

    def test_changed_in_place(self) -> None:
        clocked = Clocked("value", config())
        clocked.state.update([1])
        clocked.state.value().append(2)
        assert clocked.state.value() == [1, 2]
        clocked.at(TTL)
        assert clocked.state.value() is None, "that was no update"


class TestList:
    def test_each_element_by_its_own_time(self) -> None:
        clocked = Clocked("list", config())
        clocked.at(0).add(1)
        clocked.at(60).add_all([2, 3])
        clocked.at(80).add(4)
        assert list(clocked.at(99)) == [1, 2, 3, 4]
        assert list(clocked.at(120)) == [2, 3, 4]
        assert list(clocked.at(160)) == [4]
        assert list(clocked.at(180)) == []
        assert clocked.table == {}

    def test_update_replaces_all(self) -> None:
        clocked = Clocked("list", config())
        clocked.at(0).update([1, 2])
        clocked.at(60).update([3])
        assert list(clocked.at(120)) == [3]
        clocked.at(120).update([])
        assert clocked.table == {}
        clocked.at(120).add_all([])
        assert clocked.table == {}

    def test_those_shown_though_expired_are_no_longer_when_all_are(self) -> None:
        clocked = Clocked("list", config(shows=True))
        clocked.at(0).add(1)
        clocked.at(60).add(2)
        assert list(clocked.at(120)) == [1, 2]
        assert list(clocked.at(160)) == [1, 2]
        assert list(clocked.at(160)) == []

    def test_adding_while_reading(self) -> None:
        clocked = Clocked("list", config(reading=True))
        clocked.state.update([1, 2])
        for number in clocked.state:
            clocked.state.add(number * 10)
        assert list(clocked.state) == [1, 2, 10, 20]


class TestMap:
    def test_each_entry_by_its_own_time(self) -> None:
        clocked = Clocked("map", config())
        clocked.at(0).put_all({"x": 1, "y": 2})
        clocked.at(60)["y"] = 3
        state = clocked.at(100)
        assert state.get("x") is None
        assert not state.contains("x")
        assert "x" not in state
        assert dict(state.items()) == {"y": 3}
        assert (list(state.keys()), list(state.values()), list(state)) == (["y"], [3], ["y"])
        assert not state.is_empty()
        assert clocked.at(160).is_empty()
        assert clocked.at(160).get("y") is None
        assert clocked.table == {}

    @pytest.mark.parametrize(
        "read",
        [
            lambda state: state.get("x"),
            lambda state: state["x"],
            lambda state: state.contains("x"),
            lambda state: list(state.items()),
            lambda state: list(state.keys()),
            lambda state: list(state.values()),
        ],
    )
    def test_what_counts_as_reading(self, read: Any) -> None:
        clocked = Clocked("map", config(reading=True))
        clocked.at(0).put("x", 1)
        read(clocked.at(80))
        assert clocked.at(179).get("x") == 1

    def test_reading_one_entry_does_not_prolong_others(self) -> None:
        clocked = Clocked("map", config(reading=True))
        clocked.at(0).put_all({"x": 1, "y": 2})
        clocked.at(80).get("x")
        assert dict(clocked.at(120).items()) == {"x": 1}

    def test_is_empty_does_not_prolong(self) -> None:
        clocked = Clocked("map", config(reading=True))
        clocked.at(0).put("x", 1)
        assert not clocked.at(80).is_empty()
        assert clocked.at(110).is_empty()

    def test_remove_and_none(self) -> None:
        clocked = Clocked("map", config())
        clocked.state.put("x", None)
        assert clocked.state.contains("x")
        assert clocked.state.get("x") is None
        clocked.state.remove("unknown")
        del clocked.state["x"]
        assert clocked.table == {}


# --- clean-up ---


def stored(clocked: Clocked) -> list[Any]:
    """The keys for which something is stored; looking does not count as an access."""
    return list(clocked.table)


class TestCleanup:
    """Of the backend in memory: the other one has its own."""

    @pytest.fixture(autouse=True)
    def _in_memory(self, state_backend: str) -> None:
        if state_backend != "hashmap":
            pytest.skip("cleaning up key by key with each access is for the backend in memory, as in Flink")

    @pytest.mark.parametrize("kind", KINDS)
    def test_without_any_nothing_is_removed_unread(self, kind: str) -> None:
        clocked = Clocked(kind, config())
        for number in range(20):
            clocked.at(0, f"k{number}")
            clocked.write(1)
        for _ in range(50):
            clocked.at(1000, "other")
            clocked.write(1)
        assert len(stored(clocked)) == 21

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("chosen", [None, lambda builder: builder.cleanup_incrementally(3, False)])
    def test_each_access_looks_at_a_few_keys(self, kind: str, chosen: Settings | None) -> None:
        builder = StateTtlConfig.new_builder(Time.milliseconds(TTL))
        clocked = Clocked(kind, (builder if chosen is None else chosen(builder)).build())
        for number in range(30):
            clocked.at(0, f"k{number}")
            clocked.write(1)
        sizes = []
        for _ in range(40):
            clocked.at(1000, "other")
            clocked.write(1)
            sizes.append(len(stored(clocked)))
        assert stored(clocked) == ["other"]
        steps = [before - after for before, after in pairwise(sizes)]
        assert max(steps) <= (5 if chosen is None else 3), "never all at once"

    @pytest.mark.parametrize("kind", KINDS)
    def test_what_is_alive_stays(self, kind: str) -> None:
        clocked = Clocked(kind, config(settings=lambda builder: builder.cleanup_incrementally(4, False)))
        for number in range(10):
            clocked.at(number * 20, f"k{number}")
            clocked.write(1)
        for _ in range(20):
            clocked.at(210, "other")
            clocked.read()
        assert sorted(stored(clocked)) == ["k6", "k7", "k8", "k9"]
        for number in range(6, 10):
            clocked.at(210, f"k{number}")
            assert clocked.read() == ONE[kind]

    @pytest.mark.parametrize("kind", ["list", "map"])
    def test_parts_of_an_entry_are_removed(self, kind: str) -> None:
        clocked = Clocked(kind, config(settings=lambda builder: builder.cleanup_incrementally(4, False)))
        clocked.at(0)
        clocked.write(5)
        clocked.at(60)
        clocked.write(1)
        for _ in range(4):
            clocked.at(120, "other")
            clocked.read()
        assert len(clocked.table["a"]) == 1
        clocked.at(120)
        assert clocked.read() == ONE[kind]

    def test_cleaning_does_not_count_as_reading(self) -> None:
        clocked = Clocked(
            "value", config(reading=True, settings=lambda builder: builder.cleanup_incrementally(9, False))
        )
        clocked.at(0)
        clocked.write(1)
        for now in range(10, 200, 10):
            clocked.at(now, "other")
            clocked.read()
        assert stored(clocked) == []

    def test_an_expired_value_is_not_shown_once_it_was_cleaned_up(self) -> None:
        clocked = Clocked("value", config(shows=True, settings=lambda builder: builder.cleanup_incrementally(9, False)))
        clocked.at(0)
        clocked.write(1)
        for _ in range(3):
            clocked.at(500, "other")
            clocked.read()
        clocked.at(500)
        assert clocked.read() is None

    def test_with_every_record_also_where_the_state_is_not_used(self) -> None:
        for every_record in (False, True):
            described = descriptor(
                "value",
                config(settings=lambda builder: builder.cleanup_incrementally(2, every_record)),  # noqa: B023
            )

            class Once(KeyedProcessFunction):
                """Uses the state only for keys that begin with k."""

                def open(self, runtime_context: Any) -> None:
                    self.state = runtime_context.get_state(described)  # noqa: B023

                def process_element(self, value: Any, ctx: Any) -> None:
                    if value[0] == "k":
                        self.state.update(1)

            with OneInputOperatorHarness(Once(), lambda value: value, processing_time=0) as harness:
                harness.process_elements([f"k{number}" for number in range(10)])
                harness.set_processing_time(1000)
                for _ in range(12):
                    harness.process_element("other")
                assert len(harness.keyed_state("s")) == (0 if every_record else 10)

    def test_a_state_that_is_asked_for_often_is_cleaned_once(self) -> None:
        clocked = Clocked("value", config(settings=lambda builder: builder.cleanup_incrementally(1, True)))
        for _ in range(100):
            clocked.backend.state_of(clocked.descriptor)
        for number in range(20):
            clocked.at(0, f"k{number}")
            clocked.write(1)
        clocked.now = 1000
        before = len(stored(clocked))
        clocked.backend.touch(["other"])
        clocked.backend.touch(["other"])
        assert before - len(stored(clocked)) <= 2, "one key for each record"

    def test_apply_to_all_keys_leaves_out_what_was_cleaned_up(self) -> None:
        clocked = Clocked("value", config(settings=lambda builder: builder.cleanup_incrementally(10, False)))
        for number in range(10):
            clocked.at(0, f"k{number}")
            clocked.write(number)
        clocked.at(80, "alive")
        clocked.write(99)
        seen: dict[str, Any] = {}
        clocked.now = 120
        clocked.backend.apply_to_all_keys(clocked.descriptor, lambda key, state: seen.update({key: state.value()}))
        assert seen["alive"] == 99
        assert {key: value for key, value in seen.items() if value is not None} == {"alive": 99}
        assert len(seen) <= 4, "reading the first keys has removed the others that have expired"
        seen.clear()
        clocked.backend.apply_to_all_keys(clocked.descriptor, lambda key, state: seen.update({key: state.value()}))
        assert seen == {"alive": 99}

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("in_snapshot", [False, True])
    def test_a_snapshot_leaves_out_what_has_expired_if_asked(self, kind: str, in_snapshot: bool) -> None:
        settings_of = (lambda builder: builder.cleanup_full_snapshot()) if in_snapshot else None
        described = descriptor(kind, config(settings=settings_of))

        class Writes(KeyedProcessFunction):
            def open(self, runtime_context: Any) -> None:
                name = "get_state" if kind == "value" else f"get_{kind}_state"
                self.state = getattr(runtime_context, name)(described)

            def process_element(self, value: Any, ctx: Any) -> None:
                if kind == "value":
                    self.state.update(1)
                elif kind == "map":
                    self.state.put("x", 1)
                else:
                    self.state.add(1)

        with OneInputOperatorHarness(Writes(), lambda value: value, processing_time=0) as harness:
            harness.process_element("old")
            harness.set_processing_time(60)
            harness.process_element("new")
            harness.set_processing_time(120)
            stored_now = harness.keyed_state("s")
            taken = harness.snapshot()
            assert harness.keyed_state("s") == stored_now, "a snapshot changes nothing"
        again = OneInputOperatorHarness(Writes(), lambda value: value, processing_time=120)
        again.restore(taken)
        with again:
            assert sorted(again.keyed_state("s")) == (["new"] if in_snapshot else ["new", "old"])
            assert again.keyed_state("s")["new"] == stored_now["new"], "with its time"


# --- against a slow reference ---

numbers = st.integers(1, 5)
names = st.sampled_from("xyz")
CALLS: dict[str, Any] = {
    "value": st.one_of(st.tuples(st.just("update"), numbers | st.none()), st.tuples(st.just("value"))),
    "list": st.one_of(
        st.tuples(st.just("add"), numbers),
        st.tuples(st.sampled_from(["add_all", "update"]), st.lists(numbers, max_size=3)),
        st.tuples(st.just("get")),
    ),
    "map": st.one_of(
        st.tuples(st.just("put"), names, numbers),
        st.tuples(st.just("put_all"), st.dictionaries(names, numbers, max_size=2)),
        st.tuples(st.sampled_from(["get", "contains", "remove"]), names),
        st.tuples(st.sampled_from(["items", "keys", "values", "is_empty"])),
    ),
    "reducing": st.one_of(st.tuples(st.just("add"), numbers), st.tuples(st.just("get"))),
    "aggregating": st.one_of(st.tuples(st.just("add"), numbers), st.tuples(st.just("get"))),
}


class Reference:
    """Elements of one key, each with the time of its last use, in lists that are filtered at every call."""

    def __init__(self, kind: str, reading: bool) -> None:
        self.kind = kind
        self.reading = reading
        self.elements: list[tuple[Any, Any, int]] = []
        """Map key (None on other kinds), value, last use."""

    def call(self, now: int, method: str, *arguments: Any) -> Any:
        self.elements = [each for each in self.elements if now - each[2] < TTL]
        if method == "clear":
            self.elements = []
            return None
        return getattr(self, f"_{self.kind}")(now, method, *arguments)

    def _seen(self, now: int, wanted: Callable[[Any], bool] = lambda key: True) -> Iterator[Any]:
        for index, (key, value, _) in enumerate(self.elements):
            if wanted(key):
                if self.reading:
                    self.elements[index] = (key, value, now)
                yield key, value

    def _value(self, now: int, method: str, *arguments: Any) -> Any:
        if method == "value":
            return next((value for _, value in list(self._seen(now))), None)
        self.elements = [] if arguments[0] is None else [(None, arguments[0], now)]
        return None

    def _list(self, now: int, method: str, *arguments: Any) -> Any:
        if method == "get":
            return [value for _, value in list(self._seen(now))]
        added = [arguments[0]] if method == "add" else arguments[0]
        if method == "update":
            self.elements = []
        self.elements += [(None, value, now) for value in added]
        return None

    def _map(self, now: int, method: str, *arguments: Any) -> Any:
        if method in ("put", "put_all"):
            added = dict([arguments]) if method == "put" else arguments[0]
            known = {key: index for index, (key, _, _) in enumerate(self.elements)}
            for key, value in added.items():
                if key in known:
                    self.elements[known[key]] = (key, value, now)
                else:
                    self.elements.append((key, value, now))
            return None
        if method == "remove":
            self.elements = [each for each in self.elements if each[0] != arguments[0]]
            return None
        if method == "is_empty":
            return not self.elements
        if method in ("get", "contains"):
            found = dict(self._seen(now, lambda key: key == arguments[0]))
            return found.get(arguments[0]) if method == "get" else arguments[0] in found
        found = dict(list(self._seen(now)))
        return {"items": dict(found), "keys": set(found), "values": sorted(found.values())}[method]

    def _reducing(self, now: int, method: str, *arguments: Any) -> Any:
        if method == "get":
            return next((value for _, value in list(self._seen(now))), None)
        before = sum(value for _, value, _ in self.elements)
        self.elements = [(None, before + arguments[0], now)]
        return None

    _aggregating = _reducing


def comparable(kind: str, method: str, result: Any) -> Any:
    if kind == "list" and method == "get":
        return list(result)
    if kind == "map":
        shapes: dict[str, Any] = {"items": dict, "keys": set, "values": sorted}
        return shapes[method](result) if method in shapes else result
    return result


@pytest.mark.parametrize("cleanup", [False, True], ids=["no clean-up", "clean-up"])
@pytest.mark.parametrize("reading", [False, True], ids=["written", "read"])
@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=40)
def test_any_calls_at_any_times(kind: str, reading: bool, cleanup: bool, data: st.DataObject) -> None:
    cleaning = (lambda builder: builder.cleanup_incrementally(1, True)) if cleanup else None
    clocked = Clocked(kind, config(reading=reading, settings=cleaning))
    references = {key: Reference(kind, reading) for key in "ab"}
    steps = st.tuples(st.sampled_from([0, 1, 30, 60, 99, 100, 101]), st.sampled_from("ab"), CALLS[kind])
    now = 0
    for passed, key, (method, *arguments) in data.draw(st.lists(steps, max_size=25)):
        now += passed
        clocked.backend.touch([key])
        result = getattr(clocked.at(now, key), method)(*arguments)
        expected = references[key].call(now, method, *arguments)
        assert comparable(kind, method, result) == expected
    for key, reference in references.items():
        reference.call(now, "clear") if data.draw(st.booleans()) else None
        if not reference.elements:
            clocked.at(now, key).clear()
        clocked.at(now, key)
        assert bool(clocked.read()) == bool([each for each in reference.elements if now - each[2] < TTL])


timed_calls = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "get", "remove", "items", "keys", "is_empty", "clear", "wait", "evict"]),
        st.sampled_from(["x", "y", "z"]),
        st.integers(1, 60),
    ),
    max_size=30,
)


@pytest.mark.parametrize("shows", [False, True])
@pytest.mark.parametrize("reading", [False, True])
@settings(max_examples=40)
@given(calls=timed_calls)
def test_a_large_map_expires_as_a_small_one_does(reading: bool, shows: bool, calls: list[tuple[str, str, int]]) -> None:
    small, large = (Clocked("map", config(reading, shows)) for _ in range(2))
    table = large.backend.table("s")
    if isinstance(table, CollectionTable):
        table.most_entries = table.most_bytes = 0
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_CHUNK", "_FEW"):
            patch.setattr(rocksdb_segments, name, 1)
        for call, key, number in calls:
            results = []
            for clocked in (small, large):
                state, table = clocked.state, clocked.backend.table("s")
                if call == "put":
                    results.append(state.put(key, number))
                elif call in ("get", "remove"):
                    results.append(getattr(state, call)(key))
                elif call in ("items", "keys"):
                    results.append(sorted(getattr(state, call)()))
                elif call in ("is_empty", "clear"):
                    results.append(getattr(state, call)())
                elif call == "wait":
                    clocked.now += number
                elif isinstance(table, CollectionTable):
                    table.evict(1.0)
            assert results[:1] == results[1:]
        assert dict(small.backend.table("s").items()) == dict(large.backend.table("s").items())
    small.backend.close()
    large.backend.close()


def test_through_a_function() -> None:
    class Last(KeyedProcessFunction):
        def open(self, runtime_context: Any) -> None:
            self.state = runtime_context.get_state(descriptor("value", config()))

        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            yield value, self.state.value()
            self.state.update(value)

    with OneInputOperatorHarness(Last(), lambda value: value[0], processing_time=0) as harness:
        harness.process_elements(["a1", "b1"])
        harness.set_processing_time(60)
        harness.process_elements(["a2"])
        harness.set_processing_time(130)
        harness.process_elements(["a3", "b3"])
        assert harness.output == [("a1", None), ("b1", None), ("a2", "a1"), ("a3", "a2"), ("b3", None)]
