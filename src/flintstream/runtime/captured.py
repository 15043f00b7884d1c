"""CapturedFunction: a user function as it is when it is given to an operator.

What a function refers to is taken along at that moment, as in PyFlink: a loop that adds operators may reuse its variables.
"""

from __future__ import annotations

import pickle
from typing import Any

from flintstream.common.pickling import dumps_by_value


class CapturedFunction:
    """Holds a user function and its pickled form; pickling this gives that form, which loads as the function itself."""

    __slots__ = ("data", "original")

    def __init__(self, original: Any, data: bytes) -> None:
        self.original = original
        self.data = data

    def __reduce__(self) -> Any:
        return pickle.loads, (self.data,)


def capture(function: Any) -> Any:
    """Captures a user function; raises a TypeError that names it if it cannot be sent to a slot."""
    if isinstance(function, CapturedFunction):
        return function
    try:
        return CapturedFunction(function, dumps_by_value(function))
    except Exception as error:
        raise TypeError(
            f"the function {function!r} cannot be sent to the workers: {error}. It must not refer to a SparkSession, "
            "a connection, a lock or an open file: make such things in open()."
        ) from error


def released(function: Any) -> Any:
    """The user function behind a captured one."""
    return function.original if isinstance(function, CapturedFunction) else function
