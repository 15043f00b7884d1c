"""Operators that look at one record at a time and keep nothing: map, filter, flat_map."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import compress, islice
from typing import Any

from flintstream.runtime.batch import Batch
from flintstream.runtime.detach import detached
from flintstream.runtime.faults import record_at_fault
from flintstream.runtime.operators.base import CHUNK, FunctionOperator

_MADE_AT_ONCE = frozenset((list, tuple, str, set, frozenset, dict))


class MapOperator(FunctionOperator):
    """One result for each record."""

    def open(self) -> None:
        super().open()
        self._map = self.bound("map")

    def process(self, batch: Batch) -> None:
        function = self._map
        records = iter(batch.values)
        try:
            results = [function(value) for value in records]
        except Exception as error:
            raise self.fault(error, record_at_fault(batch.values, records)) from error
        self.output.emit(Batch(results, batch.timestamps))


class FilterOperator(FunctionOperator):
    """Keeps the records for which the function is true."""

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
    """Any number of results for each record; a result of None means none."""

    def open(self) -> None:
        super().open()
        self._flat_map = self.bound("flat_map")

    def process(self, batch: Batch) -> None:
        function = self._flat_map
        records = iter(batch.values)
        if batch.timestamps is None:
            results = (result for value in records for result in _all_of(function(value)))
            while True:
                try:
                    chunk = list(islice(results, CHUNK))
                except Exception as error:
                    raise self.fault(error, record_at_fault(batch.values, records)) from error
                if not chunk:
                    return
                self.output.emit(Batch(chunk))
        timed = (
            (result, timestamp)
            for value, timestamp in zip(records, batch.timestamps)
            for result in _all_of(function(value))
        )
        while True:
            try:
                pairs = list(islice(timed, CHUNK))
            except Exception as error:
                raise self.fault(error, record_at_fault(batch.values, records)) from error
            if not pairs:
                return
            self.output.emit(Batch([result for result, _ in pairs], [timestamp for _, timestamp in pairs]))


def _all_of(found: Any) -> Iterable[Any]:
    """What a function gave for a record. A generator may change what it has yielded when it is asked for more."""
    if found.__class__ in _MADE_AT_ONCE:
        return found
    return () if found is None else map(detached, found)
