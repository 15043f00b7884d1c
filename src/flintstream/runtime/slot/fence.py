"""Fence: admits each level of each epoch to a slot once, in order, and only for the current attempt.

State must see each record once, but Spark may run a task again: a retry, a recomputed stage, a speculative copy, a second
driver. The first run cannot be undone, so the second is refused and the job fails over.
"""

from __future__ import annotations

from flintstream.runtime.slot.protocol import Hello, Join


class Refused(Exception):
    """A task is not admitted: it belongs to another job, attempt or epoch. The job continues without it."""


class EnteredTwice(Refused):
    """A task is not admitted, and the job must fail: Spark has run it a second time."""


class Fence:
    """See the module."""

    def __init__(self, job_id: str, attempt: int, slot: int) -> None:
        self._job_id = job_id
        self._attempt = attempt
        self._slot = slot
        self._level = -1
        """The last admitted level."""
        self.epoch = -1
        self._joined: set[bool] = set()
        self.broken = False
        """Whether something has failed in this slot: no task is admitted any more."""

    def begin_epoch(self, epoch: int) -> None:
        """Begins an epoch: its levels may be entered from now on."""
        self.epoch = epoch
        self._level = -1

    def enter(self, hello: Hello) -> None:
        """Admits a task, or raises Refused."""
        if not isinstance(hello, Hello) or (hello.job_id, hello.slot) != (self._job_id, self._slot):
            raise Refused(f"this is slot {self._slot} of job {self._job_id}")
        if hello.attempt != self._attempt:
            raise Refused(f"attempt {hello.attempt} has ended, this is attempt {self._attempt}")
        if hello.epoch != self.epoch:
            raise Refused(f"epoch {hello.epoch} is not the one that runs, {self.epoch}")
        if self.broken:
            raise Refused(f"epoch {hello.epoch} has failed in this slot")
        if hello.level <= self._level:
            raise EnteredTwice(
                f"level {hello.level} of epoch {hello.epoch} was processed here before: Spark ran a task twice, "
                "and records must not be counted twice"
            )
        self._level = hello.level

    def join(self, hello: Join) -> None:
        """Admits a task of a pipelined job, one for each direction, or raises Refused."""
        if (hello.job_id, hello.slot) != (self._job_id, self._slot):
            raise Refused(f"this is slot {self._slot} of job {self._job_id}")
        if hello.attempt != self._attempt:
            raise Refused(f"attempt {hello.attempt} has ended, this is attempt {self._attempt}")
        if self.broken:
            raise Refused(f"attempt {hello.attempt} has failed in this slot")
        if hello.sends in self._joined:
            raise EnteredTwice(
                "Spark ran a task of the pipelined job twice: what the first one carried may be lost, or come twice"
            )
        self._joined.add(hello.sends)

    @property
    def joined(self) -> bool:
        """Returns whether the tasks of both directions have joined."""
        return len(self._joined) == 2
