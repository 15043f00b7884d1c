"""Operators of plain functions without keyed state: map, filter, flat_map."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import compress
from typing import Any

from flintstream.runtime.batch import Batch
from flintstream.runtime.faults import record_at_fault
from flintstream.runtime.loops import flat_map_records, map_records
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
        return map_records(self._map, records)


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
                # Not in a compiled loop: only the interpreter calls functions without a new frame of C.
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
        chunks = flat_map_records(self._flat_map, records, batch.timestamps)
        while True:
            try:
                chunk = next(chunks, None)
            except Exception as error:
                raise self.fault(error, record_at_fault(batch.values, records)) from error
            if chunk is None:
                return
            self.output.emit(chunk)
