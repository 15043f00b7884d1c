"""How any Python object becomes bytes."""

from __future__ import annotations

import pickle
from typing import Any, cast

import cloudpickle

__all__ = ["dumps"]


def dumps(value: Any) -> bytes:
    """The pickle of an object; `pickle.loads` reads it."""
    try:
        return pickle.dumps(value, 5)
    except (AttributeError, TypeError, pickle.PicklingError):
        # Local classes and functions cannot be pickled by reference.
        return cast("bytes", cloudpickle.dumps(value, 5))
