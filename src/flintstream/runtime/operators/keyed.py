"""Operators of keyed streams that set the key for each record, and the rolling reduce."""

from __future__ import annotations

from itertools import compress, repeat
from typing import Any

from flintstream.runtime.batch import CHUNK, MAX_WATERMARK, Batch
from flintstream.runtime.detach import PLAIN, detached
from flintstream.runtime.faults import record_at_fault
from flintstream.runtime.loops import map_keyed, map_records, reduce_records
from flintstream.runtime.operators.base import FunctionOperator
from flintstream.runtime.operators.stateless import FilterOperator, FlatMapOperator, MapOperator

_PLAIN = {"map": MapOperator, "filter": FilterOperator, "flat_map": FlatMapOperator}


class RichOperator(FunctionOperator):
    """Calls a map, filter or flat_map function record by record, with the record's key set for its state.

    With two names in `methods` it serves connected streams: one method per input.
    """

    def __init__(self, function: Any, kind: str, methods: tuple[str, ...], keyed: bool) -> None:
        super().__init__(function)
        self.kind = kind
        self.methods = methods
        self.keyed = keyed
        self.two_inputs = len(methods) == 2

    def open(self) -> None:
        super().open()
        self._calls = [self.bound(method) for method in self.methods]
        self._run = {"map": self._map, "filter": self._filter, "flat_map": self._flat_map}[self.kind]

    def process(self, batch: Batch) -> None:
        self._touch(batch)
        self._run(self._calls[0], batch)

    def process2(self, batch: Batch) -> None:
        self._touch(batch)
        self._run(self._calls[1], batch)

    def _touch(self, batch: Batch) -> None:
        if self.context.keyed_state is not None and batch.keys is not None:
            self.context.keyed_state.touch(batch.keys)

    def _map(self, function: Any, batch: Batch) -> None:
        state = self.context.keyed_state
        records = iter(batch.values)
        try:
            if state is None:
                results = map_records(function, records)
            else:
                results = map_keyed(function, records, repeat(None) if batch.keys is None else batch.keys, state)
        except Exception as error:
            raise self.fault(error, record_at_fault(batch.values, records)) from error
        timestamps = batch.timestamps
        if self.two_inputs and any(result is None for result in results):
            # As in PyFlink, where a CoMapFunction may drop a record and a MapFunction may not.
            kept = [result is not None for result in results]
            timestamps = None if timestamps is None else list(compress(timestamps, kept))
            results = list(compress(results, kept))
        self.output.emit(Batch(results, timestamps))

    def _filter(self, function: Any, batch: Batch) -> None:
        state = self.context.keyed_state
        values: list[Any] = []
        timestamps: list[Any] = []
        record: Any = None
        times: Any = repeat(None) if batch.timestamps is None else batch.timestamps
        keys: Any = repeat(None) if batch.keys is None else batch.keys
        try:
            for key, record, timestamp in zip(keys, batch.values, times):
                if state is not None:
                    state.current_key = key
                if function(record):
                    values.append(record)
                    timestamps.append(timestamp)
        except Exception as error:
            raise self.fault(error, record) from error
        self.output.emit(Batch(values, None if batch.timestamps is None else timestamps))

    def _flat_map(self, function: Any, batch: Batch) -> None:
        state = self.context.keyed_state
        timed = batch.timestamps is not None
        plain = PLAIN
        values: list[Any] = []
        timestamps: list[Any] = []
        record: Any = None
        times: Any = repeat(None) if batch.timestamps is None else batch.timestamps
        keys: Any = repeat(None) if batch.keys is None else batch.keys
        try:
            for key, record, timestamp in zip(keys, batch.values, times):
                if state is not None:
                    state.current_key = key
                found = function(record)
                for result in () if found is None else found:
                    values.append(result if type(result) in plain else detached(result))
                    timestamps.append(timestamp)
                    if len(values) >= CHUNK:
                        self.output.emit(Batch(values, timestamps if timed else None))
                        values, timestamps = [], []
        except Exception as error:
            raise self.fault(error, record) from error
        self.output.emit(Batch(values, timestamps if timed else None))


class ReduceOperator(FunctionOperator):
    """The rolling reduce: combines each record with the previous result of its key, and emits the new result.

    In batch mode only the last result of each key is emitted, at the end of the input, as in Flink.
    """

    keyed = True
    wants_grouping = False

    def open(self) -> None:
        assert self.context.keyed_state is not None
        # Before the function's own states, so that none of them can have this name.
        self._results = self.context.keyed_state.engine_table("_reduce")
        super().open()
        self._reduce = self.bound("reduce")

    def process(self, batch: Batch) -> None:
        assert batch.keys is not None
        function, results, state = self._reduce, self._results, self.context.keyed_state
        state.touch(batch.keys)  # type: ignore[union-attr]
        records = iter(batch.values)
        try:
            values = reduce_records(function, records, batch.keys, state, results)  # type: ignore[arg-type]
        except Exception as error:
            raise self.fault(error, record_at_fault(batch.values, records)) from error
        if not self.context.batch_mode:
            self.output.emit(Batch(values, batch.timestamps))

    def process_watermark(self, timestamp: int) -> None:
        if timestamp == MAX_WATERMARK and self.context.batch_mode:
            # The results precede the last watermark, or they would be late downstream.
            finals = list(self._results.values())
            self._results.clear()
            for start in range(0, len(finals), CHUNK):
                values = finals[start : start + CHUNK]
                self.output.emit(Batch(values, [MAX_WATERMARK] * len(values)))
        super().process_watermark(timestamp)


def element_operator(kind: str, function: Any, keyed: bool) -> FunctionOperator:
    """Returns the operator for a function of that kind.

    A plain callable cannot have keyed state. An object may, so it is called with the record's key set.
    """
    if hasattr(function, kind):
        return RichOperator(function, kind, (kind,), keyed)
    return _PLAIN[kind](function)
