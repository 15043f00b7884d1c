"""Deliveries: results of sinks for the driver, fetched after each epoch and delivered."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from flintstream.jobmaster.progress import Progress
from flintstream.jobmaster.results import Collector, print_lines
from flintstream.jobmaster.slot_calls import SlotCalls
from flintstream.runtime.operators.sinks import PRINT_SPOOL
from flintstream.runtime.slot.messages import FetchPages, ReleaseSpool
from flintstream.runtime.slot.protocol import EpochReport

_MOST_HELD_BYTES = 64 << 20


class Deliveries:
    """Printed lines are delivered at once. Collected records are too or, with checkpoints, once the checkpoint that
    contains them is complete, so that a reader never sees a record twice.
    """

    def __init__(self, progress: Progress, held_back: bool, gone: Callable[[], bool]) -> None:
        self._progress = progress
        self._held_back = held_back
        self._gone = gone
        self._held: list[tuple[int, str, bytes]] = []
        """Epoch, spool and page of results that wait for a checkpoint."""
        self._collectors: dict[str, Collector] = {}
        self._lock = threading.Lock()
        self._ended: Callable[[], BaseException | None] | None = None

    def collector(self, collector_id: str) -> Collector:
        """Returns the collector of a collecting sink."""
        with self._lock:
            known = self._collectors.get(collector_id)
            if known is None:
                known = self._collectors[collector_id] = Collector()
                if self._ended is not None:
                    known.end(self._ended)
            return known

    def take(
        self,
        epoch: int,
        reports: Sequence[EpochReport],
        slots: SlotCalls,
        passed_over: set[str],
    ) -> None:
        """Fetches the results of an epoch from the slots, except for the spools that others fetch."""
        for slot, report in enumerate(reports):
            for spool, pages in report.spools.items():
                if spool in passed_over:
                    continue
                some = report.first_pages.get(spool, [])
                delivered, is_released = 0, len(some) == pages
                while True:
                    for page in some:
                        self._deliver(epoch, spool, page)
                    delivered += len(some)
                    if delivered == pages:
                        break
                    some = slots.call(slot, FetchPages(spool, delivered))
                if not is_released:
                    slots.call(slot, ReleaseSpool(spool))

    def _deliver(self, epoch: int, spool: str, page: bytes) -> None:
        if spool == PRINT_SPOOL:
            with self._progress.paused():
                print_lines(page)
        elif self._held_back:
            self._held.append((epoch, spool, page))
        else:
            self.collector(spool).put(page, self._gone)

    @property
    def hold_much(self) -> bool:
        """Returns whether so much waits for a checkpoint that one should be taken soon."""
        return sum(len(page) for _, _, page in self._held) > _MOST_HELD_BYTES

    def deliver_up_to(self, epoch: int) -> None:
        """Delivers results up to this epoch: a checkpoint that contains it is complete."""
        ready = [each for each in self._held if each[0] <= epoch]
        self._held = [each for each in self._held if each[0] > epoch]
        for _, spool, page in ready:
            self.collector(spool).put(page, self._gone)

    def forget(self) -> None:
        """Discards undelivered results: the attempt has failed, and they will be produced again."""
        self._held = []

    def end(self, failure: BaseException | None) -> None:
        """Ends all collectors."""
        with self._lock:
            self._ended = lambda: failure
            collectors = list(self._collectors.values())
        for collector in collectors:
            collector.end(self._ended)
