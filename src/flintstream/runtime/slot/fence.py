"""Fence: lets each level of each epoch into a slot once, in order, and only for the attempt that runs now.

State must see each record once, but Spark may run a task again: a retry, a stage computed anew, a speculative copy, a second
driver. There is no way to undo the first run, so the second is refused and the job fails over.
"""

from __future__ import annotations

from flintstream.runtime.slot.protocol import Hello


class Refused(Exception):
    """A task may not enter. It belongs to another job, attempt or epoch, and the job goes on without it."""


class EnteredTwice(Refused):
    """A task may not enter, and the job must fail: Spark does not know that its first run has counted."""


class Fence:
    """See the module."""

    def __init__(self, job_id: str, attempt: int, slot: int) -> None:
        self._job_id = job_id
        self._attempt = attempt
        self._slot = slot
        self._level = -1
        """The last level that was entered."""
        self.epoch = -1
        self.broken = False
        """Whether something has failed in this slot: nobody enters any more."""

    def begin_epoch(self, epoch: int) -> None:
        """From now on the levels of this epoch may be entered."""
        self.epoch = epoch
        self._level = -1

    def enter(self, hello: Hello) -> None:
        """Lets a task in, or raises Refused."""
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
