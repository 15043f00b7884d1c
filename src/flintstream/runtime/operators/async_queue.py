"""The order in which results of asynchronous requests are emitted, and the watermarks between them."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from flintstream.runtime.block import Idleness, Watermark

Mark = Watermark | Idleness
"""An element with a fixed position among the records."""


class Run(NamedTuple):
    """Results that are emitted together, and the mark after them."""

    values: list[Any]
    timestamps: list[int]
    requests: int
    """The number of requests they belong to."""
    mark: Mark | None


class Request:
    """A record waiting for its results."""

    __slots__ = ("deadline", "results", "segment", "timestamp", "value")

    def __init__(self, value: Any, timestamp: int) -> None:
        self.value = value
        self.timestamp = timestamp
        self.deadline = 0.0
        self.results: list[Any] | None = None
        self.segment: _Segment | None = None


class RequestQueue:
    """Holds requests until their results may be emitted; a subclass decides when."""

    def __init__(self) -> None:
        self.size = 0
        """The number of requests inside, completed or not."""
        self._runs: list[Run] = []
        self._values: list[Any] = []
        self._timestamps: list[int] = []
        self._requests = 0

    def add(self, request: Request) -> None:
        """Adds a request."""
        raise NotImplementedError

    def add_mark(self, mark: Mark) -> None:
        """Adds a mark: after all requests so far, before all later ones."""
        raise NotImplementedError

    def complete(self, request: Request) -> None:
        """Completes a request."""
        raise NotImplementedError

    def take(self) -> list[Run]:
        """Returns the runs emitted since the last call."""
        if self._requests:
            self._end_run(None)
        runs, self._runs = self._runs, []
        return runs

    def _leave(self, request: Request) -> None:
        results = request.results
        assert results is not None
        self.size -= 1
        self._requests += 1
        self._values += results
        self._timestamps += [request.timestamp] * len(results)

    def _end_run(self, mark: Mark | None) -> None:
        self._runs.append(Run(self._values, self._timestamps, self._requests, mark))
        self._values, self._timestamps, self._requests = [], [], 0


class OrderedQueue(RequestQueue):
    """First in, first out."""

    def __init__(self) -> None:
        super().__init__()
        self._inside: deque[Request | Mark] = deque()

    def add(self, request: Request) -> None:
        self.size += 1
        self._inside.append(request)

    def add_mark(self, mark: Mark) -> None:
        self._inside.append(mark)
        self._advance()

    def complete(self, request: Request) -> None:
        if request is self._inside[0]:
            self._advance()

    def _advance(self) -> None:
        inside = self._inside
        while inside:
            first = inside[0]
            if not isinstance(first, Request):
                self._end_run(first)
            elif first.results is not None:
                self._leave(first)
            else:
                return
            inside.popleft()


class _Segment:
    """The requests between two marks."""

    __slots__ = ("answered", "mark", "waiting")

    def __init__(self) -> None:
        self.waiting = 0
        self.answered: list[Request] = []
        """Completed requests that wait for an earlier segment."""
        self.mark: Mark | None = None
        """The mark that ends the segment; None in the last one."""


class UnorderedQueue(RequestQueue):
    """Emits results as they complete, but never past a mark."""

    def __init__(self) -> None:
        super().__init__()
        self._segments = deque([_Segment()])

    def add(self, request: Request) -> None:
        self.size += 1
        request.segment = self._segments[-1]
        request.segment.waiting += 1

    def add_mark(self, mark: Mark) -> None:
        self._segments[-1].mark = mark
        self._segments.append(_Segment())
        self._advance()

    def complete(self, request: Request) -> None:
        segment = request.segment
        assert segment is not None
        segment.waiting -= 1
        if segment is not self._segments[0]:
            segment.answered.append(request)
            return
        self._leave(request)
        if not segment.waiting:
            self._advance()

    def _advance(self) -> None:
        """Ends the completed segments at the front."""
        segments = self._segments
        while not segments[0].waiting and segments[0].mark is not None:
            self._end_run(segments.popleft().mark)
            for request in segments[0].answered:
                self._leave(request)
            segments[0].answered = []
