"""TimerQueue and TimerService: one timer for each key and timestamp, the earliest first."""

from __future__ import annotations

import random
from decimal import Decimal
from time import process_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from flintstream.runtime.batch import MAX_WATERMARK, MIN_WATERMARK
from flintstream.runtime.state.heap import HeapKeyedStateBackend
from flintstream.runtime.time import timers as timers_module
from flintstream.runtime.time.changes import ChangedTimers, TimerHistory, merged
from flintstream.runtime.time.timers import TimerQueue, TimerService, TimeView


def queue_of(*timers: tuple[int, Any]) -> TimerQueue:
    queue = TimerQueue()
    for timestamp, key in timers:
        queue.add(timestamp, key)
    return queue


def fired(queue: TimerQueue, until: int = MAX_WATERMARK) -> list[tuple[int, Any]]:
    return list(queue.due(until))


class TestQueue:
    def test_empty(self) -> None:
        queue = TimerQueue()
        assert fired(queue) == []
        assert queue.earliest is None
        assert len(queue) == 0
        assert list(queue) == []
        queue.remove(5, "a")
        assert len(queue) == 0

    def test_ascending_up_to_and_including_the_time(self) -> None:
        queue = queue_of((30, "a"), (10, "b"), (20, "c"), (-5, "d"))
        assert fired(queue, -6) == []
        assert fired(queue, 20) == [(-5, "d"), (10, "b"), (20, "c")]
        assert fired(queue, 29) == []
        assert fired(queue, 30) == [(30, "a")]
        assert fired(queue) == []

    def test_extreme_timestamps(self) -> None:
        queue = queue_of((MAX_WATERMARK, "a"), (MIN_WATERMARK, "b"))
        assert fired(queue, MIN_WATERMARK) == [(MIN_WATERMARK, "b")]
        assert fired(queue, MAX_WATERMARK - 1) == []
        assert fired(queue, MAX_WATERMARK) == [(MAX_WATERMARK, "a")]

    def test_keys_of_one_timestamp_in_the_order_of_registration(self) -> None:
        queue = queue_of((5, "c"), (5, "a"), (5, "b"))
        assert fired(queue) == [(5, "c"), (5, "a"), (5, "b")]

    @pytest.mark.parametrize("others", [[], ["b"], ["b", "c"]])
    def test_a_duplicate_is_the_same_timer(self, others: list[str]) -> None:
        queue = queue_of((5, "a"), (5, "a"), *((5, key) for key in others), (5, "a"))
        assert len(queue) == 1 + len(others)
        assert fired(queue) == [(5, key) for key in ["a", *others]]

    def test_a_timer_that_fired_can_be_registered_again(self) -> None:
        queue = queue_of((5, "a"))
        assert fired(queue) == [(5, "a")]
        queue.add(5, "a")
        assert fired(queue) == [(5, "a")]

    @pytest.mark.parametrize("same", [(1, True), (1, 1.0), (1, Decimal(1)), ((1, "x"), (True, "x"))])
    def test_equal_keys_are_one_key(self, same: tuple[Any, Any]) -> None:
        first, second = same
        assert len(queue_of((5, first), (5, second))) == 1
        assert len(queue_of((5, "other"), (5, first), (5, second))) == 2
        queue = queue_of((5, first))
        queue.remove(5, second)
        assert fired(queue) == []
        queue = queue_of((5, first), (5, "other"))
        queue.remove(5, second)
        assert fired(queue) == [(5, "other")]

    @pytest.mark.parametrize("key", [0, "", (), False, b"", frozenset()])
    def test_falsy_keys(self, key: Any) -> None:
        queue = queue_of((5, key), (6, key), (6, "other"))
        queue.remove(6, "other")
        assert len(queue) == 2
        assert fired(queue) == [(5, key), (6, key)]
        assert fired(queue) == []

    def test_a_key_that_does_not_equal_itself_fires_once(self) -> None:
        key = float("nan")
        queue = queue_of((5, key), (5, key))
        assert len(queue) == 1
        timers = queue.due(10)
        assert next(timers) == (5, key)
        assert next(timers, None) is None, "it must not fire for ever"
        queue.add(5, key)
        queue.remove(5, key)
        assert len(queue) == 0

    def test_delete(self) -> None:
        queue = queue_of((5, "a"), (5, "b"), (6, "a"))
        queue.remove(5, "a")
        queue.remove(5, "unknown")
        queue.remove(7, "a")
        queue.remove(6, "b")
        assert sorted(queue) == [(5, "b"), (6, "a")]
        assert fired(queue) == [(5, "b"), (6, "a")]

    def test_delete_all_keys_of_a_timestamp_and_register_again(self) -> None:
        queue = queue_of((5, "a"), (5, "b"))
        queue.remove(5, "a")
        queue.remove(5, "b")
        queue.remove(5, "b")
        assert len(queue) == 0
        assert list(queue) == []
        queue.add(5, "c")
        queue.add(5, "d")
        assert fired(queue) == [(5, "c"), (5, "d")]

    def test_register_delete_register_is_one_timer(self) -> None:
        queue = queue_of((5, "a"))
        for _ in range(3):
            queue.remove(5, "a")
            queue.add(5, "a")
        assert fired(queue) == [(5, "a")]

    def test_the_earliest_counts_again_when_a_deleted_one_was_passed(self) -> None:
        queue = queue_of((5, "a"), (9, "a"))
        assert queue.earliest == 5
        queue.remove(5, "a")
        assert fired(queue, 6) == []
        assert queue.earliest == 9


