"""Canonical forms of keys that Python's dicts cannot look up: NaN, lists, dicts, sets.

NaN does not equal itself, and mutable collections have no hash. :func:`canonical_key` replaces them with hashable
equivalents that behave the same in user functions. As in PyFlink, all NaN are one key, and so are equal lists.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from .types import Row, make_row

__all__ = ["NAN", "BytesKey", "DictKey", "ListKey", "SetKey", "canonical_key"]


class _NaN(float):
    def __reduce__(self) -> str:
        return "NAN"


NAN: float = _NaN("nan")
"""The NaN of keys: one object per process, also after unpickling. A dict finds an object that is identical, even if not
equal.
"""


class ListKey(list[Any]):
    """A hashable list, as a key or inside one. It must not be changed, nor the objects it contains."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))


class DictKey(dict[Any, Any]):
    """A hashable dict, as a key or inside one."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))


class SetKey(set[Any]):
    """A hashable set, as a key or inside one; equals the frozenset of its elements."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self))


class BytesKey(bytearray):
    """A hashable bytearray, as a key or inside one; equals the same bytes."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(bytes(self))


_COLLECTIONS: dict[type, Any] = {tuple: tuple, frozenset: frozenset, list: ListKey, set: SetKey}


def canonical_key(key: Any) -> Any:
    """Returns the key in a form that dicts can look up, including values inside tuples, rows and collections.

    Example::

        >>> canonical_key(("a", float("nan"))) == canonical_key(("a", float("nan")))
        True
    """
    kind = type(key)
    if kind in _COLLECTIONS:
        return _COLLECTIONS[kind](map(canonical_key, key))
    if kind is dict:
        return DictKey((canonical_key(name), canonical_key(value)) for name, value in key.items())
    if kind is Row:
        return make_row([canonical_key(part) for part in key._values], key._fields, key._row_kind)
    if isinstance(key, tuple) and hasattr(kind, "_make"):
        return kind._make(map(canonical_key, key))  # a named tuple stays one
    if kind is bytearray:
        return BytesKey(key)
    return NAN if _is_nan(key) else key


def _is_nan(key: Any) -> bool:
    if isinstance(key, Decimal):
        return key.is_nan()
    is_float = isinstance(key, float) or getattr(getattr(key, "dtype", None), "kind", "") == "f"
    return is_float and getattr(key, "ndim", 0) == 0 and bool(key != key)
