"""Where the threads of a slot are: their Python stacks, taken from another thread."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from types import FrameType

import flintstream

_ENGINE = (os.path.dirname(os.path.abspath(flintstream.__file__)) + os.sep, os.path.abspath(threading.__file__))


def frame_of(ident: int | None) -> FrameType | None:
    """The innermost frame of a running thread; None for one that has ended."""
    return None if ident is None else sys._current_frames().get(ident)


def stack_of(frame: FrameType | None) -> str:
    """The stack that ends in a frame, as in a traceback, from the first line that is not the engine's own."""
    if frame is None:
        return "  (this thread has ended)\n"
    frames = traceback.extract_stack(frame)
    if frames and frames[0].filename == "<string>":
        del frames[0]  # How a slot's process begins.
    users = next((index for index, each in enumerate(frames) if not is_engine(each.filename)), 0)
    return "".join(traceback.format_list(frames[users:]))


def is_engine(filename: str) -> bool:
    """Whether a line belongs to Flintstream, or to the start of a thread."""
    return os.path.abspath(filename).startswith(_ENGINE)
