"""Progress: the numbers of a running job, and the live line that shows them on a terminal."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from flintstream.common.job_status import JobStatus
from flintstream.runtime.faults import Fault
from flintstream.runtime.protocol import EpochReport, VertexReport

logger = logging.getLogger("flintstream")


@dataclass
class EpochNumbers:
    """What an epoch did."""

    epoch: int
    seconds: float
    records: int
    """Records that sources let in."""
    busy: list[dict[int, float]]
    """For each slot, the seconds spent in each level."""
    memory: list[int]
    """The resident bytes of each slot."""


class Progress:
    """Counts, and shows one live line where `shown`."""

    def __init__(self, job_name: str, shown: bool) -> None:
        self._job_name = job_name
        self._shown = shown
        self._lock = threading.RLock()
        self._line = ""
        self._started = time.monotonic()
        self.records_in = 0
        self.records_out = 0
        self.late_records: dict[str, int] = {}
        """How many records each operator has dropped because they came too late."""
        self.epochs: list[EpochNumbers] = []
        """The numbers of the last epochs."""

    def epoch(
        self,
        epoch: int,
        seconds: float,
        read: int,
        vertices: Sequence[VertexReport],
        reports: Sequence[EpochReport],
    ) -> None:
        """Takes in an epoch."""
        self.records_in += read
        self.records_out = sum(vertex.records_in for vertex in vertices if vertex.is_last)
        late: Counter[str] = Counter()
        for report in reports:
            late.update(report.late_records)
        self.late_records = dict(late)
        numbers = EpochNumbers(
            epoch, seconds, read, [report.busy for report in reports], [report.memory for report in reports]
        )
        self.epochs = [*self.epochs[-999:], numbers]
        if self._shown:
            rate = read / seconds if seconds else 0.0
            self._show(
                f"{self._job_name} · epoch {epoch} · in {_short(self.records_in)} · out {_short(self.records_out)}"
                f" · {_short(rate)} records/s"
            )

    @contextmanager
    def paused(self) -> Iterator[None]:
        """While lines are printed, the live line is out of their way."""
        with self._lock:
            if self._line:
                sys.stderr.write("\r\x1b[2K")
                sys.stderr.flush()
            yield
            if self._line:
                sys.stderr.write(self._line)
                sys.stderr.flush()

    def restarts(self, number: int, fault: Fault, seconds: float) -> None:
        """The job has failed, and starts again after some seconds."""
        with self.paused():
            logger.warning(
                "job '%s' has failed, restart %d in %.1f s: %s", self._job_name, number, seconds, fault.summary
            )

    def end(self, status: JobStatus) -> None:
        """Removes the live line and says how the job has ended."""
        with self.paused():
            for operator, count in self.late_records.items():
                logger.warning(
                    "job '%s': operator '%s' has dropped %d late records; allowed_lateness() or side_output_late_data() "
                    "would have kept them",
                    self._job_name,
                    operator,
                    count,
                )
        if not self._shown:
            return
        seconds = time.monotonic() - self._started
        with self._lock:
            sys.stderr.write(
                f"\r\x1b[2K{self._job_name} · {status.name} · in {_short(self.records_in)}"
                f" · out {_short(self.records_out)} · {seconds:.1f} s\n"
            )
            sys.stderr.flush()
            self._line = ""

    def _show(self, line: str) -> None:
        with self._lock:
            self._line = f"\r\x1b[2K{line}"
            sys.stderr.write(self._line)
            sys.stderr.flush()


def _short(number: float) -> str:
    for factor, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= factor:
            return f"{number / factor:.1f}{unit}"
    return f"{number:.0f}"
