"""Operators of plain functions without keyed state: map, filter, flat_map.

It cannot be known whether a function keeps a result that it emits, so each result is checked before the next call.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import compress, repeat
from typing import Any

from flintstream.runtime.batch import CHUNK, Batch
from flintstream.runtime.detach import PLAIN, detached
from flintstream.runtime.faults import record_at_fault
from flintstream.runtime.operators.base import FunctionOperator


class MapOperator(FunctionOperator):
    """Maps each record to one result."""

    def open(self) -> None:
        super().open()
        self._map = self.bound("map")

    def process(self, batch: Batch) -> None:
        records = iter(batch.values)
        try:
            results = self._results(records)
        except Exception as error:
            raise self.fault(error, record_at_fault(batch.values, records)) from error
        self.output.emit(Batch(results, batch.timestamps))

    def _results(self, records: Iterator[Any]) -> list[Any]:
        function, plain, kind, pair = self._map, PLAIN, type, tuple
        results: list[Any] = []
        # Results are mostly of one class, or pairs of the same two: comparing classes costs less than looking them up.
        previous = previous_first = previous_second = None
        # Unpacking costs less than a length check, except when it fails: after the first failure it is not tried again.
        pairs = True
        for record in records:
            result = function(record)
            if kind(result) is not previous:
                if pairs and kind(result) is pair:
                    try:
                        first, second = result
                        same = kind(first) is previous_first and kind(second) is previous_second
                    except ValueError:
                        pairs = same = False
                    if not same:
                        if pairs and kind(first) in plain and kind(second) in plain:
                            previous_first, previous_second = kind(first), kind(second)
                        else:
                            result = detached(result)
                elif kind(result) in plain:
                    previous = kind(result)
                else:
                    result = detached(result)
            results.append(result)
        return results


class PureMapOperator(MapOperator):
    """Maps with a function of the engine, which keeps no reference: results are passed on without checks."""

    def _results(self, records: Iterator[Any]) -> list[Any]:
        return list(map(self._map, records))


class FilterOperator(FunctionOperator):
    """Keeps the records for which the function returns true."""

    def open(self) -> None:
        super().open()
        self._filter = self.bound("filter")

    def process(self, batch: Batch) -> None:
        function = self._filter
        records = iter(batch.values)
        try:
            if batch.timestamps is None:
                passed = Batch([value for value in records if function(value)])
            else:
                kept = [bool(function(value)) for value in records]
                passed = Batch(list(compress(batch.values, kept)), list(compress(batch.timestamps, kept)))
        except Exception as error:
            raise self.fault(error, record_at_fault(batch.values, records)) from error
        self.output.emit(passed)


class FlatMapOperator(FunctionOperator):
    """Maps each record to any number of results; None means none."""

    def open(self) -> None:
        super().open()
        self._flat_map = self.bound("flat_map")

    def process(self, batch: Batch) -> None:
        records = iter(batch.values)
        chunks = self._chunks(records, batch.timestamps)
        while True:
            try:
                chunk = next(chunks, None)
            except Exception as error:
                raise self.fault(error, record_at_fault(batch.values, records)) from error
            if chunk is None:
                return
            self.output.emit(chunk)

    def _chunks(self, records: Iterator[Any], times: list[int] | None) -> Iterator[Batch]:
        function, plain = self._flat_map, PLAIN
        timed = times is not None
        values: list[Any] = []
        timestamps: list[Any] = []
        previous: type | None = None  # As in `MapOperator`.
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
