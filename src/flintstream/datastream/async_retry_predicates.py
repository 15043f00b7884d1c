"""Predefined predicates for retry strategies."""

from __future__ import annotations

from typing import Any

__all__ = ["empty_result_predicate", "exception_type_predicate", "has_exception_predicate"]


def empty_result_predicate(result: list[Any] | None) -> bool:
    """Returns whether there is no result: `empty_result_predicate([])` is True."""
    return not result


def has_exception_predicate(error: BaseException | None) -> bool:
    """Returns whether there was any exception."""
    return error is not None


def exception_type_predicate(
    error: BaseException | None, expected_error_type: type[BaseException] | tuple[type[BaseException], ...]
) -> bool:
    """Returns whether the exception is of a type: `exception_type_predicate(KeyError("a"), LookupError)` is True."""
    return isinstance(error, expected_error_type)
