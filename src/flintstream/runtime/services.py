"""SlotServices: the services of a slot for its operators."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable
from functools import cached_property
from typing import IO, TYPE_CHECKING, Any

from flintstream.common.pickling import dumps
from flintstream.runtime.feedback import FeedbackQueue

if TYPE_CHECKING:
    from flintstream.runtime.event_loop import EventLoop
    from flintstream.runtime.state.queryable import QueryableState

PAGE_RECORDS = 4096
STEP_SECONDS = 0.05
_MEMORY_BYTES = 8 * 1024 * 1024


class Spool:
    """Results for the driver, as pages of pickled records; large ones are on disk."""

    def __init__(self, kept: bool = False) -> None:
        self.kept = kept
        self.staged = False
        """Whether it waits for a checkpoint, instead of being a result of an epoch."""
        self._file: IO[bytes] | None = None
        self._pages: list[tuple[int, int]] = []
        self.records = 0

    def append(self, records: list[Any]) -> None:
        """Adds records as one or more pages."""
        for start in range(0, len(records), PAGE_RECORDS):
            page = records[start : start + PAGE_RECORDS]
            self.append_page(dumps(page))
            self.records += len(page)

    def append_page(self, data: bytes) -> None:
        """Adds a page of bytes."""
        if self._file is None:
            self._file = tempfile.SpooledTemporaryFile(max_size=_MEMORY_BYTES)
        self._file.seek(0, 2)
        self._pages.append((self._file.tell(), len(data)))
        self._file.write(data)

    @property
    def pages(self) -> int:
        """Returns the number of pages."""
        return len(self._pages)

    def page(self, index: int) -> bytes:
        """Returns the bytes of a page."""
        assert self._file is not None
        offset, length = self._pages[index]
        self._file.seek(offset)
        return self._file.read(length)

    def some_pages(self, first: int, most_bytes: int) -> list[bytes]:
        """Returns the pages from one on, as many as have so many bytes together; none if that one has more."""
        ends = itertools.accumulate(length for _, length in self._pages[first:])
        count = sum(1 for _ in itertools.takewhile(lambda end: end <= most_bytes, ends))
        return [self.page(index) for index in range(first, first + count)]

    def clear(self) -> None:
        """Removes all pages."""
        if self._file is not None:
            self._file.close()
        self._file = None
        self._pages = []
        self.records = 0


def _nothing() -> None:
    pass


def system_clock() -> int:
    """Returns this machine's clock, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class SlotServices:
    """The slot, as seen by its operators.

    `notify_data` tells the driver that a source has data, so that it runs an epoch. It may be called from any thread.
    `clock` returns the processing time in milliseconds since 1970.
    """

    def __init__(
        self,
        notify_data: Callable[[], None] = lambda: None,
        clock: Callable[[], int] | None = None,
        directory: str | None = None,
    ) -> None:
        self._directory = directory
        self.notify_data = notify_data
        self.clock = system_clock if clock is None else clock
        self.spools: dict[str, Spool] = {}
        self.sealed: dict[str, Spool] = {}
        """The results of epochs that have ended, for the driver to fetch."""
        self._feedback: dict[int, FeedbackQueue] = {}
        self.safe_point: Callable[[], None] = _nothing
        """Called by the processing thread where no user code is on its stack, some hundred times a second: queries of
        state are answered there.
        """
        self.step_seconds = STEP_SECONDS
        """How long to work between two safe points."""
        self.on_queryable: Callable[[int, str, str, QueryableState], None] | None = None
        """Told of each queryable state, with the vertex, the id and the name of its operator; None if queries are
        disabled.
        """

    @cached_property
    def directory(self) -> str:
        """Returns a local directory for files that need not outlive the slot."""
        return tempfile.mkdtemp(prefix="flint-slot-") if self._directory is None else self._directory

    def spool(self, name: str, kept: bool = False) -> Spool:
        """Returns the spool of that name, creating it if needed; the driver fetches its pages once they are sealed.

        The pages of a `kept` spool stay until the driver releases them, and Spark tasks may read them.
        """
        spool = self.spools.get(name)
        if spool is None:
            spool = self.spools[name] = Spool(kept)
        return spool

    def seal(self, name: str) -> None:
        """Ends the epoch for a spool: the driver fetches its pages, and what is added from now on is of the next epoch."""
        spool = self.spools.pop(name, None)
        if spool is None or not spool.pages:
            return
        before = self.sealed.setdefault(name, spool)
        if before is not spool:  # Several sinks may share a spool, and end the epoch at different times.
            for number in range(spool.pages):
                before.append_page(spool.page(number))
            before.records += spool.records
            spool.clear()

    def seal_all(self) -> None:
        """Seals all results, at the end of the job."""
        for name in [name for name, spool in self.spools.items() if not spool.staged]:
            self.seal(name)

    def find(self, name: str) -> Spool | None:
        """Returns a spool that the driver may fetch: a sealed one, or one that waits for a checkpoint."""
        spool = self.sealed.get(name) or self.spools.get(name)
        # A spool of that name which is not sealed has results of an epoch that has not ended.
        return spool if name in self.sealed or (spool is not None and spool.staged) else None

    def release(self, name: str) -> None:
        """Removes a spool that the driver has read, unless it is gone already."""
        spool = self.find(name)
        if spool is not None:
            (self.sealed if name in self.sealed else self.spools).pop(name)
            spool.clear()

    def feedback(self, iteration: int) -> FeedbackQueue:
        """Returns the queue from the tails of an iteration to its head, creating it if needed."""
        queue = self._feedback.get(iteration)
        if queue is None:
            queue = self._feedback[iteration] = FeedbackQueue(lambda: self.directory)
        return queue

    def stage(self, name: str, staged_name: str) -> bool:
        """Moves the contents of a spool, if any, to another name, to wait for a checkpoint."""
        spool = self.spools.pop(name, None)
        if spool is None or not spool.pages:
            return False
        spool.staged = True
        self.spools[staged_name] = spool
        return True

    @cached_property
    def event_loop(self) -> EventLoop:
        """Returns the asyncio loop shared by all asynchronous operators of the slot; it runs while one of them holds
        it.
        """
        from flintstream.runtime.event_loop import EventLoop  # Imported here because most slots need no asyncio.

        return EventLoop()
