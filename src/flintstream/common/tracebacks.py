"""Reduces tracebacks to the frames of the user's program, with source lines."""

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
_COMPILED = os.path.join("src", "flintstream", "")
"""How the files of compiled modules begin in tracebacks: they were compiled in the root of the project."""
_FUTURES = os.path.dirname(os.path.abspath(concurrent.futures.__file__)) + os.sep
_IPYTHON = f"{os.sep}IPython{os.sep}"
_FRAME = re.compile(r'\s*File "(?P<file>.+)", line (?P<line>\d+), in .+')


def is_engine_frame(file: str) -> bool:
    """Returns whether a frame belongs to Flintstream. The demonstrations count as programs, although they are in the
    package.
    """
    file = _source_of(file)
    return file.startswith(_PACKAGE) and f"{os.sep}demo_programs{os.sep}" not in file


def _source_of(file: str) -> str:
    return _PACKAGE + file[len(_COMPILED) :] if file.startswith(_COMPILED) else file


def is_internal_frame(file: str) -> bool:
    """Returns whether a frame is between the program and the engine, or above the program: code its author did not
    write.
    """
    above = file in (runpy.__file__, functools.__file__) or file.startswith(("<frozen runpy", "<frozen importlib"))
    return above or is_engine_frame(file) or file.startswith(_FUTURES) or _IPYTHON in file


def is_on_purpose(file: str, line: int | None) -> bool:
    """Returns whether the statement raises an exception explicitly."""
    return linecache.getline(_source_of(file), line or 0).strip().startswith("raise ")


def tidy_traceback(
    error: BaseException,
    hidden: Callable[[str], bool] = is_engine_frame,
    frames: TracebackType | None = None,
) -> str:
    """Formats the traceback of an error and its causes, without the frames of hidden files.

    An unexpected error in hidden frames only keeps them all: it is an internal error, and they locate it. One raised
    explicitly is explained by its message.
    """
    told = traceback.TracebackException(type(error), error, frames or error.__traceback__, compact=True)
    _hide(told, hidden)
    return "".join(told.format())


def _hide(told: traceback.TracebackException, hidden: Callable[[str], bool]) -> None:
    kept = [frame for frame in told.stack if not hidden(frame.filename)]
    if kept or (told.stack and is_on_purpose(told.stack[-1].filename, told.stack[-1].lineno)):
        told.stack[:] = kept
    # Exception groups need Python 3.11.
    for each in (told.__cause__, told.__context__, *(getattr(told, "exceptions", None) or ())):
        if each is not None:
            _hide(each, hidden)


def fill_in_source(text: str) -> str:
    """Adds source lines to a traceback from another process where only this process has them: cells of a notebook, or a
    script missing on the other machine.
    """
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
