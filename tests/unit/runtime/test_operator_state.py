"""State that has no key: lists, union lists, broadcast maps; who is called when; how it is dealt out anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.common import Types
from flintstream.datastream import state as public
from flintstream.datastream.functions import (
    CheckpointedFunction,
    CheckpointListener,
    CoMapFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    ListCheckpointed,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
    SinkFunction,
)
from flintstream.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from flintstream.runtime.checkpoint.rescaling import redistribute
from flintstream.runtime.state.operator_state import (
    BROADCAST,
    SPLIT,
    UNION,
    OperatorStateBackend,
    OperatorStateSnapshot,
)
from flintstream.testing import OneInputOperatorHarness, TwoInputOperatorHarness, UserCodeError

LONG, STRING = Types.LONG(), Types.STRING()
LIST = ListStateDescriptor("list", LONG)
UNION_LIST = ListStateDescriptor("union", LONG)
MAP = MapStateDescriptor("map", STRING, LONG)


class TestBackend:
    def test_a_list(self) -> None:
        state = OperatorStateBackend("op").get_list_state(LIST)
        assert isinstance(state, public.ListState)
        assert list(state) == []
        state.add(1)
        state.add_all([2, 3])
        assert list(state.get()) == [1, 2, 3]
        state.update(iter([5]))
        assert list(state) == [5]
        state.clear()
        assert list(state) == []

    def test_adding_while_reading_ends(self) -> None:
        state = OperatorStateBackend("op").get_list_state(LIST)
        state.update([1, 2])
        for number in state:
            state.add(number)
        state.add_all(state)
        assert list(state) == [1, 2, 1, 2] * 2

    def test_what_was_given_is_not_the_state(self) -> None:
        state = OperatorStateBackend("op").get_list_state(LIST)
        given_list = [1]
        state.update(given_list)
        given_list.append(2)
        assert list(state) == [1]

    def test_the_same_name_is_the_same_state(self) -> None:
        backend = OperatorStateBackend("op")
        backend.get_list_state(LIST).add(1)
        backend.get_union_list_state(UNION_LIST).add(2)
        backend.get_broadcast_state(MAP).put("a", 3)
        assert list(backend.get_list_state(ListStateDescriptor("list", LONG))) == [1]
        assert list(backend.get_union_list_state(UNION_LIST)) == [2]
        assert dict(backend.get_broadcast_state(MAP).items()) == {"a": 3}
        assert isinstance(backend.get_broadcast_state(MAP), public.BroadcastState)
        assert isinstance(backend, public.OperatorStateStore)
        assert backend.get_registered_state_names() == {"list", "union"}
        assert backend.get_registered_broadcast_state_names() == {"map"}

    def test_one_name_for_two_kinds_is_refused(self) -> None:
        asks: dict[str, Callable[[OperatorStateBackend], Any]] = {
            SPLIT: lambda backend: backend.get_list_state(ListStateDescriptor("s", LONG)),
            UNION: lambda backend: backend.get_union_list_state(ListStateDescriptor("s", LONG)),
            BROADCAST: lambda backend: backend.get_broadcast_state(MapStateDescriptor("s", STRING, LONG)),
        }
        for known, ask in asks.items():
            for other, ask_other in asks.items():
                if known != other:
                    backend = OperatorStateBackend("my op")
                    ask(backend)
                    message = f"operator 'my op': state 's' is already {known} state, and cannot be {other} state"
                    with pytest.raises(ValueError, match=message):
                        ask_other(backend)

    def test_a_restored_state_asked_for_as_another_kind(self) -> None:
        backend = OperatorStateBackend("my op")
        backend.restore(OperatorStateSnapshot({"s": (UNION, None, [1])}))
        with pytest.raises(ValueError, match="state 's' was stored as a union state, and is requested as a split"):
            backend.get_list_state(ListStateDescriptor("s", LONG))


def filled() -> OperatorStateBackend:
    backend = OperatorStateBackend("op")
    backend.get_list_state(LIST).update([1, 2])
    backend.get_union_list_state(UNION_LIST).update([3])
    backend.get_broadcast_state(MAP).put("a", 4)
    return backend


class TestSnapshots:
    def test_back_as_it_was(self) -> None:
        backend = OperatorStateBackend("op")
        assert not backend.is_restored
        backend.restore(filled().snapshot())
        assert backend.is_restored
        assert list(backend.get_list_state(LIST)) == [1, 2]
        assert list(backend.get_union_list_state(UNION_LIST)) == [3]
        assert dict(backend.get_broadcast_state(MAP).items()) == {"a": 4}

    def test_later_changes_are_not_in_it(self) -> None:
        backend = filled()
        taken = backend.snapshot()
        backend.get_list_state(LIST).add(9)
        backend.get_union_list_state(UNION_LIST).clear()
        backend.get_broadcast_state(MAP).put("b", 9)
        assert {name: content for name, (_, _, content) in taken.states.items()} == {
            "list": [1, 2],
            "union": [3],
            "map": {"a": 4},
        }
        assert {name: mode for name, (mode, _, _) in taken.states.items()} == {
            "list": SPLIT,
            "union": UNION,
            "map": BROADCAST,
        }

    def test_changes_after_a_restore_are_not_in_what_was_restored(self) -> None:
        taken = filled().snapshot()
        backend = OperatorStateBackend("op")
        backend.restore(taken)
        backend.get_list_state(LIST).add(9)
        backend.get_broadcast_state(MAP).put("b", 9)
        assert taken.states["list"][2] == [1, 2]
        assert taken.states["map"][2] == {"a": 4}

    def test_what_nobody_asks_for_is_kept(self) -> None:
        backend = OperatorStateBackend("op")
        backend.restore(filled().snapshot())
        backend.get_list_state(LIST).update([7])
        again = OperatorStateBackend("op")
        again.restore(backend.snapshot())
        assert list(again.get_list_state(LIST)) == [7]
        assert list(again.get_union_list_state(UNION_LIST)) == [3]
        assert dict(again.get_broadcast_state(MAP).items()) == {"a": 4}

    def test_an_emptied_state_stays_empty(self) -> None:
        backend = OperatorStateBackend("op")
        backend.restore(filled().snapshot())
        backend.get_list_state(LIST).clear()
        backend.get_broadcast_state(MAP).clear()
        again = OperatorStateBackend("op")
        again.restore(backend.snapshot())
        assert list(again.get_list_state(LIST)) == []
        assert again.get_broadcast_state(MAP).is_empty()


lists = st.lists(st.lists(st.integers(), max_size=9), min_size=1, max_size=5)


def split(contents: list[list[int]], mode: str = SPLIT) -> list[OperatorStateSnapshot]:
    return [OperatorStateSnapshot({"s": (mode, None, content)}) for content in contents]


class TestRedistribute:
    @given(lists, st.integers(1, 7))
    def test_split_lists(self, contents: list[list[int]], parallelism: int) -> None:
        dealt = [snapshot.states["s"] for snapshot in redistribute(split(contents), parallelism)]
        shares = [content for _, _, content in dealt]
        assert len(shares) == parallelism
        assert {mode for mode, _, _ in dealt} == {SPLIT}
        assert [x for share in shares for x in share] == [x for content in contents for x in content], (
            "nothing is lost, nothing doubled, and the order is kept"
        )
        sizes = [len(share) for share in shares]
        assert max(sizes) - min(sizes) <= 1, "even"

    @given(lists, st.integers(1, 7), st.integers(1, 7))
    def test_over_and_back(self, contents: list[list[int]], one: int, other: int) -> None:
        through = redistribute(redistribute(split(contents), one), other)
        assert through == redistribute(split(contents), other)

    @given(lists, st.integers(1, 7))
    def test_union_lists_go_to_everyone(self, contents: list[list[int]], parallelism: int) -> None:
        dealt = redistribute(split(contents, UNION), parallelism)
        everything = [x for content in contents for x in content]
        assert [snapshot.states["s"] for snapshot in dealt] == [(UNION, None, everything)] * parallelism

    @given(st.dictionaries(st.text(max_size=2), st.integers()), st.integers(1, 4), st.integers(1, 7))
    def test_broadcast_state_goes_to_everyone(self, content: dict[str, int], before: int, parallelism: int) -> None:
        snapshots = [OperatorStateSnapshot({"s": (BROADCAST, None, dict(content))}) for _ in range(before)]
        dealt = redistribute(snapshots, parallelism)
        assert [snapshot.states["s"] for snapshot in dealt] == [(BROADCAST, None, content)] * parallelism

    def test_a_state_that_only_some_subtasks_have(self) -> None:
        snapshots = [
            OperatorStateSnapshot(),
            *split([[1, 2, 3]]),
            OperatorStateSnapshot({"map": (BROADCAST, None, {1: 2})}),
        ]
        dealt = redistribute(snapshots, 2)
        assert [snapshot.states["s"][2] for snapshot in dealt] == [[1, 2], [3]]
        assert [snapshot.states["map"][2] for snapshot in dealt] == [{1: 2}, {1: 2}]

    def test_nothing(self) -> None:
        assert redistribute([], 2) == [OperatorStateSnapshot(), OperatorStateSnapshot()]
        assert redistribute([OperatorStateSnapshot()], 1) == [OperatorStateSnapshot()]

    def test_the_subtasks_do_not_share_their_lists(self) -> None:
        backends = [OperatorStateBackend("op") for _ in range(2)]
        for backend, share in zip(backends, redistribute(split([[1], [2]], UNION), 2), strict=True):
            backend.restore(share)
            backend.get_union_list_state(ListStateDescriptor("s", LONG)).add(3)
        assert [list(each.get_union_list_state(ListStateDescriptor("s", LONG))) for each in backends] == [[1, 2, 3]] * 2


# --- functions ---


class Remembers(CheckpointedFunction):
    """Notes every call; keeps the values that it has seen."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.seen: list[int] = []

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.state = store.get_list_state(LIST)
        self.union = store.get_union_list_state(UNION_LIST)
        self.map_state = store.get_broadcast_state(MAP)
        self.seen = list(self.state)
        self.calls.append(("initialize", context.is_restored(), self.seen[:], list(self.union)))

    def open(self, runtime_context: Any) -> None:
        self.calls.append("open")

    def close(self) -> None:
        self.calls.append("close")

    def snapshot_state(self, context: Any) -> None:
        self.calls.append(("snapshot", context.get_checkpoint_id(), context.get_checkpoint_timestamp()))
        self.state.update(self.seen)
        self.union.update([sum(self.seen)])
        self.map_state.put("seen", 1)

    def note(self, value: int) -> int:
        if "first" not in self.calls:
            self.calls.append("first")
        self.seen.append(value)
        return value


