"""Watchdog: looks after an attempt while the job's thread waits for its slots, however long they take.

It tells what slots are stuck in, lets checkpoints time out although the epoch behind which they would be taken does not end,
and notices slots that are not heard of any more.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from flintstream.runtime.checkpoint.coordinator import CheckpointCoordinator
from flintstream.runtime.faults import Fault
from flintstream.runtime.slot.protocol import Activity
from flintstream.runtime.stacks import frame_of, stack_of
from flintstream.spark.timeouts import SlotTimeouts

_TICK_SECONDS = 1.0
_TICKS = 10
"""How often, at least, the watchdog looks while a time-out runs."""
_log = logging.getLogger(__name__)


class Slots(Protocol):
    """What the watchdog asks of the slots."""

    def look(self) -> dict[int, Activity | None]:
        """What each does now; None for one that does not answer."""

    def describe(self, looked: tuple[int, Activity | None]) -> str:
        """What one does, for a person."""

    def beat(self) -> None:
        """Asks for a sign of life."""


class Diagnosis:
    """What the slots do, the most suspicious one first.

    `thread` is the one that waits for them: where none is at work, it may be what hangs.
    """

    def __init__(self, slots: Slots, thread: int | None = None) -> None:
        looked = slots.look().items()
        suspects = [each for each in looked if each[1] is None or each[1].work is not None]
        suspects.sort(key=_suspicion)
        self.suspects = suspects
        self._told = [slots.describe(each) for each in suspects]
        self._driver_stack = stack_of(frame_of(thread)) if thread is not None else ""

    def __str__(self) -> str:
        if not self.suspects:
            return (
                "no slot is at work: Spark has not started the tasks that feed them, or the driver itself waits\n"
                + self._driver_stack
            ).rstrip()
        return "\n".join(self._told)

    def fault(self, summary: str) -> Fault:
        """A fault that names the operator of the first suspect."""
        activity = self.suspects[0][1] if self.suspects else None
        if activity is None:
            return Fault(None, None, None, str(self), f"{summary}: {str(self).partition(chr(10))[0]}")
        text = f"{summary}: {self._told[0].partition(chr(10))[0]}"
        return Fault(activity.operator, activity.subtask, None, activity.stacks(), text)


@dataclass(frozen=True, eq=False)
class _Work:
    """What the job's thread waits for."""

    name: str
    since: float
    delays_checkpoints: bool
    """Not while operators are opened, as long as a restore may take, nor while they are closed: none is to be taken then."""


class Watchdog:
    """A thread of one attempt. `on_failure` is called with the fault for which the attempt has to end."""

    def __init__(
        self,
        job_name: str,
        slots: Slots,
        coordinator: CheckpointCoordinator,
        timeouts: SlotTimeouts,
        on_failure: Callable[[Fault], None],
    ) -> None:
        self._job_name = job_name
        self._slots = slots
        self._coordinator = coordinator
        self._timeouts = timeouts
        self._on_failure = on_failure
        self._work: _Work | None = None
        self._thread: int | None = None
        self._next_report = timeouts.report_after
        self._next_beat = 0.0
        self._ended = threading.Event()
        limits = (timeouts.report_after, timeouts.heartbeat_interval, coordinator.settings.timeout)
        self._tick_seconds = min(_TICK_SECONDS, *(limit / _TICKS for limit in limits))

    def start(self) -> None:
        """Starts the thread."""
        threading.Thread(target=self._run, name="watchdog", daemon=True).start()

    def end(self) -> None:
        """The attempt is over: nothing of it matters any more."""
        self._ended.set()

    @contextmanager
    def waiting(self, name: str, delays_checkpoints: bool = True) -> Iterator[None]:
        """While the job's thread waits for slots; what is begun within it belongs to it."""
        if self._work is not None:
            yield
            return
        self._next_report = self._timeouts.report_after
        self._thread = threading.get_ident()
        self._work = _Work(name, time.monotonic(), delays_checkpoints)
        try:
            yield
        finally:
            self._work = None

    def _run(self) -> None:
        while not self._ended.wait(self._tick_seconds):
            try:
                self.tick()
            except Exception:
                _log.exception("job '%s': the watchdog has failed", self._job_name)

    def tick(self) -> None:
        """Looks at everything once."""
        now = time.monotonic()
        work = self._work
        if now >= self._next_beat:
            self._next_beat = now + self._timeouts.heartbeat_interval
            self._slots.beat()
        self._expire_checkpoints(work is not None)
        if work is not None:
            if work.delays_checkpoints:
                self._expire_due(work)
            self._report(work)

    def _expire_checkpoints(self, waiting: bool) -> None:
        """Those on their way. If the job's thread does not wait for slots, it takes the outcome itself."""
        if not self._coordinator.late():
            return
        diagnosis = Diagnosis(self._slots, self._thread)
        for outcome in self._coordinator.expire(lambda pending: str(diagnosis)):
            if waiting and not outcome.tolerated:
                self._fail(f"{outcome.pending.kind} has timed out", diagnosis)

    def _expire_due(self, work: _Work) -> None:
        """The one that is due and cannot begin."""
        if not self._coordinator.is_overdue(work.since):
            return
        diagnosis = Diagnosis(self._slots, self._thread)
        if self._work is not work:
            return  # It has ended at last.
        if self._coordinator.miss():
            _log.warning("job '%s': %s: %s", self._job_name, self._not_begun(work), diagnosis)
        else:
            self._fail(self._not_begun(work), diagnosis)

    def _not_begun(self, work: _Work) -> str:
        return f"a checkpoint could not begin for {self._coordinator.settings.timeout:g} s, since {work.name} has not ended"

    def _fail(self, what: str, diagnosis: Diagnosis) -> None:
        self._on_failure(diagnosis.fault(f"{what}, and no more failures are tolerated"))

    def explain(self) -> str:
        """What the job's thread waits for, and what the slots do meanwhile."""
        work = self._work
        return "" if work is None else f"{work.name} has not ended: {Diagnosis(self._slots, self._thread)}"

    def _report(self, work: _Work) -> None:
        waited = time.monotonic() - work.since
        if waited >= self._next_report:
            self._next_report = 2 * waited
            diagnosis = Diagnosis(self._slots, self._thread)
            _log.warning("job '%s': %s has taken %.0f s so far: %s", self._job_name, work.name, waited, diagnosis)


def _suspicion(looked: tuple[int, Activity | None]) -> tuple[int, float]:
    """The least first: one that does not answer, then one within an operator; of those, what has lasted longest."""
    activity = looked[1]
    if activity is None:
        return 0, 0.0
    return (2 if activity.operator is None else 1), -activity.seconds
