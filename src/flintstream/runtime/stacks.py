"""Where code is: the Python stacks of threads, taken from another one, and where the user's program called a method."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from types import FrameType

import flintstream

_PACKAGE = os.path.dirname(os.path.abspath(flintstream.__file__)) + os.sep
_ENGINE = (_PACKAGE, os.path.abspath(threading.__file__))


def frame_of(ident: int | None) -> FrameType | None:
    """Returns the innermost frame of a running thread; None if it has ended."""
    return None if ident is None else sys._current_frames().get(ident)


def stack_of(frame: FrameType | None) -> str:
    """Formats the stack of a frame, like a traceback, from the first line outside the engine."""
    if frame is None:
        return "  (this thread has ended)\n"
    frames = traceback.extract_stack(frame)
    if frames and frames[0].filename == "<string>":
        del frames[0]  # The entry point of a slot's process.
    users = next((index for index, each in enumerate(frames) if not is_engine(each.filename)), 0)
    return "".join(traceback.format_list(frames[users:]))


def all_stacks() -> list[tuple[str, str]]:
    """Returns the name and the whole stack of each thread of this process, the main thread first."""
    frames = sys._current_frames()
    threads = sorted(threading.enumerate(), key=lambda thread: (thread is not threading.main_thread(), thread.name))
    return [
        (thread.name, "".join(traceback.format_stack(frames[thread.ident])))
        for thread in threads
        if thread.ident in frames
    ]


def is_engine(filename: str) -> bool:
    """Returns whether a line belongs to Flintstream, or to the start of a thread."""
    return os.path.abspath(filename).startswith(_ENGINE)


def call_site() -> str | None:
    """Returns the file and line of the innermost caller outside Flintstream, e.g. `job.py:12`."""
    frame = sys._getframe(1)
    while frame is not None:
        filename = frame.f_code.co_filename
        if not os.path.abspath(filename).startswith(_PACKAGE):
            return f"{os.path.basename(filename)}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return None