class Mapping(Remembers, MapFunction):
    def map(self, value: Any) -> Any:
        return self.note(value)


class FlatMapping(Remembers, FlatMapFunction):
    def flat_map(self, value: Any) -> Any:
        return [self.note(value)]


class Filtering(Remembers, FilterFunction):
    def filter(self, value: Any) -> bool:
        return self.note(value) is not None


class Processing(Remembers, ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return [self.note(value)]


class KeyedProcessing(Remembers, KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return [self.note(value)]


class Sinking(Remembers, SinkFunction):
    def invoke(self, value: Any, context: Any) -> None:
        self.note(value)


class CoMapping(Remembers, CoMapFunction):
    def map1(self, value: Any) -> Any:
        return self.note(value)

    def map2(self, value: Any) -> Any:
        return self.note(value)


def harness_of(function: Any, **options: Any) -> Any:
    if isinstance(function, CoMapFunction):
        return TwoInputOperatorHarness(function, **options)
    selector = (lambda value: value) if isinstance(function, KeyedProcessFunction) else None
    return OneInputOperatorHarness(function, selector, **options)


def feed(harness: Any, values: list[int]) -> None:
    if isinstance(harness, TwoInputOperatorHarness):
        harness.process_elements1(values[:1])
        harness.process_elements2(values[1:])
    else:
        harness.process_elements(values)


FUNCTIONS = [Mapping, FlatMapping, Filtering, Processing, KeyedProcessing, Sinking, CoMapping]


@pytest.mark.parametrize("kind", FUNCTIONS, ids=lambda kind: kind.__name__)
class TestCheckpointedFunction:
    def test_the_order_of_the_calls(self, kind: Any) -> None:
        function = kind()
        with harness_of(function) as harness:
            feed(harness, [1, 2])
            harness.snapshot(checkpoint_id=7, timestamp=99)
            feed(harness, [3, 4])
        assert function.calls == [("initialize", False, [], []), "open", "first", ("snapshot", 7, 99), "close"]

    def test_what_was_stored_comes_back(self, kind: Any) -> None:
        with harness_of(kind()) as harness:
            feed(harness, [1, 2])
            taken = harness.snapshot()
            feed(harness, [3])
        function = kind()
        harness = harness_of(function)
        harness.restore(taken)
        with harness:
            assert function.calls == [("initialize", True, [1, 2], [3]), "open"]
            assert dict(function.map_state.items()) == {"seen": 1}
            feed(harness, [5, 6])
            assert list(harness.operator.context.operator_state.get_list_state(LIST)) == [1, 2]
            harness.snapshot()
            assert list(function.state) == [1, 2, 5, 6]


class TestOfSeveralSubtasks:
    def test_lists_are_dealt_out_and_unions_go_to_all(self) -> None:
        taken = []
        for subtask in range(2):
            with OneInputOperatorHarness(Mapping(), parallelism=2, subtask=subtask) as harness:
                harness.process_elements([subtask * 10 + number for number in range(1, 4)])
                taken.append(harness.snapshot())
        seen = []
        for subtask in range(3):
            function = Mapping()
            harness = OneInputOperatorHarness(function, parallelism=3, subtask=subtask)
            harness.restore(*taken)
            with harness:
                seen.append(function.calls[0])
        assert seen == [
            ("initialize", True, [1, 2], [6, 36]),
            ("initialize", True, [3, 11], [6, 36]),
            ("initialize", True, [12, 13], [6, 36]),
        ]


class TestErrors:
    @pytest.mark.parametrize("method", ["initialize_state", "snapshot_state"])
    def test_they_name_the_operator(self, method: str) -> None:
        class Fails(Mapping):
            pass

        def fail(self: Any, context: Any) -> None:
            raise KeyError("gone")

        setattr(Fails, method, fail)
        harness = OneInputOperatorHarness(Fails(), name="my map")
        with pytest.raises(UserCodeError, match=r"Operator 'my map' \(subtask 1\) failed: KeyError: 'gone'"), harness:
            harness.snapshot()

    def test_keyed_state_has_no_key_in_snapshot_state(self) -> None:
        class Wrong(KeyedProcessing):
            def initialize_state(self, context: Any) -> None:
                super().initialize_state(context)
                store = context.get_keyed_state_store()
                assert isinstance(store, public.KeyedStateStore)
                self.value = store.get_state(ValueStateDescriptor("value", LONG))

            def process_element(self, value: Any, ctx: Any) -> Any:
                self.value.update(value)

            def snapshot_state(self, context: Any) -> None:
                self.value.update(0)

        with (
            pytest.raises(UserCodeError, match="operator 'my process': there is no current key"),
            OneInputOperatorHarness(Wrong(), lambda value: value, name="my process") as harness,
        ):
            harness.process_element(5)
            assert harness.keyed_state("value") == {5: 5}
            harness.snapshot()

    def test_keyed_state_needs_a_keyed_stream(self) -> None:
        class Wrong(Mapping):
            def initialize_state(self, context: Any) -> None:
                context.get_keyed_state_store().get_state(ValueStateDescriptor("value", LONG))

        with pytest.raises(UserCodeError, match="keyed state 'value' can only be used on a keyed stream"):
            OneInputOperatorHarness(Wrong()).open()


class Counter(MapFunction, ListCheckpointed):
    def __init__(self) -> None:
        self.count = 0
        self.calls: list[Any] = []

    def open(self, runtime_context: Any) -> None:
        self.calls.append("open")

    def map(self, value: Any) -> Any:
        self.count += 1
        return self.count

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[Any]:
        self.calls.append(("snapshot", checkpoint_id, timestamp))
        return [self.count] * 2 if self.count else []

    def restore_state(self, state: list[Any]) -> None:
        self.calls.append(("restore", state))
        self.count = sum(state)


class TestListCheckpointed:
    def test_nothing_is_restored_at_first(self) -> None:
        function = Counter()
        with OneInputOperatorHarness(function) as harness:
            harness.process_elements("ab")
            harness.snapshot(3, 4)
            assert function.calls == ["open", ("snapshot", 3, 4)]

    def test_back_before_open(self) -> None:
        with OneInputOperatorHarness(Counter()) as harness:
            harness.process_elements("ab")
            taken = harness.snapshot()
            assert harness.snapshot() == taken, "a second snapshot replaces the first"
        function = Counter()
        harness = OneInputOperatorHarness(function)
        harness.restore(taken)
        with harness:
            assert function.calls == [("restore", [2, 2]), "open"]
            harness.process_element("c")
            assert harness.output == [5]

    def test_dealt_out(self) -> None:
        with OneInputOperatorHarness(Counter()) as harness:
            harness.process_elements("ab")
            taken = harness.snapshot()
        shares = []
        for subtask in range(3):
            function = Counter()
            harness = OneInputOperatorHarness(function, parallelism=3, subtask=subtask)
            harness.restore(taken)
            with harness:
                shares.append(function.calls[0])
        assert shares == [("restore", [2]), ("restore", [2]), ("restore", [])]

    def test_none_is_no_elements(self) -> None:
        class Lazy(Counter):
            def snapshot_state(self, checkpoint_id: int, timestamp: int) -> Any:
                return None

        with OneInputOperatorHarness(Lazy()) as harness:
            taken = harness.snapshot()
        function = Lazy()
        harness = OneInputOperatorHarness(function)
        harness.restore(taken)
        with harness:
            assert function.calls == [("restore", []), "open"]


class Listens(ReduceFunction, CheckpointListener):
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def open(self, runtime_context: Any) -> None:
        self.value = runtime_context.get_state(ValueStateDescriptor("value", LONG))

    def reduce(self, value1: Any, value2: Any) -> Any:
        return value2

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.calls.append(("complete", checkpoint_id))


class TestCheckpointListener:
    def test_it_is_told(self) -> None:
        class Both(Listens):
            def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
                self.calls.append(("aborted", checkpoint_id))

        for kind, expected in ((Listens, [("complete", 1)]), (Both, [("complete", 1), ("aborted", 2)])):
            function = kind()
            with OneInputOperatorHarness(function, lambda value: value) as harness:
                harness.notify_checkpoint_complete(1)
                harness.notify_checkpoint_aborted(2)
            assert function.calls == expected

    def test_there_is_no_key_then(self) -> None:
        class Wrong(Listens):
            def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
                self.value.update(1)

        with (
            pytest.raises(UserCodeError, match="there is no current key"),
            OneInputOperatorHarness(Wrong(), lambda value: value) as harness,
        ):
            harness.process_elements([1, 1])
            harness.notify_checkpoint_complete(1)
