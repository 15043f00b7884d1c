"""Times that the user's functions give, as whole milliseconds."""

from __future__ import annotations

from math import isfinite
from operator import index
from typing import Any


def whole_milliseconds(time: Any) -> int:
    """The time without what a float has behind its point, as in PyFlink. Raises TypeError for what is no number."""
    return int(time) if isinstance(time, float) and isfinite(time) else int(index(time))
