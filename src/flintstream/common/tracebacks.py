"""Tracebacks as the person who wrote the program wants them: their own frames, with source lines."""

from __future__ import annotations

import concurrent.futures
import functools
import linecache
import os
import re
import runpy
import traceback
from collections.abc import Callable
from types import TracebackType

import flintstream

__all__ = ["fill_in_source", "is_engine_frame", "is_internal_frame", "is_on_purpose", "tidy_traceback"]

_PACKAGE = os.path.dirname(os.path.abspath(flintstream.__file__)) + os.sep
_FUTURES = os.path.dirname(os.path.abspath(concurrent.futures.__file__)) + os.sep
_IPYTHON = f"{os.sep}IPython{os.sep}"
_FRAME = re.compile(r'\s*File "(?P<file>.+)", line (?P<line>\d+), in .+')


def is_engine_frame(file: str) -> bool:
    """Whether a frame is Flintstream's own. The demonstrations are programs, although they lie in the package."""
    return file.startswith(_PACKAGE) and f"{os.sep}demo_programs{os.sep}" not in file


def is_internal_frame(file: str) -> bool:
    """Whether a frame is between the program and the engine, or above the program: nothing that its author wrote."""
    above = file in (runpy.__file__, functools.__file__) or file.startswith(("<frozen runpy", "<frozen importlib"))
    return above or is_engine_frame(file) or file.startswith(_FUTURES) or _IPYTHON in file


def is_on_purpose(file: str, line: int | None) -> bool:
    """Whether the statement there raises an exception, and has not run into one."""
    return linecache.getline(file, line or 0).strip().startswith("raise ")


def tidy_traceback(
    error: BaseException,
    hidden: Callable[[str], bool] = is_engine_frame,
    frames: TracebackType | None = None,
) -> str:
    """The traceback of an error and of what caused it, without the frames whose files are hidden.

    An error that has happened to us, in none but hidden frames, keeps them all: it is nobody else's, and they tell where.
    What was raised on purpose is told by its message.
    """
    told = traceback.TracebackException(type(error), error, frames or error.__traceback__, compact=True)
    _hide(told, hidden)
    return "".join(told.format())


def _hide(told: traceback.TracebackException, hidden: Callable[[str], bool]) -> None:
    kept = [frame for frame in told.stack if not hidden(frame.filename)]
    if kept or (told.stack and is_on_purpose(told.stack[-1].filename, told.stack[-1].lineno)):
        told.stack[:] = kept
    # Groups of exceptions came with Python 3.11.
    for each in (told.__cause__, told.__context__, *(getattr(told, "exceptions", None) or ())):
        if each is not None:
            _hide(each, hidden)


def fill_in_source(text: str) -> str:
    """Adds to a traceback from another process the source lines that only this one knows: those of a notebook's cells, of a
    script that is not on the other machine."""
    lines = text.split("\n")
    filled = []
    for line, after in zip(lines, [*lines[1:], ""]):
        filled.append(line)
        frame = _FRAME.fullmatch(line)
        if frame is not None and not after.startswith("    "):
            source = linecache.getline(frame["file"], int(frame["line"])).strip()
            if source:
                filled.append(f"    {source}")
    return "\n".join(filled)
