"""Progress: the statistics of a running job, and its status line on the terminal."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from flintstream.common.job_status import JobStatus
from flintstream.jobmaster.status_line import StatusLine, status_line
from flintstream.runtime.faults import Fault
from flintstream.runtime.slot.protocol import EpochReport, VertexReport

logger = logging.getLogger("flintstream")

_LONG_EPOCH = 3.0
"""An epoch longer than this many seconds is shown while it runs."""


@dataclass
class EpochNumbers:
    """The statistics of an epoch."""

    epoch: int
    seconds: float
    records: int
    """Records read by sources."""
    busy: list[dict[int, float]]
    """For each slot, the seconds spent in each level."""
    memory: list[int]
    """The resident bytes of each slot."""


class Progress:
    """Counts, and shows a live status line if `shown`. Counts continue after a restart, including records processed
    again.
    """

    def __init__(self, job_name: str, shown: bool, line: StatusLine = status_line) -> None:
        self._job_name = job_name
        self._shown = shown
        self._line = line
        self._started = time.monotonic()
        self._phase: tuple[str, float] | None = None
        self._epoch_since: float | None = None
        self._epochs_done = 0
        self._rate = 0.0
        self.records_in = 0
        self.records_out = 0
        """Records received by sinks."""
        self._earlier_out = 0
        self._earlier_late: Counter[str] = Counter()
        self.late_records: dict[str, int] = {}
        """The number of late records dropped by each operator."""
        self.epochs: list[EpochNumbers] = []
        """The statistics of the last epochs."""

    # --- updates ---

    def phase(self, text: str | None) -> None:
        """Sets what the job is busy with besides epochs; None for nothing."""
        self._phase = None if text is None else (text, time.monotonic())
        self._epoch_since = None
        self._show()

    @property
    def current_phase(self) -> str | None:
        """Returns what the job is busy with besides epochs."""
        phase = self._phase
        return None if phase is None else phase[0]

    def begin_attempt(self) -> None:
        """Starts an attempt: the slots count from 0, and previous counts are kept."""
        self._earlier_out = self.records_out
        self._earlier_late = Counter(self.late_records)

    def begin_epoch(self, timed: bool = True) -> None:
        """Starts an epoch; the line shows if a `timed` one takes long."""
        self._phase = None
        self._epoch_since = time.monotonic() if timed else None
        if not self._epochs_done:
            self._show()

    def epoch(
        self,
        epoch: int,
        seconds: float,
        read: int,
        vertices: Sequence[VertexReport],
        reports: Sequence[EpochReport],
    ) -> None:
        """Adds an epoch; `vertices` and `reports` count from the start of the attempt."""
        self._epoch_since = None
        self._epochs_done += 1
        self._rate = read / seconds if seconds else 0.0
        self.records_in += read
        self.records_out = self._earlier_out + sum(vertex.records_left for vertex in vertices)
        late = Counter(self._earlier_late)
        for report in reports:
            late.update(report.late_records)
        self.late_records = dict(late)
        numbers = EpochNumbers(
            epoch, seconds, read, [report.busy for report in reports], [report.memory for report in reports]
        )
        self.epochs = [*self.epochs[-999:], numbers]
        self._show()

    def restarts(self, number: int, fault: Fault, seconds: float) -> None:
        """Reports that the job has failed, and restarts after some seconds."""
        with self.paused():
            logger.warning("job '%s' failed, restart %d in %.1f s: %s", self._job_name, number, seconds, fault.headline)
        self.phase(f"restart {number}")

    def end(self, status: JobStatus) -> None:
        """Removes the status line and reports how the job has ended."""
        with self.paused():
            for operator, count in self.late_records.items():
                logger.warning(
                    "job '%s': operator '%s' dropped %d late records; use allowed_lateness() or "
                    "side_output_late_data() to keep them",
                    self._job_name,
                    operator,
                    count,
                )
        if self._shown:
            seconds = time.monotonic() - self._started
            self._line.remove(self, f"{self._job_name} · {status.name} · {self._counts()} · {seconds:.1f} s")

    # --- the line ---

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Hides the status line while other lines are printed."""
        with self._line.paused():
            yield

    def text(self) -> str:
        """Returns the current text of the line."""
        now = time.monotonic()
        if self._phase is not None:
            return _busy(self._job_name, *self._phase)
        since = self._epoch_since
        if not self._epochs_done:
            return f"{self._job_name} · running" if since is None else _busy(self._job_name, "first epoch", since)
        parts = [self._job_name, f"epoch {self._epochs_done}", self._counts(), f"{_short(self._rate)} records/s"]
        if since is not None and now - since > _LONG_EPOCH:
            parts.append(f"epoch {self._epochs_done + 1} has run for {now - since:.0f} s")
        return " · ".join(parts)

    def _counts(self) -> str:
        return f"in {_short(self.records_in)} · out {_short(self.records_out)}"

    def _show(self) -> None:
        if self._shown:
            self._line.show(self, self.text)


@contextmanager
def starting_spark(job_name: str, shown: bool, line: StatusLine = status_line) -> Iterator[None]:
    """Shows that Spark is starting; the job takes over the line."""
    owner, since = object(), time.monotonic()
    if shown:
        line.show(owner, lambda: _busy(job_name, "starting Spark", since))
    try:
        yield
    finally:
        if shown:
            line.remove(owner)


def _busy(job_name: str, what: str, since: float) -> str:
    seconds = int(time.monotonic() - since)
    return f"{job_name} · {what} …{f' {seconds} s' if seconds else ''}"


def _short(number: float) -> str:
    for factor, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= factor:
            return f"{number / factor:.1f}{unit}"
    return f"{number:.0f}"
