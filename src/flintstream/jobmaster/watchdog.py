"""Watchdog: monitors an attempt while the job's thread waits for its slots.

It reports what slots are stuck in, times out checkpoints that cannot start because an epoch does not end, and detects
slots that no longer respond and a pipelined job whose tasks hang.
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
"""The maximum time between two checks while a timeout runs."""
_TRANSPORT_SECONDS = 60.0
"""How long a barrier may wait while no slot has anything to do; `heartbeat.timeout` if that is shorter."""
_log = logging.getLogger(__name__)


class Slots(Protocol):
    """The watchdog's interface to the slots."""

    def look(self) -> dict[int, Activity | None]:
        """Returns the activity of each slot; None for one that does not answer."""

    def describe(self, looked: tuple[int, Activity | None]) -> str:
        """Returns a readable description of an activity."""

    def beat(self) -> None:
        """Sends a heartbeat."""


class Diagnosis:
    """The activities of the slots, the most suspicious one first.

    `thread` is the one that waits for them: if no slot is busy, it may be the one that hangs.
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
                "no slot is busy: Spark has not started the tasks that feed them, or the driver itself waits\n"
                + self._driver_stack
            ).rstrip()
        return "\n".join(self._told)

    def fault(self, summary: str) -> Fault:
        """Returns a fault that names the operator of the first suspect."""
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
    """False while operators are opened, as long as a restore may take, or closed: no checkpoint is taken then."""
    is_barrier: bool = False
    """Whether slots pass a barrier on to each other."""


class Watchdog:
    """The watchdog thread of one attempt. `on_failure` is called with the fault that ends the attempt."""

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
        self._idle_seconds = 0.0
        """How long no slot has had anything to do although a barrier has not passed."""
        self._ended = threading.Event()
        limits = (timeouts.report_after, timeouts.heartbeat_interval, coordinator.settings.timeout)
        self._tick_seconds = min(_TICK_SECONDS, *(limit / _TICKS for limit in limits))

    def start(self) -> None:
        """Starts the thread."""
        threading.Thread(target=self._run, name="watchdog", daemon=True).start()

    def end(self) -> None:
        """Ends the watchdog with its attempt."""
        self._ended.set()

    @contextmanager
    def waiting(self, name: str, delays_checkpoints: bool = True, is_barrier: bool = False) -> Iterator[None]:
        """Marks that the job's thread waits for slots, within the context."""
        if self._work is not None:
            yield
            return
        self._next_report = self._timeouts.report_after
        self._thread = threading.get_ident()
        self._idle_seconds = 0.0
        self._work = _Work(name, time.monotonic(), delays_checkpoints, is_barrier)
        try:
            yield
        finally:
            self._work = None

    def _run(self) -> None:
        while not self._ended.wait(self._tick_seconds):
            try:
                self.tick()
            except Exception:
                _log.exception("job '%s': the watchdog failed", self._job_name)

    def tick(self) -> None:
        """Runs all checks once."""
        now = time.monotonic()
        work = self._work
        if now >= self._next_beat:
            self._next_beat = now + self._timeouts.heartbeat_interval
            self._slots.beat()
        self._expire_checkpoints(work is not None)
        if work is not None:
            if work.delays_checkpoints:
                self._expire_due(work)
            if work.is_barrier:
                self._watch_transport(work, now)
            self._report(work)

    def _expire_checkpoints(self, waiting: bool) -> None:
        """Aborts checkpoints in progress that have timed out. If the job's thread does not wait for slots, it handles
        the outcome itself.
        """
        if not self._coordinator.timed_out():
            return
        diagnosis = Diagnosis(self._slots, self._thread)
        for outcome in self._coordinator.expire(lambda pending: str(diagnosis)):
            if waiting and not outcome.tolerated:
                self._fail(f"{outcome.pending.kind} has timed out", diagnosis)

    def _expire_due(self, work: _Work) -> None:
        """Counts a due checkpoint that cannot start as failed."""
        if not self._coordinator.is_overdue(work.since):
            return
        diagnosis = Diagnosis(self._slots, self._thread)
        if self._work is not work:
            return  # It has ended after all.
        if self._coordinator.count_overdue():
            _log.warning("job '%s': %s: %s", self._job_name, self._not_begun(work), diagnosis)
        else:
            self._fail(self._not_begun(work), diagnosis)

    def _watch_transport(self, work: _Work, now: float) -> None:
        """Fails the attempt if a barrier does not pass although no slot is busy, nor any user code: then it is in
        flight, in a task of the standing job that hangs.
        """
        if now - work.since < 2 * self._tick_seconds:
            return
        activities = self._slots.look().values()
        if any(activity is None or activity.work is not None for activity in activities) or self._work is not work:
            self._idle_seconds = 0.0
            return
        # By ticks, not by the clock: a driver that was suspended has seen nothing meanwhile.
        self._idle_seconds += self._tick_seconds
        limit = min(_TRANSPORT_SECONDS, self._timeouts.heartbeat_timeout)
        if self._idle_seconds >= limit:
            self._idle_seconds = 0.0
            text = (
                f"nothing has arrived at any slot for {limit:g} s, although {work.name} is in flight: a Spark task of the "
                "pipelined job hangs (heartbeat.timeout)"
            )
            self._on_failure(Fault(None, None, None, text, text))

    def _not_begun(self, work: _Work) -> str:
        return f"a checkpoint could not start for {self._coordinator.settings.timeout:g} s, since {work.name} has not ended"

    def _fail(self, what: str, diagnosis: Diagnosis) -> None:
        self._on_failure(diagnosis.fault(f"{what}, and no more failures are tolerated"))

    def explain(self) -> str:
        """Describes what the job's thread waits for, and what the slots are doing."""
        work = self._work
        return "" if work is None else f"{work.name} has not ended: {Diagnosis(self._slots, self._thread)}"

    def _report(self, work: _Work) -> None:
        waited = time.monotonic() - work.since
        if waited >= self._next_report:
            self._next_report = 2 * waited
            diagnosis = Diagnosis(self._slots, self._thread)
            _log.warning("job '%s': %s has taken %.0f s so far: %s", self._job_name, work.name, waited, diagnosis)


def _suspicion(looked: tuple[int, Activity | None]) -> tuple[int, float]:
    """The sort key, the most suspicious first: a slot that does not answer, then one in an operator; of those, the
    longest.
    """
    activity = looked[1]
    if activity is None:
        return 0, 0.0
    return (2 if activity.operator is None else 1), -activity.seconds
