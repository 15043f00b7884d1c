"""Which operator runs a map, filter or flat_map function."""

from __future__ import annotations

from typing import Any

from flintstream.runtime.operators.base import FunctionOperator
from flintstream.runtime.operators.keyed import RichOperator
from flintstream.runtime.operators.stateless import FilterOperator, FlatMapOperator, MapOperator

_PLAIN = {"map": MapOperator, "filter": FilterOperator, "flat_map": FlatMapOperator}


def element_operator(kind: str, function: Any, keyed: bool) -> FunctionOperator:
    """The operator for a function of that kind.

    A plain callable cannot hold keyed state. An object may: it is called with the record's key set.
    """
    if hasattr(function, kind):
        return RichOperator(function, kind, (kind,), keyed)
    return _PLAIN[kind](function)
