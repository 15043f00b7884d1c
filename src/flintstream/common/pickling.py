"""How any Python object becomes bytes."""

from __future__ import annotations

import functools
import io
import pickle
import sys
from collections import ChainMap
from typing import Any

import cloudpickle

__all__ = ["dumps", "dumps_by_value"]


def dumps(value: Any) -> bytes:
    """The pickle of an object; `pickle.loads` reads it."""
    try:
        return pickle.dumps(value, 5)
    except (AttributeError, TypeError, pickle.PicklingError):
        # Local classes and functions cannot be pickled by reference.
        return dumps_by_value(value)


def dumps_by_value(value: Any) -> bytes:
    """The pickle of an object, with the classes and functions of the user's script taken along; `pickle.loads` reads it."""
    stream = io.BytesIO()
    _Pickler(stream, 5).dump(value)
    return stream.getvalue()


def _reduce_cached(cached: Any) -> Any:
    """A function with `functools.cache` around it: by name where that can be imported, else with an empty cache."""
    name, module = getattr(cached, "__qualname__", ""), getattr(cached, "__module__", None) or ""
    if module != "__main__" and getattr(sys.modules.get(module), name, None) is cached:
        return name
    return _with_cache, (cached.__wrapped__, cached.cache_parameters())


def _with_cache(function: Any, parameters: dict[str, Any]) -> Any:
    return functools.lru_cache(**parameters)(function)


def _reduce_cached_property(cached: functools.cached_property[Any]) -> Any:
    """Without the lock that Python 3.11 gives it, which cannot be pickled."""
    return functools.cached_property, (cached.func,), {"attrname": cached.attrname}


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Knows the two of Python's decorators that cloudpickle does not."""

    dispatch_table = ChainMap(
        {type(functools.cache(len)): _reduce_cached, functools.cached_property: _reduce_cached_property},
        *cloudpickle.Pickler.dispatch_table.maps,
    )
