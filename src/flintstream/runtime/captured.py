"""User functions: captured when they are passed to an operator, opened and closed in a slot.

As in PyFlink, the objects that a function refers to are captured at that moment, so a loop that adds operators may
reuse its variables.
"""

from __future__ import annotations

import pickle
from typing import Any

from flintstream.common.pickling import dumps_by_value


class CapturedFunction:
    """Holds a user function and its pickled form, which is what pickling this object yields; it loads as the function
    itself.
    """

    __slots__ = ("data", "original")

    def __init__(self, original: Any, data: bytes) -> None:
        self.original = original
        self.data = data

    def __reduce__(self) -> Any:
        return pickle.loads, (self.data,)


def capture(function: Any) -> Any:
    """Captures a user function; raises a TypeError that names it if it cannot be pickled."""
    if isinstance(function, CapturedFunction):
        return function
    try:
        return CapturedFunction(function, dumps_by_value(function))
    except Exception as error:
        raise TypeError(
            f"the function {function!r} cannot be sent to the workers: {error}. It must not refer to a SparkSession, "
            "a connection, a lock or an open file: create them in open()."
        ) from error


def unwrapped(function: Any) -> Any:
    """Returns the user function of a captured one."""
    return function.original if isinstance(function, CapturedFunction) else function


def open_function(function: Any, runtime_context: Any) -> None:
    """Opens a function object; plain callables have no `open`."""
    opener = getattr(function, "open", None)
    if opener is not None:
        opener(runtime_context)


def close_function(function: Any) -> None:
    """Closes a function object; plain callables have no `close`."""
    closer = getattr(function, "close", None)
    if closer is not None:
        closer()
