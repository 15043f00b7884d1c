"""Loops: what is done once a record, apart from user code.

These functions are all that the record path has in a module of its own, so that it can be compiled (see `loops.pxd`). They
take an iterator over the records where a failure has to be located: `record_at_fault` tells which record was taken last.

It cannot be known whether a function keeps a result that it emits, so each result is checked before the next call. Results
are mostly of one class, or pairs of the same two: comparing classes costs less than looking them up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import Any

from flintstream.common.output_tag import OutputTag
from flintstream.runtime.batch import CHUNK, NO_TIMESTAMP, Batch
from flintstream.runtime.detach import PLAIN, detached
from flintstream.runtime.state.key_context import KeyContext

_MISSING: Any = object()


class RecordContext:
    """What a context of a function knows of the current record: the timestamp, and through its state the key."""

    __slots__ = ("_state", "_timestamp")

    def __init__(self, state: KeyContext) -> None:
        self._state: Any = state
        self._timestamp = NO_TIMESTAMP

    def timestamp(self) -> int:
        """Returns the timestamp of the current record or timer; as in PyFlink, the least 64-bit integer if it has none."""
        return self._timestamp

    def get_current_key(self) -> Any:
        """Returns the key of the current record or timer."""
        return self._state.current_key


def map_records(function: Callable[[Any], Any], records: Iterator[Any]) -> list[Any]:
    """Returns the result for each record."""
    plain = PLAIN
    results = []
    previous = previous_first = previous_second = None
    # Unpacking costs less than a length check, except when it fails: after the first failure it is not tried again.
    pairs = True
    for record in records:
        result = function(record)
        if type(result) is not previous:
            if pairs and type(result) is tuple:
                try:
                    first, second = result
                    same = type(first) is previous_first and type(second) is previous_second
                except ValueError:
                    pairs = same = False
                if not same:
                    if pairs and type(first) in plain and type(second) in plain:
                        previous_first, previous_second = type(first), type(second)
                    else:
                        result = detached(result)
            elif type(result) in plain:
                previous = type(result)
            else:
                result = detached(result)
        results.append(result)
    return results


def map_keyed(
    function: Callable[[Any], Any], records: Iterator[Any], keys: Iterable[Any], state: KeyContext
) -> list[Any]:
    """As `map_records`, with the key of each record set."""
    plain = PLAIN
    results = []
    for key, record in zip(keys, records):
        state.current_key = key
        result = function(record)
        if type(result) is tuple:
            if len(result) != 2 or type(result[0]) not in plain or type(result[1]) not in plain:
                result = detached(result)
        elif type(result) not in plain:
            result = detached(result)
        results.append(result)
    return results


def flat_map_records(
    function: Callable[[Any], Iterable[Any] | None], records: Iterator[Any], times: list[int] | None
) -> Iterator[Batch]:
    """Yields the results of all records, with the timestamps of the records."""
    plain = PLAIN
    timed = times is not None
    values = []
    timestamps: list[Any] = []
    previous = None
    for record, timestamp in zip(records, repeat(None) if times is None else times):
        found = function(record)
        for result in () if found is None else found:
            if type(result) is not previous:
                if type(result) is tuple:
                    if len(result) != 2 or type(result[0]) not in plain or type(result[1]) not in plain:
                        result = detached(result)
                elif type(result) in plain:
                    previous = type(result)
                else:
                    result = detached(result)
            values.append(result)
            if timed:
                timestamps.append(timestamp)
            if len(values) >= CHUNK:
                yield Batch(values, timestamps if timed else None)
                values, timestamps = [], []
    yield Batch(values, timestamps if timed else None)


def process_records(
    function: Callable[[Any, Any], Iterable[Any] | None],
    records: Iterator[Any],
    keys: Iterable[Any],
    state: KeyContext,
    context: RecordContext,
    emit: Callable[[Batch], None],
    emit_aside: Callable[[OutputTag, Any, int | None], None],
) -> Batch:
    """Calls a process function for each record, and emits its results: those without a timestamp. Returns the last ones,
    which are for the caller to emit.
    """
    plain = PLAIN
    context._timestamp = NO_TIMESTAMP
    values = []
    pairs = True
    previous_first = previous_second = None
    for key, record in zip(keys, records):
        state.current_key = key
        results = function(record, context)
        if results is not None:
            for result in results:
                if pairs and type(result) is tuple:
                    try:
                        first, second = result
                        same = type(first) is previous_first and type(second) is previous_second
                    except ValueError:
                        pairs = same = False
                    if not same:
                        if pairs and type(first) in plain and type(second) in plain:
                            previous_first, previous_second = type(first), type(second)
                        elif result and result[0].__class__ is OutputTag:
                            emit_aside(result[0], result[1], None)
                            continue
                        else:
                            result = detached(result)
                elif type(result) not in plain:
                    if type(result) is tuple and result and result[0].__class__ is OutputTag:
                        emit_aside(result[0], result[1], None)
                        continue
                    result = detached(result)
                values.append(result)
                if len(values) >= CHUNK:
                    emit(Batch(values))
                    values = []
    return Batch(values)


def process_timed_records(
    function: Callable[[Any, Any], Iterable[Any] | None],
    records: Iterator[Any],
    keys: Iterable[Any],
    timestamps: list[int],
    state: KeyContext,
    context: RecordContext,
    emit: Callable[[Batch], None],
    emit_aside: Callable[[OutputTag, Any, int | None], None],
) -> Batch:
    """As `process_records`, for records with timestamps; results have the timestamp of their record."""
    plain = PLAIN
    values = []
    times = []
    pairs = True
    previous_first = previous_second = None
    for key, record, timestamp in zip(keys, records, timestamps):
        state.current_key = key
        context._timestamp = timestamp
        results = function(record, context)
        if results is not None:
            for result in results:
                if pairs and type(result) is tuple:
                    try:
                        first, second = result
                        same = type(first) is previous_first and type(second) is previous_second
                    except ValueError:
                        pairs = same = False
                    if not same:
                        if pairs and type(first) in plain and type(second) in plain:
                            previous_first, previous_second = type(first), type(second)
                        elif result and result[0].__class__ is OutputTag:
                            emit_aside(result[0], result[1], timestamp)
                            continue
                        else:
                            result = detached(result)
                elif type(result) not in plain:
                    if type(result) is tuple and result and result[0].__class__ is OutputTag:
                        emit_aside(result[0], result[1], timestamp)
                        continue
                    result = detached(result)
                values.append(result)
                times.append(timestamp)
                if len(values) >= CHUNK:
                    emit(Batch(values, times))
                    values, times = [], []
    return Batch(values, times)


def reduce_records(
    function: Callable[[Any, Any], Any],
    records: Iterator[Any],
    keys: Iterable[Any],
    state: KeyContext,
    table: Any,
) -> list[Any]:
    """Returns the rolling result after each record; `table` holds the last one of each key."""
    plain = PLAIN
    get = table.get
    results = []
    for key, record in zip(keys, records):
        previous = get(key, _MISSING)
        if previous is not _MISSING:
            state.current_key = key
            record = function(previous, record)
        table[key] = record
        if type(record) is tuple:
            if len(record) != 2 or type(record[0]) not in plain or type(record[1]) not in plain:
                record = detached(record)
        elif type(record) not in plain:
            record = detached(record)
        results.append(record)
    return results


def reduce_into(
    contents: dict[Any, Any],
    keys: Iterable[Any],
    records: Iterable[Any],
    state: KeyContext,
    function: Callable[[Any, Any], Any],
) -> None:
    """Reduces each record into the contents of its key."""
    for key, record in zip(keys, records):
        before = contents.get(key)
        if before is None:
            contents[key] = record
        else:
            state.current_key = key
            contents[key] = function(before, record)


def aggregate_into(
    contents: dict[Any, Any],
    keys: Iterable[Any],
    records: Iterable[Any],
    state: KeyContext,
    create: Callable[[], Any],
    add: Callable[[Any, Any], Any],
) -> None:
    """Adds each record to the accumulator of its key."""
    for key, record in zip(keys, records):
        before = contents.get(key, _MISSING)
        state.current_key = key
        contents[key] = add(record, create() if before is _MISSING else before)


def append_into(contents: dict[Any, Any], keys: Iterable[Any], records: Iterable[Any]) -> None:
    """Appends each record to the list of its key."""
    for key, record in zip(keys, records):
        found = contents.get(key)
        if found is None:
            contents[key] = [record]
        else:
            found.append(record)


def known_targets(known: dict[Any, int], keys: list[Any]) -> list[int]:
    """Returns what is known for each key; raises a KeyError if one is unknown."""
    return [known[key] for key in keys]


def spread_records(
    values: list[Any], keys: list[Any], targets: list[int], value_lists: list[Any], key_lists: list[Any]
) -> None:
    """Appends value i and key i to the lists of `targets[i]`."""
    for key, value, target in zip(keys, values, targets):
        key_lists[target].append(key)
        value_lists[target].append(value)


def spread(items: list[Any], targets: list[int], lists: list[Any]) -> None:
    """Appends item i to `lists[targets[i]]`."""
    for item, target in zip(items, targets):
        lists[target].append(item)
