"""ResultEmitter: emits timestamped results of a function to the main output and to side outputs."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from flintstream.common.output_tag import OutputTag
from flintstream.runtime.batch import CHUNK, Batch
from flintstream.runtime.detach import PLAIN, detached
from flintstream.runtime.output import Output, SideBuffer


class ResultEmitter:
    """Collects results and emits them in batches."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._sides = SideBuffer(output)
        self._values: list[Any] = []
        self._times: list[int] = []

    def add(self, results: Iterable[Any], timestamp: int) -> None:
        """Adds the results of one call, with one timestamp; `(tag, value)` goes to a side output."""
        values, times, plain, tag_class = self._values, self._times, PLAIN, OutputTag
        for result in results:
            if type(result) not in plain:
                if type(result) is tuple and result and result[0].__class__ is tag_class:
                    self._sides.add(result[0].tag_id, result[1], timestamp)
                    continue
                result = detached(result)
            values.append(result)
            times.append(timestamp)
            if len(values) >= CHUNK:
                self.flush()
                values, times = self._values, self._times

    def add_all(self, results: Iterable[Any], timestamp: int) -> None:
        """Adds results with one timestamp, none of which is for a side output."""
        plain = PLAIN
        left = (result if type(result) in plain else detached(result) for result in results)
        while some := list(islice(left, CHUNK)):
            self._values.extend(some)
            self._times.extend([timestamp] * len(some))
            if len(self._values) >= CHUNK:
                self.flush()

    def flush(self) -> None:
        """Emits the collected results."""
        if self._values:
            batch = Batch(self._values, self._times)
            self._values, self._times = [], []
            self._output.emit(batch)
        self._sides.flush()
