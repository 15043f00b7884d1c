"""Samples the stacks of a slot's threads for flame graphs, from a thread of its own, without stopping them.

A sample belongs to the task that is on the stack of the processing thread, or to the operator whose function runs in a
thread of its own. While another task is on the stack, or none, a task waits.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from types import FrameType

from flintstream.runtime.operators.base import Operator
from flintstream.runtime.slot.protocol import StackSample
from flintstream.runtime.slot.task import Task
from flintstream.runtime.stacks import frame_of, is_engine

WAITING = ("waiting for records",)
WAITING_FOR_OTHERS = ("waiting for other tasks of the slot",)
_DEEPEST = 200
_SOURCE_THREADS = "source "
_ON_CPU = 0.5
"""The share of the time since the previous sample that a thread must have spent on the CPU to count as running."""

_Key = tuple[int, int]
"""A vertex and a subtask."""


def sample_stacks(processing: int, tasks: list[Task], count: int, seconds: float) -> list[StackSample]:
    """Takes `count` samples, `seconds` apart, of the thread with the id `processing` and of the threads of sources."""
    found: Counter[tuple[_Key, bool, tuple[str, ...]]] = Counter()
    keys = [(task.vertex.vertex_id, task.subtask) for task in tasks]
    owners = {
        operator.context.operator_id: (task.vertex.vertex_id, task.subtask)
        for task in tasks
        for operator in task.operators.values()
    }
    clocks: dict[int, _CpuClock] = {}
    for _ in range(count):
        time.sleep(seconds)
        for ident in [processing, *_source_threads()]:
            runs = clocks.setdefault(ident, _CpuClock(ident)).runs()
            if ident == processing:
                owner, frames = _stack(ident, _owner_task)
                found[owner or (-1, -1), runs, frames] += 1
                for key in keys:
                    if key != owner:
                        found[key, False, WAITING if owner is None else WAITING_FOR_OTHERS] += 1
            else:
                owner, frames = _stack(ident, lambda frame: _owner_operator(frame, owners))
                if owner is not None:
                    found[owner, runs, frames] += 1
    return [
        StackSample(vertex, subtask, on_cpu, frames, times)
        for ((vertex, subtask), on_cpu, frames), times in found.items()
        if vertex >= 0
    ]


class _CpuClock:
    """The CPU time of a thread."""

    def __init__(self, ident: int) -> None:
        # Not on all systems; then whatever is on a stack counts as running.
        find: Callable[[int], int] | None = getattr(time, "pthread_getcpuclockid", None)
        self._clock = None if find is None else find(ident)
        self._before = self._read()

    def runs(self) -> bool:
        """Returns whether the thread has been running most of the time since the last call."""
        if self._clock is None:
            return True
        (wall, cpu), self._before = self._before, self._read()
        return self._before[1] - cpu >= _ON_CPU * (self._before[0] - wall)

    def _read(self) -> tuple[float, float]:
        return time.monotonic(), 0.0 if self._clock is None else time.clock_gettime(self._clock)


def _source_threads() -> Iterable[int]:
    return [
        thread.ident
        for thread in threading.enumerate()
        if thread.name.startswith(_SOURCE_THREADS) and thread.ident is not None
    ]


def _stack(ident: int, owner_of: Callable[[FrameType], _Key | None]) -> tuple[_Key | None, tuple[str, ...]]:
    """Returns the owner of what a thread does, and its frames from the owner's first one on, the outermost first."""
    frames: list[str] = []
    found: _Key | None = None
    first = 0
    frame = frame_of(ident)
    while frame is not None:
        frames.append(_name(frame))
        if is_engine(frame.f_code.co_filename) and (owner := owner_of(frame)) is not None:
            found, first = owner, len(frames)
        frame = frame.f_back
    return found, tuple(reversed(frames[max(0, first - _DEEPEST) : first]))


def _owner_task(frame: FrameType) -> _Key | None:
    # Looked up only where it may be: before Python 3.13, reading the variables of a frame copies them.
    if frame.f_code.co_filename != Task.receive.__code__.co_filename:
        return None
    task = frame.f_locals.get("self")
    return (task.vertex.vertex_id, task.subtask) if isinstance(task, Task) else None


def _owner_operator(frame: FrameType, owners: dict[str, _Key]) -> _Key | None:
    operator = frame.f_locals.get("self")
    if not isinstance(operator, Operator) or not hasattr(operator, "context"):
        return None
    return owners.get(operator.context.operator_id)


def _name(frame: FrameType) -> str:
    code = frame.f_code
    function = getattr(code, "co_qualname", code.co_name)  # Since Python 3.11 with the class.
    return f"{frame.f_globals.get('__name__', '?')}.{function}:{frame.f_lineno}"
