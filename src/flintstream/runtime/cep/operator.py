"""CepOperator: looks for a pattern in the events of each key.

In event time an event waits until the watermark has reached it, so that events are offered to the automaton in the
order of their timestamps. Most events neither begin a match nor meet one that has begun: these cost a call of the first
stage's condition and a look-up of the key.

The state of a key is its partial matches, the events that these have taken, and the events that wait. Events wait in
memory until a checkpoint writes them, or until there are too many for a backend on disk; then in groups, of which only
those are read that the watermark has reached. A key without partial matches keeps nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import compress, repeat
from typing import Any, NamedTuple

from flintstream.common.output_tag import OutputTag
from flintstream.runtime.batch import CHUNK, MAX_WATERMARK, MIN_WATERMARK, NO_TIMESTAMP, Batch
from flintstream.runtime.cep.computation import NFAState
from flintstream.runtime.cep.context import MatchContext
from flintstream.runtime.cep.nfa import NFA, FilterFailure, Match
from flintstream.runtime.cep.shared_buffer import SharedBuffer
from flintstream.runtime.cep.skip import SkipMissed
from flintstream.runtime.cep.spec import CepSpec
from flintstream.runtime.cep.waiting import Columns, WaitingEvents, by_comparator, by_time, chunks
from flintstream.runtime.faults import record_at_fault
from flintstream.runtime.operators.base import LATE_RECORDS, FunctionOperator
from flintstream.runtime.results import ResultEmitter
from flintstream.runtime.state.backend import StateMigrationException
from flintstream.runtime.state.operator_state import ListDescriptor
from flintstream.runtime.time.timers import TimerService

NFA_TABLE, BUFFER_TABLE, WAITING_TABLE = "_cep_nfa", "_cep_buffer", "_cep_waiting"
"""The tables of a key: partial matches, their events, and the events that wait for the watermark."""
PARTIAL_MATCHES = "numPartialMatches"

_LAYOUT, _TIME = ListDescriptor("cep-automaton"), ListDescriptor("cep-time")
_MOST_WAITING = 1 << 17
"""With a backend on disk, this many events wait in memory."""
_GROUP, _MOST_GROUPS = 64, 1 << 11
"""The most events of a key that wait in a group; and with a backend on disk, the most groups that are read at once."""

_Stored = tuple[int, int, Any]
"""An event that waits in keyed state: its timestamp, its number in the order of arrival, and its value. No two events of
a key have the same number, so that they can be sorted.
"""
_Due = dict[Any, list[int]]
"""The timers that are due, by key."""


class MatchAtFault(NamedTuple):
    """A match, as shown when its function fails."""

    match: Match
    key: Any

    def __repr__(self) -> str:
        return f"<the match {self.match!r} of key {self.key!r}>"


class CepOperator(FunctionOperator):
    """Calls a function for the matches of a pattern, and perhaps for partial matches that have timed out."""

    keyed = True

    def __init__(self, spec: CepSpec) -> None:
        super().__init__(spec)

    def open(self) -> None:
        state, clock = self.context.keyed_state, self.context.services.clock
        assert state is not None
        spec: CepSpec = self.function
        self._state = state
        self._on_disk = state.database is not None
        self._timers = TimerService(self.context.name, clock, state)
        self._timers.restore(self.context.restored_timers)
        self._waiting = WaitingEvents()
        self._event_time, self._compare, self._late_tag = spec.event_time, spec.compare, spec.late_tag
        metrics = self.context.runtime_context.get_metrics_group()
        self._late = metrics.counter(LATE_RECORDS)
        self._partial_matches = 0
        metrics.gauge(PARTIAL_MATCHES, lambda: self._partial_matches)
        self._emitter = ResultEmitter(self.output)
        self._context = MatchContext(clock)
        self._shared = SharedBuffer({})
        self._arrived = 0
        """The number of the last event that was written to keyed state."""
        self._stored_events = 0
        """How many events wait in keyed state."""
        self._advanced_to = MIN_WATERMARK
        self._advanced: set[Any] = set()
        """The keys whose time has been advanced to `_advanced_to`."""
        self._begun: set[Any] = set()
        """With windows between two events: the keys with a new partial match since the time was advanced last."""
        self._nfa = NFA(spec.automaton, clock)
        restored = not state.restored.keys().isdisjoint((NFA_TABLE, WAITING_TABLE))
        self._matches = state.engine_table(NFA_TABLE)
        self._buffers = state.engine_table(BUFFER_TABLE, "map")
        self._stored = state.engine_table(WAITING_TABLE, "map")
        self._layout = self.context.operator_state.get_union_list_state(_LAYOUT)
        self._time = self.context.operator_state.get_union_list_state(_TIME)
        if restored:
            self._stored_events = sum(len(group) for groups in self._stored.values() for group in groups.values())
            self._check_time()
            self._take_over(spec.automaton.layout())
        self._layout.update([spec.automaton.layout()])
        super().open()
        self._on_match = spec.function.process_match
        self._on_timeout = spec.function.process_timed_out_match if spec.handles_timeouts else None

    def _check_time(self) -> None:
        """Raises if the former job measured another time: clocks and timestamps cannot be compared."""
        restored = list(self._time)
        self._arrived = max((arrived for _, arrived in restored), default=0)
        if all(each is self._event_time for each, _ in restored) or not (self._matches or self._stored):
            return
        former, now = ("processing", "event") if self._event_time else ("event", "processing")
        raise StateMigrationException(
            f"operator '{self.context.name}': the checkpoint was taken in {former} time and the pattern is now in {now} "
            f"time, but there are partial matches, or events that wait. Restore in {former} time, or set another uid to "
            "start the operator without state."
        )

    def _take_over(self, layout: list[str]) -> None:
        """Takes over restored partial matches; raises if the pattern has changed so that their states are others."""
        former: list[str] = next((list(each) for each in self._layout if list(each) != layout), layout)
        window = self._nfa.window
        keys = 0
        for key, entry in self._matches.items():
            keys += 1
            self._partial_matches += len(entry.partial)
            for partial in entry.partial if window else ():
                # The window may have changed.
                if partial[3] > 0:
                    self._set_timer(partial[3] + window, key)
        if keys and former != layout:
            raise StateMigrationException(
                f"operator '{self.context.name}': the pattern has changed since the checkpoint was taken, and the "
                f"{self._partial_matches} partial matches of {keys} keys cannot be continued in the new one. "
                f"{_differences(former, layout)} Conditions and windows may change; stages, their contiguity and "
                "quantifiers may not: restore with the former pattern, or set another uid to start the operator "
                "without state."
            )

    # --- events ---

    def process(self, batch: Batch) -> None:
        assert batch.keys is not None
        if not self._event_time:
            self._process_now(batch.keys, batch.values)
            return
        times = self._timestamps(batch)
        watermark = self._timers.watermark
        if watermark != MIN_WATERMARK and min(times, default=0) <= watermark:
            batch = self._without_late(batch, times, watermark)
            times = batch.timestamps or []
        assert batch.keys is not None
        self._waiting.add(batch.keys, times, batch.values)
        if self._on_disk and self._waiting.size > _MOST_WAITING:
            self._write_waiting()

    def _timestamps(self, batch: Batch) -> list[int]:
        times = batch.timestamps
        if times is None or NO_TIMESTAMP in times:
            missing = 0 if times is None else times.index(NO_TIMESTAMP)
            error = ValueError(
                "a pattern in event time needs timestamps, but a record has none: call "
                "assign_timestamps_and_watermarks() before CEP.pattern(), or in_processing_time() after it"
            )
            raise self.fault(error, batch.values[missing])
        return times

    def _without_late(self, batch: Batch, times: list[int], watermark: int) -> Batch:
        assert batch.keys is not None
        late = [index for index, time in enumerate(times) if time <= watermark]
        kept = [index for index, time in enumerate(times) if time > watermark]
        if self._late_tag is None:
            self._late.inc(len(late))
        else:
            found = Batch([batch.values[index] for index in late], [times[index] for index in late])
            self.output.emit_side(self._late_tag, found)
        return Batch(
            [batch.values[index] for index in kept],
            [times[index] for index in kept],
            [batch.keys[index] for index in kept],
        )

    def _process_now(self, keys: list[Any], values: list[Any]) -> None:
        """In processing time, events come in their order; with a comparator, those of a millisecond wait for its end."""
        self._fire_processing_time()
        clock = self._timers.current_processing_time
        if self._compare is not None:
            self._waiting.add(keys, [clock() for _ in keys], values)
            return
        for start in range(0, len(keys), CHUNK):
            some = keys[start : start + CHUNK]
            self._offer((some, [clock() for _ in some], values[start : start + CHUNK]))
        self._emitter.flush()

    # --- time ---

    def process_watermark(self, timestamp: int) -> None:
        self._timers.watermark = timestamp
        if self._event_time:
            self._advance(timestamp)
        elif timestamp == MAX_WATERMARK:
            self._fire_processing_time()
        super().process_watermark(timestamp)

    def tick(self) -> None:
        if not self._event_time:
            self._fire_processing_time()

    def finish(self) -> None:
        if not self._event_time:
            now = self._timers.current_processing_time()
            self._read_waiting({key: list(groups) for key, groups in self._stored.items()}, MAX_WATERMARK)
            self._advance(MAX_WATERMARK, now)
        super().finish()

    def end_key(self) -> None:
        self._timers.watermark = MAX_WATERMARK
        self._advance(MAX_WATERMARK, MAX_WATERMARK if self._event_time else self._timers.current_processing_time())
        self._timers.watermark = MIN_WATERMARK
        # In batch mode a key does not come back.
        for queue in (self._timers.event, self._timers.processing):
            for _ in queue.due(MAX_WATERMARK):
                pass
        self._partial_matches = 0
        self._matches.clear()
        self._buffers.clear()

    def next_due(self) -> float | None:
        due = None if self._event_time else self._due_millis()
        return None if due is None else due / 1000

    def _due_millis(self) -> int | None:
        """In processing time: when the next window ends, or events have waited for their millisecond to end."""
        waiting, timer = self._waiting.earliest, self._timers.processing.earliest
        return min(
            (time for time in (timer, None if waiting is None else waiting + 1) if time is not None), default=None
        )

    def _fire_processing_time(self) -> None:
        due = self._due_millis()
        now = self._timers.current_processing_time()
        # In batch mode everything happens at the end of a key.
        if due is not None and due <= now and not self.context.batch_mode:
            self._advance(now - 1, now)

    def _advance(self, until: int, now: int | None = None) -> None:
        """Offers the events up to a time that have waited, then expires partial matches at the time `now`."""
        now = until if now is None else now
        self._begun.clear()
        for due in self._rounds(now):
            self._read_waiting(due, until)
            columns = self._waiting.take(until)
            if self._compare is not None and columns[1]:
                columns = by_comparator(columns, self._compare)
            keys = dict.fromkeys(due)
            for chunk in chunks(columns, CHUNK):
                keys.update(dict.fromkeys(self._offer(chunk, now)))
            if self._nfa.window or self._nfa.has_step_windows:
                self._expire(keys, now)
            if self._on_disk and self._waiting.size > _MOST_WAITING:
                self._write_waiting()
        self._emitter.flush()

    def _rounds(self, now: int) -> Iterator[_Due]:
        """Yields the timers that are due: all or, if many events wait on disk, as many as their events fit in memory."""
        due, count = self._due(now)
        # In processing time events wait for a millisecond.
        if count <= _MOST_GROUPS or not self._has_many_stored() or not self._event_time:
            yield due
            return
        # All events of a key are needed together.
        self._write_waiting()
        for key, times in self._due(now)[0].items():
            due.setdefault(key, []).extend(times)
        some: _Due = {}
        count = 0
        for key, times in due.items():
            some[key] = times
            count += len(times)
            if count >= _MOST_GROUPS:
                yield some
                some, count = {}, 0
        yield some

    def _due(self, now: int) -> tuple[_Due, int]:
        """Removes the timers up to a time; returns those of each key, and their number."""
        queue = self._timers.event if self._event_time else self._timers.processing
        due: _Due = {}
        count = 0
        if queue.earliest is not None and queue.earliest <= now:
            for time, key in queue.due(now):
                due.setdefault(key, []).append(time if self._event_time else time - 1)
                count += 1
        return due, count

    def _set_timer(self, time: int, key: Any) -> None:
        """Sets a timer for the end of the window of a partial match, or for the first event of a group that waits."""
        if self._event_time:
            self._timers.event.add(min(time, MAX_WATERMARK), key)
        else:
            self._timers.processing.add(time + 1, key)

    # --- partial matches ---

    def _offer(self, columns: Columns, now: int | None = None) -> set[Any]:
        """Offers events, by time, to the partial matches of their keys; returns the keys that may have some.

        `now` is the time to which these keys are advanced afterwards, so that no timer is needed up to it.
        """
        keys, times, values = columns
        if self._on_disk:
            self._state.touch(keys)
        nfa, table, buffers, shared, window = self._nfa, self._matches, self._buffers, self._shared, self._nfa.window
        events: Iterable[tuple[Any, int, Any, Any]] = zip(keys, times, values, repeat(True))
        if nfa.may_begin is not None:
            begins = self._begins(values)
            starting = set(compress(keys, begins))
            # Of all others, neither an event nor its key is looked at again.
            events = [
                (key, timestamp, value, may_begin)
                for key, timestamp, value, may_begin in zip(keys, times, values, begins)
                if key in starting or key in table
            ]
        met: set[Any] = set()
        once = nfa.has_step_windows and now is not None
        value: Any = None
        try:
            for key, timestamp, value, may_begin in events:
                if not may_begin and key not in table:
                    continue
                met.add(key)
                entry = table.get(key)
                known = entry is not None
                if entry is None:
                    entry, shared.entries = NFAState(), {}
                else:
                    shared.entries = buffers[key]
                before = len(entry.partial)
                if before and not (once and self._is_advanced(key, timestamp)):
                    complete, timed_out = nfa.advance_time(entry, shared, timestamp)
                    if complete or timed_out:
                        self._emit(key, complete, timed_out, timestamp)
                matches, begun = nfa.process(entry, shared, value, timestamp)
                if matches:
                    self._emit(key, matches, (), timestamp)
                if window and timestamp > 0:
                    if once and begun:
                        self._begun.add(key)
                    if (begun or key in self._begun) and (now is None or timestamp + window > now):
                        self._set_timer(timestamp + window, key)
                self._partial_matches += len(entry.partial) - before
                self._keep(key, entry, known)
        except (FilterFailure, SkipMissed) as error:
            raise self.fault(error, value) from error
        if not self._on_disk:
            self._state.touch(met)
        return met

    def _begins(self, values: list[Any]) -> list[Any]:
        """Returns which events may begin a match."""
        may_begin = self._nfa.may_begin
        assert may_begin is not None
        tested = iter(values)
        try:
            # Not `map`, for which a StopIteration of the condition would be the end.
            return [may_begin(value) for value in tested]
        except Exception as error:
            failure = FilterFailure.at(self._nfa.first_stage)
            failure.__cause__ = error
            raise self.fault(failure, record_at_fault(values, tested)) from error

    def _is_advanced(self, key: Any, timestamp: int) -> bool:
        """Returns whether the key has met an event of this timestamp already. The time is advanced only before the
        first one: with windows between two events, the others would find partial matches that the first has moved.
        """
        if timestamp != self._advanced_to:
            self._advanced_to, self._advanced = timestamp, {key}
            return False
        if key in self._advanced:
            return True
        self._advanced.add(key)
        return False

    def _expire(self, keys: Iterable[Any], now: int) -> None:
        """Removes the partial matches of some keys whose windows have ended."""
        nfa, table, shared = self._nfa, self._matches, self._shared
        met = list(keys)
        for start in range(0, len(met), CHUNK):
            some = met[start : start + CHUNK]
            if self._on_disk:
                self._state.touch(some)
            live = [key for key in some if key in table]
            if not self._on_disk:
                self._state.touch(live)
            for key in live:
                entry = table[key]
                shared.entries = self._buffers[key]
                before = len(entry.partial)
                try:
                    complete, timed_out = nfa.advance_time(entry, shared, now)
                except SkipMissed as error:
                    raise self.fault(error, f"<the end of a window of key {key!r}>") from error
                if complete or timed_out:
                    self._emit(key, complete, timed_out, now)
                self._partial_matches += len(entry.partial) - before
                self._keep(key, entry, True)

    def _keep(self, key: Any, entry: NFAState, known: bool) -> None:
        """Stores the partial matches of a key, or removes all about it if there are none."""
        if not entry.is_empty():
            if not known:
                self._matches[key] = entry
                self._buffers[key] = self._shared.entries
        elif known:
            del self._matches[key]
            del self._buffers[key]

    # --- results ---

    def _emit(self, key: Any, matches: Iterable[Match], timed_out: Iterable[tuple[Match, int]], timestamp: int) -> None:
        context, emitter = self._context, self._emitter
        match: Match = {}
        context._timestamp = timestamp
        self._state.current_key = key
        try:
            for match in matches:
                results = self._on_match(match, context)
                if results is not None:
                    emitter.add(results, timestamp if self._event_time else NO_TIMESTAMP)
            if self._on_timeout is not None:
                for match, end in timed_out:
                    context._timestamp = end
                    results = self._on_timeout(match, context)
                    if results is not None:
                        emitter.add(map(_for_side_output, results), end if self._event_time else NO_TIMESTAMP)
        except Exception as error:
            raise self.fault(error, MatchAtFault(match, key)) from error

    # --- checkpoints ---

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> None:
        self._write_waiting()
        self._time.update([(self._event_time, self._arrived)])

    def timers_to_store(self) -> TimerService:
        return self._timers

    def _write_waiting(self) -> None:
        """Moves the events that wait from memory to keyed state."""
        of_key: dict[Any, list[_Stored]] = {}
        for number, (key, time, value) in enumerate(zip(*self._waiting.take_all()), self._arrived + 1):
            self._arrived = number
            if key in of_key:
                of_key[key].append((time, number, value))
            else:
                of_key[key] = [(time, number, value)]
        keys = list(of_key)
        for start in range(0, len(keys), CHUNK):
            some = keys[start : start + CHUNK]
            self._state.touch(some)
            for key in some:
                self._store(key, of_key[key])

    def _store(self, key: Any, events: list[_Stored]) -> None:
        """Stores events of a key in groups by time, each with a timer for its first event, by which it is found."""
        events.sort()
        self._stored_events += len(events)
        groups = self._stored.get(key)
        if groups is None:
            groups = self._stored[key] = {}
        for start in range(0, len(events), _GROUP):
            group = events[start : start + _GROUP]
            first = group[0][0]
            groups[first] = [*groups.get(first, ()), *group]
            self._set_timer(first, key)

    def _has_many_stored(self) -> bool:
        """Returns whether more events wait on disk than may wait in memory."""
        return self._on_disk and self._stored_events > _MOST_WAITING

    def _read_waiting(self, due: _Due, until: int) -> None:
        """Moves the events of keys whose timers are due to memory; if many events wait on disk, only those up to a time."""
        found = list(due) if self._on_disk else [key for key in due if key in self._stored]
        many = self._has_many_stored()
        ready: Columns = ([], [], [])
        for start in range(0, len(found), CHUNK):
            some = found[start : start + CHUNK]
            self._state.touch(some)
            for key in some:
                groups = self._stored.get(key)
                if groups is None:
                    continue
                # A key's events stay in order if all are in memory, or only those up to a time.
                if whole := not many or len(groups) == 1:
                    events = [event for group in groups.values() for event in group]
                else:
                    events = [event for time in due[key] for event in groups.pop(time, ())]
                if whole or not groups:
                    del self._stored[key]
                if not whole and (later := [event for event in events if event[0] > until]):
                    self._stored_events -= len(later)
                    self._store(key, later)
                    events = [event for event in events if event[0] <= until]
                events.sort()
                self._stored_events -= len(events)
                ready[0].extend(repeat(key, len(events)))
                ready[1].extend([time for time, _, _ in events])
                ready[2].extend([value for _, _, value in events])
        # They have come before all that are in memory.
        self._waiting.add(*by_time(ready), first=True)


def _for_side_output(result: Any) -> Any:
    if type(result) is tuple and len(result) == 2 and result[0].__class__ is OutputTag:
        return result
    raise TypeError(
        "process_timed_out_match() can only write to side outputs: it must yield pairs of an OutputTag and a value, "
        f"got {result!r}"
    )


def _differences(former: list[str], layout: list[str]) -> str:
    """Returns how two layouts differ, for a message."""
    before, now = ({state.partition(";")[0]: state for state in states} for states in (former, layout))
    both = before.keys() & now.keys()
    differences = {
        "States that are no longer there": [state for state in before if state not in both],
        "new ones": [state for state in now if state not in both],
        "states with other transitions": [state for state in now if state in both and now[state] != before[state]],
    }
    return "; ".join(f"{what}: {', '.join(states) or 'none'}" for what, states in differences.items()) + "."
