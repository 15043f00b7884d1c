"""Validates arguments that users pass; each error names the caller, the option and the value."""

from __future__ import annotations

from operator import index
from typing import Any

from flintstream.common.time import to_millis


def positive(what: str, value: Any, least: int = 1) -> int:
    """Returns an integer of at least `least`; raises otherwise."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} must be an integer, got {value!r}")
    if value < least:
        raise ValueError(f"{what} must be at least {least}, got {value}")
    return value


def text(what: str, value: Any) -> str:
    """Returns a string that must not be empty."""
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a string, got {value!r}")
    if not value.strip():
        raise ValueError(f"{what} must be a non-empty string, got {value!r}")
    return value


def millis(owner: str, option: str, length: Any) -> int:
    """Returns a length of time in milliseconds."""
    try:
        return to_millis(length)
    except TypeError as error:
        raise TypeError(f"{owner}: {option}: {error}") from None


def whole(owner: str, option: str, number: Any) -> int:
    """Returns a number that must be an integer."""
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise TypeError(f"{owner}: {option} must be an integer, got {number!r}")
    return index(number)


def delta(owner: str, function: Any) -> Any:
    """Returns a function that computes the distance of two records."""
    if not callable(function):
        raise TypeError(f"{owner}: delta_function must be a function of two records, got {function!r}")
    return function
