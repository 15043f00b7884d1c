"""Pickling of arbitrary Python objects."""

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
    """Pickles an object; read with `pickle.loads`."""
    try:
        return pickle.dumps(value, 5)
    except (AttributeError, TypeError, pickle.PicklingError):
        # Local classes and functions cannot be pickled by reference.
        return dumps_by_value(value)


def dumps_by_value(value: Any) -> bytes:
    """Pickles an object together with the classes and functions of the user's script; read with `pickle.loads`."""
    stream = io.BytesIO()
    _Pickler(stream, 5).dump(value)
    return stream.getvalue()


def _reduce_cached(cached: Any) -> Any:
    """Reduces a function wrapped in `functools.cache`: by name if it can be imported, else with an empty cache."""
    name, module = getattr(cached, "__qualname__", ""), getattr(cached, "__module__", None) or ""
    if module != "__main__" and getattr(sys.modules.get(module), name, None) is cached:
        return name
    return _with_cache, (cached.__wrapped__, cached.cache_parameters())


def _with_cache(function: Any, parameters: dict[str, Any]) -> Any:
    return functools.lru_cache(**parameters)(function)


def _reduce_cached_property(cached: functools.cached_property[Any]) -> Any:
    """Reduces a cached property without its lock, which Python 3.11 adds and which cannot be pickled."""
    return functools.cached_property, (cached.func,), {"attrname": cached.attrname}


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """A cloudpickle pickler that also supports two decorators of the standard library."""

    dispatch_table = ChainMap(
        {type(functools.cache(len)): _reduce_cached, functools.cached_property: _reduce_cached_property},
        *cloudpickle.Pickler.dispatch_table.maps,
    )
