"""SlotServices: the services of a slot for its operators."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import cached_property
from typing import IO, TYPE_CHECKING, Any

from flintstream.common.pickling import dumps

if TYPE_CHECKING:
    from flintstream.runtime.event_loop import EventLoop

PAGE_RECORDS = 4096
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

    def clear(self) -> None:
        """Removes all pages."""
        if self._file is not None:
            self._file.close()
        self._file = None
        self._pages = []
        self.records = 0


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

    @cached_property
    def directory(self) -> str:
        """Returns a local directory for files that need not outlive the slot."""
        return tempfile.mkdtemp(prefix="flint-slot-") if self._directory is None else self._directory

    def spool(self, name: str, kept: bool = False) -> Spool:
        """Returns the spool of that name, creating it if needed; the driver fetches its pages after each epoch.

        The pages of a `kept` spool stay until the driver releases them, and Spark tasks may read them.
        """
        spool = self.spools.get(name)
        if spool is None:
            spool = self.spools[name] = Spool(kept)
        return spool

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
