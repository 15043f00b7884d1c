"""Where in the user's program a method was called, for errors that show up only when the job runs."""

from __future__ import annotations

import os
import sys

import flintstream

_PACKAGE = os.path.dirname(os.path.abspath(flintstream.__file__)) + os.sep


def call_site() -> str | None:
    """The file and line of the innermost caller outside Flintstream, as in `job.py:12`."""
    frame = sys._getframe(1)
    while frame is not None:
        filename = frame.f_code.co_filename
        if not os.path.abspath(filename).startswith(_PACKAGE):
            return f"{os.path.basename(filename)}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return None
