"""A source for jobs that a test stops: they must not end before, however fast they are."""

from __future__ import annotations

from flintstream.datastream.connectors.number_seq import NumberSequenceSource
from flintstream.runtime.source import SplitReader


class Partly(NumberSequenceSource):
    """Numbers from 1 to the last, of which a job reads a share of each range only, and then waits for the others."""

    def __init__(self, last, share):
        super().__init__(1, last)
        self._share = share

    def create_reader(self, split, position):
        low, high = split.content
        return PartlyReader(super().create_reader(split, position), low + int(self._share * (high - low)))


class PartlyReader(SplitReader):
    """Reads numbers below a limit, which is the end of the split if all may be read."""

    def __init__(self, reader, limit):
        self._reader = reader
        self._limit = limit

    @property
    def position(self):
        return self._reader.position

    def read(self, limit):
        batch = self._reader.read(max(0, min(limit, self._limit - self._reader.position)))
        self.finished = self._reader.finished
        return batch
