"""KeyGrouping: in batch mode, passes a keyed operator all records of one key, then all of the next, as in Flink.

Records are buffered in memory up to a bound, then in files, one per bucket of key groups; at the end of the input one
bucket after the other is read back and passed on key by key.
"""

from __future__ import annotations

import pickle
import tempfile
from bisect import bisect_left, bisect_right
from typing import IO, Any

from flintstream.common.keys import key_group
from flintstream.runtime.batch import NO_TIMESTAMP, Batch
from flintstream.runtime.block import decode_block, encode_block
from flintstream.runtime.operators.base import Operator

_BUCKETS = 64
_MEMORY_RECORDS = 200_000

_Waiting = dict[Any, tuple[list[Any], list[int]]]
"""The values and timestamps of the records by key."""


class KeyGrouping:
    """Buffers the input of a keyed operator until its end."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._waiting: list[_Waiting] = [{}, {}]
        self._records = 0
        self._files: list[IO[bytes] | None] = [None] * _BUCKETS

    def add(self, input_index: int, batch: Batch) -> None:
        """Buffers records of an input."""
        if batch.keys is None:
            # The broadcast side, which comes first.
            self._operator.process2(batch)
            return
        if batch.timestamps is None and not self._operator.wants_grouping:
            self._operator.process(batch)
            return
        waiting = self._waiting[input_index]
        timestamps = batch.timestamps or [NO_TIMESTAMP] * len(batch.values)
        for key, value, timestamp in zip(batch.keys, batch.values, timestamps):
            held = waiting.get(key)
            if held is None:
                held = waiting[key] = ([], [])
            held[0].append(value)
            held[1].append(timestamp)
        self._records += len(batch.values)
        if self._records >= _MEMORY_RECORDS:
            self._spill()

    def drain(self) -> None:
        """Passes everything on, key by key; the records of a key in timestamp order, over both inputs."""
        if not any(self._files):
            self._hand_over(self._waiting)
            return
        self._spill()
        for file in self._files:
            if file is not None:
                self._hand_over(_read_back(file))
                file.close()

    def _hand_over(self, waiting: list[_Waiting]) -> None:
        first, second = waiting
        for key in [*first, *(key for key in second if key not in first)]:
            if key in first and key in second:
                self._merge(key, first[key], second[key])
            elif key in first:
                self._operator.process(_in_order(key, *first[key]))
            else:
                self._operator.process2(_in_order(key, *second[key]))
            self._operator.end_key()

    def _merge(self, key: Any, first: tuple[list[Any], list[int]], second: tuple[list[Any], list[int]]) -> None:
        """Passes on the records of both inputs in timestamp order; of equal ones, the first input's first."""
        sides = (_in_order(key, *first), _in_order(key, *second))
        times = [side.timestamps or [NO_TIMESTAMP] * len(side) for side in sides]
        starts = [0, 0]
        while starts[0] < len(sides[0]) and starts[1] < len(sides[1]):
            turn = 0 if times[0][starts[0]] <= times[1][starts[1]] else 1
            # This side's records up to the next one of the other side.
            cut = bisect_left if turn else bisect_right
            stop = cut(times[turn], times[1 - turn][starts[1 - turn]], starts[turn])
            self._process(turn, sides[turn].slice(starts[turn], stop))
            starts[turn] = stop
        for turn, side in enumerate(sides):
            if starts[turn] < len(side):
                self._process(turn, side.slice(starts[turn], len(side)))

    def _process(self, input_index: int, batch: Batch) -> None:
        (self._operator.process2 if input_index else self._operator.process)(batch)

    def _spill(self) -> None:
        for input_index, waiting in enumerate(self._waiting):
            for key, (values, timestamps) in waiting.items():
                bucket = key_group(key, _BUCKETS)
                file = self._files[bucket]
                if file is None:
                    file = self._files[bucket] = tempfile.TemporaryFile()
                pickle.dump((input_index, key, encode_block(Batch(values, timestamps))), file, 5)
            waiting.clear()
        self._records = 0


def _in_order(key: Any, values: list[Any], timestamps: list[int]) -> Batch:
    """Returns the records of a key, in timestamp order if they have timestamps."""
    if all(timestamp == NO_TIMESTAMP for timestamp in timestamps):
        return Batch(values, None, [key] * len(values))
    order = sorted(range(len(values)), key=timestamps.__getitem__)
    return Batch([values[i] for i in order], [timestamps[i] for i in order], [key] * len(values))


def _read_back(file: IO[bytes]) -> list[_Waiting]:
    waiting: list[_Waiting] = [{}, {}]
    file.seek(0)
    while True:
        try:
            input_index, key, block = pickle.load(file)
        except EOFError:
            return waiting
        batch, _ = decode_block(block)
        values, timestamps = waiting[input_index].setdefault(key, ([], []))
        values.extend(batch.values)
        timestamps.extend(batch.timestamps or [])
