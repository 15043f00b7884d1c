"""The activity of a slot's processing thread, observed by another thread: operator, duration and stack.

The processing thread only records what it starts; the operator and the call of user code are found on its stack.
"""

from __future__ import annotations

import threading
import time
from types import FrameType

from flintstream.runtime.checkpoint.uploads import THREAD
from flintstream.runtime.operators.base import Operator
from flintstream.runtime.slot.protocol import Activity
from flintstream.runtime.stacks import frame_of, is_engine, stack_of

_USER_THREADS = ("source ", "event loop")
"""The prefixes of the names of other threads that run user code: of source functions, and of asynchronous functions."""
_SHORT_SECONDS = 2.0


class ActivityMonitor:
    """Observes the thread that creates it."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._work: tuple[str, float] | None = None
        self._call: tuple[FrameType, float] | None = None
        """The call of user code last seen, and since when. The frame itself is kept, since its address may be reused.
        """

    def begin(self, work: str) -> None:
        """Records that the thread starts something."""
        self._work = (work, time.monotonic())

    def end(self) -> None:
        """Records that the thread is idle."""
        self._work = self._call = None

    def look(self, uploading_since: float | None = None) -> Activity:
        """Returns the thread's activity, or else that a snapshot is being stored; called by another thread."""
        now = time.monotonic()
        work, frame = self._work, frame_of(self._thread)
        if work is None or frame is None:
            if uploading_since is None:
                return Activity(None, 0.0)
            return Activity("storing a snapshot", now - uploading_since, other_stacks=_stacks(THREAD))
        name, since = work
        operator, call = _operator_and_call(frame)
        call_seconds = self._call_seconds(call, now) if now - since >= _SHORT_SECONDS else 0.0
        context = None if operator is None else operator.context
        return Activity(
            name,
            now - since,
            None if context is None else context.name,
            None if context is None else context.subtask,
            call_seconds,
            stack_of(frame),
            _stacks(*_USER_THREADS),
        )

    def _call_seconds(self, call: FrameType | None, now: float) -> float:
        """Returns how long the same call of user code has been observed."""
        if call is None:
            self._call = None
            return 0.0
        if self._call is None or self._call[0] is not call:
            self._call = (call, now)
        return now - self._call[1]


def _stacks(*names: str) -> dict[str, str]:
    """Returns the stacks of the threads with that prefix."""
    return {
        thread.name: stack_of(frame_of(thread.ident))
        for thread in threading.enumerate()
        if thread.name.startswith(names)
    }


def _operator_and_call(frame: FrameType) -> tuple[Operator | None, FrameType | None]:
    """Returns the innermost operator on a stack, and the frame of the user code that it has called."""
    call: FrameType | None = None
    at: FrameType | None = frame
    while at is not None:
        if is_engine(at.f_code.co_filename):
            owner = at.f_locals.get("self")
            if isinstance(owner, Operator) and hasattr(owner, "context"):
                return owner, call
        else:
            call = at
        at = at.f_back
    return None, None