class TestWhileFiring:
    def test_registered_for_a_passed_time_fires_in_the_same_run(self) -> None:
        queue = queue_of((5, "a"), (20, "a"))
        seen = []
        for timestamp, key in queue.due(10):
            seen.append(timestamp)
            if timestamp == 5:
                queue.add(3, key)
                queue.add(10, key)
                queue.add(11, key)
            if timestamp == 3:
                queue.add(4, key)
        assert seen == [5, 3, 4, 10]
        assert sorted(queue) == [(11, "a"), (20, "a")]

    def test_an_earlier_timer_comes_before_other_keys_of_the_timestamp(self) -> None:
        queue = queue_of((5, "a"), (5, "b"), (5, "c"))
        seen = []
        for timestamp, key in queue.due(5):
            seen.append((timestamp, key))
            if timestamp == 5:
                queue.add(3, key)
        assert seen == [(5, "a"), (3, "a"), (5, "b"), (3, "b"), (5, "c"), (3, "c")]

    def test_the_same_timer_registered_again(self) -> None:
        queue = queue_of((5, "a"), (5, "b"))
        seen = []
        for timestamp, key in queue.due(5):
            seen.append(key)
            if len(seen) < 5:
                queue.add(timestamp, key)
        assert sorted(seen[:2]) == ["a", "b"], "a timer that comes again does not push others away"
        assert len(seen) == 6
        assert len(queue) == 0

    def test_deleted_before_its_turn(self) -> None:
        queue = queue_of((5, "a"), (5, "b"), (5, "c"), (6, "a"), (7, "a"))
        seen = []
        for timestamp, key in queue.due(10):
            seen.append((timestamp, key))
            if (timestamp, key) == (5, "a"):
                queue.remove(5, "b")
                queue.remove(6, "a")
        assert seen == [(5, "a"), (5, "c"), (7, "a")]

    def test_all_others_deleted_and_one_registered(self) -> None:
        queue = queue_of((5, "a"), (5, "b"), (5, "c"))
        seen = []
        for _timestamp, key in queue.due(10):
            seen.append(key)
            if key == "a":
                queue.remove(5, "b")
                queue.remove(5, "c")
                queue.add(5, "d")
                queue.add(5, "c")
        assert seen == ["a", "d", "c"]

    def test_the_one_at_hand_is_deleted(self) -> None:
        queue = queue_of((5, "a"), (6, "b"))
        for timestamp, key in queue.due(10):
            queue.remove(timestamp, key)
        assert len(queue) == 0

    def test_a_run_that_breaks_off_keeps_the_rest(self) -> None:
        queue = queue_of((5, "a"), (5, "b"), (6, "a"))
        for _ in queue.due(10):
            break
        assert sorted(queue) == [(5, "b"), (6, "a")]
        assert fired(queue) == [(5, "b"), (6, "a")]

    def test_compaction_meanwhile(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(timers_module, "_COMPACT_FROM", 2)
        queue = queue_of(*((time, "a") for time in range(100)))
        seen = []
        for timestamp, key in queue.due(1000):
            seen.append(timestamp)
            for other in range(timestamp + 1, timestamp + 9):
                queue.remove(other, key)
            if timestamp == 9:
                queue.add(10, key)
        assert seen == [0, 9, 10, *range(19, 100, 9)]
        assert len(queue) == 0


class TestMany:
    def test_deleted_timers_do_not_pile_up(self) -> None:
        queue = TimerQueue()
        for time in range(20_000):
            queue.add(time + 100, "a")
            queue.remove(time + 100, "a")
        assert len(queue._heap) < 3000
        assert len(queue._new) == len(queue._heap)

    def test_a_timeout_that_is_put_off_with_every_record(self) -> None:
        queue = TimerQueue()
        keys = [f"k{number}" for number in range(50)]
        last: dict[str, int] = {}
        for time in range(10_000):
            key = keys[time % 50]
            if key in last:
                queue.remove(last[key], key)
            last[key] = time + 1000
            queue.add(last[key], key)
        assert len(queue) == 50
        assert len(queue._heap) < 3000
        assert fired(queue) == sorted((time, key) for key, time in last.items())

    def test_many_keys_at_one_time(self) -> None:
        keys = list(range(5_000))
        random.Random(1).shuffle(keys)
        queue = queue_of(*((7, key) for key in keys))
        for key in keys[::3]:
            queue.remove(7, key)
        left = [key for index, key in enumerate(keys) if index % 3]
        assert [key for _, key in queue.due(7)] == left

    def test_many_keys_at_one_time_that_register_earlier_ones(self) -> None:
        count = 20_000
        queue = queue_of(*((1000, key) for key in range(count)))
        seen = 0
        began = process_time()
        for timestamp, key in queue.due(2000):
            seen += 1
            if timestamp == 1000:
                queue.add(500, key)
        assert seen == 2 * count
        assert process_time() - began < 5, "not a copy of all keys for each of them"


class Reference:
    """A set of timers, polled one by one."""

    def __init__(self) -> None:
        self.timers: dict[tuple[int, Any], int] = {}
        self.count = 0

    def add(self, timestamp: int, key: Any) -> None:
        self.count += 1
        self.timers.setdefault((timestamp, key), self.count)

    def remove(self, timestamp: int, key: Any) -> None:
        self.timers.pop((timestamp, key), None)

    def poll(self, until: int) -> set[tuple[int, Any]]:
        """Those that may come next: all with the least timestamp."""
        least = min((timestamp for timestamp, _ in self.timers), default=until + 1)
        return {timer for timer in self.timers if timer[0] == least and least <= until}


NONE = timers_module._NONE
times = st.integers(0, 8)
keys = st.sampled_from(["a", "b", 1, 1.0, True, 2, (1, "x"), (True, "x")])
actions = st.lists(st.tuples(st.booleans(), times, keys), max_size=4)


class QueueMachine(RuleBasedStateMachine):
    """Any sequence of calls, with any calls while timers fire, against the reference."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = TimerQueue()
        self.reference = Reference()
        self.stopped = MIN_WATERMARK
        """Up to here some timers may be due that did not fire, since the caller stopped."""
        self.history: TimerHistory | None = None
        self.changes: list[ChangedTimers] = []
        self.last: set[Any] = set()
        self.before = timers_module._COMPACT_FROM
        timers_module._COMPACT_FROM = 3

    def teardown(self) -> None:
        timers_module._COMPACT_FROM = self.before

    def act(self, register: bool, timestamp: int, key: Any) -> None:
        for timers in (self.queue, self.reference):
            (timers.add if register else timers.remove)(timestamp, key)  # type: ignore[attr-defined]

    @rule(timestamp=times, key=keys)
    def add(self, timestamp: int, key: Any) -> None:
        self.act(True, timestamp, key)

    @rule(timestamp=times, key=keys)
    def remove(self, timestamp: int, key: Any) -> None:
        self.act(False, timestamp, key)

    @precondition(lambda self: self.reference.timers)
    @rule(data=st.data())
    def remove_one_that_is_there(self, data: st.DataObject) -> None:
        self.act(False, *data.draw(st.sampled_from(list(self.reference.timers))))

    @rule(until=times, meanwhile=st.lists(actions, max_size=6), stop=st.integers(0, 20))
    def fire(self, until: int, meanwhile: list[list[tuple[bool, int, Any]]], stop: int) -> None:
        for index, timer in enumerate(self.queue.due(until)):
            assert timer in self.reference.poll(until)
            self.reference.remove(*timer)
            for action in meanwhile[index] if index < len(meanwhile) else ():
                self.act(*action)
            if index == stop:
                self.stopped = max(self.stopped, until)
                return
        assert self.reference.poll(until) == set()

    @rule(restored=st.booleans())
    def take_changes(self, restored: bool) -> None:
        """The changes lead from the timers of the last snapshot to these, alone and merged with earlier ones."""
        for timer in self.queue.due(self.stopped):
            self.reference.remove(*timer)
        self.stopped = MIN_WATERMARK
        changes = self.queue.take_changes()
        assert (changes is None) == (self.history is None)
        now = set(self.reference.timers)
        if self.history is None or changes is None:
            self.history = TimerHistory()
            self.history.add(None, ([], []), (list(now), []))
        else:
            assert {timer for timer in changes.removed if timer[0] > changes.fired} <= self.last
            assert changes.size <= 2 * len(self.last | now)
            self.changes.append(ChangedTimers(changes))
            (event, _) = merged(self.changes)
            self.history.add((event.fired, MIN_WATERMARK), (list(event.removed), []), (list(event.added), []))
            found, _ = self.history.timers()
            assert len(found) == len(now)
            assert set(found) == now
            if restored:
                # The next ones are relative to this snapshot, not to the one before.
                self.history = TimerHistory()
                self.history.add(None, ([], []), (found, []))
                self.changes = []
            else:
                self.history._steps.pop()
        self.last = now

    @invariant()
    def same_timers(self) -> None:
        assert len(self.queue) == len(self.reference.timers)
        assert len(list(self.queue)) == len(self.reference.timers)
        assert set(self.queue) == set(self.reference.timers)

    @invariant()
    def the_earliest_is_never_too_late(self) -> None:
        least = min((timestamp for timestamp, _ in self.reference.timers), default=None)
        if least is not None:
            assert self.queue.earliest is not None
            assert self.queue.earliest <= least

    @invariant()
    def deleted_ones_are_counted_right(self) -> None:
        new, stored = self.queue._new, self.queue._stored
        empty = [time for time in new.keys() | stored.keys() if new.get(time, NONE) is stored.get(time, NONE)]
        assert self.queue._deleted == len(empty)
        assert sorted(self.queue._heap) == sorted(new.keys() | stored.keys())
        assert not any(new[time] is NONE for time in new.keys() & stored.keys())
        assert self.queue.timestamps == len({time for time, _ in self.reference.timers})


TestQueueAgainstReference = QueueMachine.TestCase
TestQueueAgainstReference.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


@given(st.lists(st.tuples(times, st.sampled_from("abc"))), st.lists(st.tuples(times, st.sampled_from("abc"))), times)
def test_without_calls_meanwhile_it_is_a_sorted_set(
    added: list[tuple[int, str]], removed: list[tuple[int, str]], until: int
) -> None:
    queue = queue_of(*added)
    for timer in removed:
        queue.remove(*timer)
    left = set(added) - set(removed)
    result = fired(queue, until)
    assert sorted(result) == sorted(timer for timer in left if timer[0] <= until)
    assert [time for time, _ in result] == sorted(time for time, _ in result)
    assert set(queue) == {timer for timer in left if timer[0] > until}


# --- the service ---


def service() -> tuple[TimerService, HeapKeyedStateBackend]:
    backend = HeapKeyedStateBackend("my operator", 128, lambda: 42)
    return TimerService("my operator", lambda: 42, backend), backend


CALLS = [
    "register_event_time_timer",
    "register_processing_time_timer",
    "delete_event_time_timer",
    "delete_processing_time_timer",
]


class TestService:
    def test_it_tells_the_time(self) -> None:
        timers, _ = service()
        assert timers.current_processing_time() == 42
        assert timers.current_watermark() == MIN_WATERMARK
        timers.watermark = 7
        assert timers.current_watermark() == 7

    def test_the_two_domains_and_the_keys_are_apart(self) -> None:
        timers, backend = service()
        backend.current_key = "a"
        timers.register_event_time_timer(5)
        timers.register_processing_time_timer(6)
        backend.current_key = "b"
        timers.register_event_time_timer(5)
        timers.delete_processing_time_timer(6)
        assert timers.stored() == ([(5, "a"), (5, "b")], [(6, "a")])
        timers.delete_event_time_timer(5)
        backend.current_key = "a"
        timers.delete_processing_time_timer(6)
        assert timers.stored() == ([(5, "a")], [])

    def test_stored_timers_come_back(self) -> None:
        timers, backend = service()
        for key in ("a", "b"):
            backend.current_key = key
            timers.register_event_time_timer(5)
            timers.register_processing_time_timer(9)
        restored, _ = service()
        restored.restore(timers.stored())
        assert restored.stored() == timers.stored()

    def test_an_integer_of_another_class_is_a_timestamp(self) -> None:
        numpy = pytest.importorskip("numpy")
        timers, backend = service()
        backend.current_key = "a"
        timers.register_event_time_timer(numpy.int64(5))
        timers.register_event_time_timer(True)
        stored = sorted(timers.stored()[0])
        assert stored == [(1, "a"), (5, "a")]
        assert [type(timestamp) for timestamp, _ in stored] == [int, int]

    def test_a_float_loses_its_fraction(self) -> None:
        timers, backend = service()
        backend.current_key = "a"
        for timestamp in (1.75, 2.0, -0.5, 4e3):
            timers.register_event_time_timer(timestamp)  # type: ignore[arg-type]
            timers.register_processing_time_timer(timestamp)  # type: ignore[arg-type]
        timers.delete_event_time_timer(4000.9)  # type: ignore[arg-type]
        timers.delete_processing_time_timer(0.25)  # type: ignore[arg-type]
        event, processing = timers.stored()
        assert sorted(event) == [(0, "a"), (1, "a"), (2, "a")]
        assert sorted(processing) == [(1, "a"), (2, "a"), (4000, "a")]
        assert {type(timestamp) for timestamp, _ in event + processing} == {int}

    @pytest.mark.parametrize("call", CALLS)
    @pytest.mark.parametrize("timestamp", ["3", None, float("nan"), float("inf")])
    def test_what_is_no_number_is_refused(self, call: str, timestamp: Any) -> None:
        timers, backend = service()
        backend.current_key = "a"
        with pytest.raises(TypeError, match=rf"operator 'my operator': {call}\(\): the timestamp must be a number"):
            getattr(timers, call)(timestamp)
        assert timers.stored() == ([], [])

    @pytest.mark.parametrize("call", CALLS)
    def test_without_a_key_it_is_refused(self, call: str) -> None:
        timers, backend = service()
        for time in (5, 6):
            timers.event.add(time, "a")
            timers.processing.add(time, "a")
        with pytest.raises(RuntimeError, match="operator 'my operator': there is no current key"):
            getattr(timers, call)(5)
        with pytest.raises(RuntimeError, match="there is no current key"):
            getattr(timers, call)(7)
        assert backend.current_key is backend.no_key

    @pytest.mark.parametrize("call", CALLS)
    def test_a_stream_without_keys_has_no_timers(self, call: str) -> None:
        view = TimeView("my operator", lambda: 42)
        assert view.current_processing_time() == 42
        with pytest.raises(RuntimeError, match=rf"operator 'my operator': {call}\(\): timers are only .* keyed stream"):
            getattr(view, call)(5)
