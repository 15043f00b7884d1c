"""Selects the operator of a user function by the methods that the function has."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from flintstream.common.time import to_millis
from flintstream.runtime.operators.async_io import AsyncWaitOperator
from flintstream.runtime.operators.base import Operator
from flintstream.runtime.operators.keyed import ReduceOperator, RichOperator, element_operator
from flintstream.runtime.operators.process import CoProcessOperator, ProcessOperator
from flintstream.runtime.operators.sinks import FunctionSinkOperator

_Maker = Callable[[Any, bool], Operator]

_ONE_INPUT: dict[str, tuple[str, _Maker]] = {
    "map": ("map", partial(element_operator, "map")),
    "filter": ("filter", partial(element_operator, "filter")),
    "flat_map": ("flat_map", partial(element_operator, "flat_map")),
    "process": ("process_element", ProcessOperator),
    "reduce": ("reduce", lambda f, keyed: ReduceOperator(f)),
    "sink": ("invoke", lambda f, keyed: FunctionSinkOperator(f)),
    "async": ("async_invoke", lambda f, keyed: AsyncWaitOperator(f)),
}
"""The kind of operation, the method that identifies its functions, and the factory of the operator."""

_TWO_INPUTS: dict[str, tuple[str, _Maker]] = {
    "map": ("map1", lambda f, keyed: RichOperator(f, "map", ("map1", "map2"), keyed)),
    "flat_map": (
        "flat_map1",
        lambda f, keyed: RichOperator(f, "flat_map", ("flat_map1", "flat_map2"), keyed),
    ),
    "process": ("process_element1", CoProcessOperator),
}


_KEYED_ONLY = ("KeyedProcessFunction", "KeyedCoProcessFunction", "KeyedBroadcastProcessFunction")


def operator_for(function: Any, keyed: bool, two_inputs: bool, kind: str | None = None) -> Operator:
    """Returns the operator in which a job would run the function; an operator is returned unchanged, a connector's sink
    creates its own.

    An asynchronous function may be wrapped in an `AsyncFunctionDescriptor`; without one, results are ordered and there
    is no timeout.

    `kind` is needed if the methods are ambiguous: for plain callables, and for objects with several of the methods.
    """
    if isinstance(function, Operator):
        operator = function
    elif _is_sink_of_its_own(function):
        operator = function.create_operator(None)
    elif _is_named(function, "ProcessJoinFunction"):
        raise TypeError(
            f"{function!r} needs its bounds: pass IntervalJoinOperator({type(function).__name__}(), lower, upper), "
            "with "
            "both in milliseconds"
        )
    elif hasattr(function, "async_function"):
        operator = _described(function)
    else:
        kinds = _TWO_INPUTS if two_inputs else _ONE_INPUT
        _, maker = kinds[_kind_of(function, kinds, kind)]
        operator = maker(function, keyed)
    if operator.two_inputs is not two_inputs:
        fitting = "TwoInputOperatorHarness" if operator.two_inputs else "OneInputOperatorHarness"
        raise TypeError(f"{function!r} has {1 + operator.two_inputs} input(s): use a {fitting}")
    if (operator.keyed or _is_for_keyed_streams(function)) and not keyed:
        raise TypeError(f"{function!r} needs a keyed stream: pass a key_selector to the harness")
    return operator


def _described(descriptor: Any) -> AsyncWaitOperator:
    """Returns the operator of an `AsyncFunctionDescriptor`."""
    return AsyncWaitOperator(
        descriptor.async_function,
        to_millis(descriptor.timeout),
        descriptor.capacity,
        descriptor.async_retry_strategy,
        descriptor.output_mode.name == "ORDERED",
    )


def _kind_of(function: Any, kinds: dict[str, tuple[str, _Maker]], kind: str | None) -> str:
    if kind is not None:
        if kind not in kinds:
            raise ValueError(f"kind must be one of {', '.join(map(repr, kinds))}, got {kind!r}")
        return kind
    found = [name for name, (method, _) in kinds.items() if callable(getattr(function, method, None))]
    if len(found) == 1:
        return found[0]
    methods = ", ".join(f"{method}()" for method, _ in kinds.values())
    if found:
        choice = " or ".join(map(repr, found))
        raise TypeError(f"{function!r} has the methods of several kinds of operators: specify kind={choice}")
    if callable(function):
        raise TypeError(f"{function!r} is a plain callable: specify its kind ({', '.join(kinds)})")
    raise TypeError(f"{function!r} has none of the methods {methods}")


def _is_for_keyed_streams(function: Any) -> bool:
    return any(_is_named(function, name) for name in _KEYED_ONLY)


def _is_sink_of_its_own(function: Any) -> bool:
    sink = _is_named(function, "Sink") or _is_named(function, "SinkFunction")
    return sink and hasattr(function, "create_operator")


def _is_named(function: Any, name: str) -> bool:
    # The classes themselves are in a higher layer, which this one does not import.
    return any(base.__name__ == name for base in type(function).__mro__)
