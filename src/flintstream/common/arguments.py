"""Checks of arguments that users pass."""

from __future__ import annotations

from typing import Any


def positive(what: str, value: Any, least: int = 1) -> int:
    """A whole number that is not less than `least`, or a clear error."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} must be a whole number, got {value!r}")
    if value < least:
        raise ValueError(f"{what} must be {least} or more, got {value}")
    return value
