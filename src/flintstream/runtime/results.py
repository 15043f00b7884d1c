"""ResultEmitter: the timestamped results of a function on their way out, to the main output and to side outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from flintstream.common.output_tag import OutputTag
from flintstream.runtime.batch import Batch
from flintstream.runtime.detach import ResultGuard
from flintstream.runtime.operators.base import CHUNK
from flintstream.runtime.output import Output, SideBuffer


class ResultEmitter:
    """Gathers results and passes them on in batches."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._sides = SideBuffer(output)
        self._guard = ResultGuard()
        self._detach = self._guard.begin()
        self._values: list[Any] = []
        self._times: list[int] = []

    def add(self, results: Iterable[Any], timestamp: int) -> None:
        """Takes the results of one call, which carry one timestamp; `(tag, value)` goes to a side output."""
        detach, values, times, tag_class = self._detach, self._values, self._times, OutputTag
        for result in results:
            if result.__class__ is tuple and result and result[0].__class__ is tag_class:
                self._sides.add(result[0].tag_id, result[1], timestamp)
            else:
                values.append(result if detach is None else detach(result))
                times.append(timestamp)
                if len(values) >= CHUNK:
                    self.flush()
                    detach, values, times = self._detach, self._values, self._times

    def add_all(self, results: Iterable[Any], timestamp: int) -> None:
        """Takes many results with one timestamp, none of which is for a side output."""
        for some in _chunks(results):
            self._values.extend(some if self._detach is None else map(self._detach, some))
            self._times.extend([timestamp] * len(some))
            if len(self._values) >= CHUNK:
                self.flush()

    def flush(self) -> None:
        """Passes on what was gathered."""
        if self._values:
            batch = Batch(self._values, self._times)
            self._guard.end(self._values)
            self._detach = self._guard.begin()
            self._values, self._times = [], []
            self._output.emit(batch)
        self._sides.flush()


def _chunks(results: Iterable[Any]) -> Iterator[list[Any]]:
    left = iter(results)
    while some := list(islice(left, CHUNK)):
        yield some
