"""Conditions: which events a stage of a pattern takes.

A simple condition looks at the event alone; an iterative one also at the events that the partial match has taken
already. Both are combined with and, or, not. `flintstream.cep` exports the classes that a user may need.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Generic

from flintstream.common.type_variables import T
from flintstream.runtime.cep.context import CepRichFunction, ConditionContext

Test = Callable[[Any, Any], Any]
"""A condition in the form that the automaton calls: of an event and a context."""


class IterativeCondition(ABC, Generic[T]):
    """A condition on an event and the events before it in the same partial match.

    Example::

        class AboveAverage(IterativeCondition):
            def filter(self, value, ctx):
                before = [event.price for event in ctx.get_events_for_pattern("start")]
                return value.price > sum(before) / len(before)
    """

    simple = False
    """Whether the result depends on the event alone."""

    @abstractmethod
    def filter(self, value: T, ctx: ConditionContext) -> bool:
        """Returns whether the event fits."""

    def test(self) -> Test:
        """Returns the condition as a function of an event and a context."""
        return self.filter

    def leaves(self) -> Iterator[IterativeCondition[Any]]:
        """Yields the conditions that this one is combined from."""
        yield self


class SimpleCondition(IterativeCondition[T]):
    """A condition on an event alone; it needs no context, and is evaluated once for all partial matches.

    Example::

        class Failed(SimpleCondition):
            def filter(self, value):
                return value.status == "fail"

        SimpleCondition.of(lambda event: event.status == "fail")  # the same
    """

    simple = True

    @staticmethod
    def of(function: Callable[[T], bool]) -> SimpleCondition[T]:
        """Returns the condition of a function of one parameter."""
        return FunctionCondition(_callable(function))

    @abstractmethod
    def filter(self, value: T) -> bool:  # type: ignore[override]
        """Returns whether the event fits."""

    def test(self) -> Test:
        function = self.predicate()
        return lambda value, ctx: function(value)

    def predicate(self) -> Callable[[Any], Any]:
        """Returns the condition as a function of an event."""
        return self.filter


class RichIterativeCondition(CepRichFunction, IterativeCondition[T]):
    """An iterative condition that is opened and closed in its subtask, and knows its runtime context.

    Example::

        class Above(RichIterativeCondition):
            def open(self, runtime_context):
                self.limit = float(runtime_context.get_job_parameter("limit", "10"))

            def filter(self, value, ctx):
                return value > self.limit
    """


class FunctionCondition(SimpleCondition[Any]):
    """A function of an event."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def filter(self, value: Any) -> bool:  # type: ignore[override]
        return bool(self._function(value))

    def predicate(self) -> Callable[[Any], Any]:
        return self._function


class ContextFunctionCondition(IterativeCondition[Any]):
    """A function of an event and a context."""

    def __init__(self, function: Test) -> None:
        self._function = function

    def filter(self, value: Any, ctx: Any) -> bool:
        return bool(self._function(value, ctx))

    def test(self) -> Test:
        return self._function


class SubtypeCondition(SimpleCondition[Any]):
    """Takes events of a class."""

    def __init__(self, subtype: type[Any]) -> None:
        self._subtype = subtype

    def filter(self, value: Any) -> bool:  # type: ignore[override]
        return isinstance(value, self._subtype)


class Constant(SimpleCondition[Any]):
    """Takes every event, or none."""

    def __init__(self, value: bool) -> None:
        self.value = value

    def filter(self, value: Any) -> bool:  # type: ignore[override]
        return self.value

    def leaves(self) -> Iterator[IterativeCondition[Any]]:
        return iter(())


class _Combined(IterativeCondition[Any]):
    """Conditions combined to one; simple if all of them are."""

    def __init__(self, *parts: IterativeCondition[Any]) -> None:
        self.parts = parts
        self.simple = all(part.simple for part in parts)

    def filter(self, value: Any, ctx: Any = None) -> bool:
        return bool(self.test()(value, ctx))

    def leaves(self) -> Iterator[IterativeCondition[Any]]:
        for part in self.parts:
            yield from part.leaves()


class AndCondition(_Combined):
    """Both conditions."""

    def test(self) -> Test:
        left, right = (part.test() for part in self.parts)
        return lambda value, ctx: left(value, ctx) and right(value, ctx)


class OrCondition(_Combined):
    """Either condition."""

    def test(self) -> Test:
        left, right = (part.test() for part in self.parts)
        return lambda value, ctx: left(value, ctx) or right(value, ctx)


class NotCondition(_Combined):
    """The negation of a condition."""

    def test(self) -> Test:
        inner = self.parts[0].test()
        return lambda value, ctx: not inner(value, ctx)


def both(left: IterativeCondition[Any], right: IterativeCondition[Any]) -> IterativeCondition[Any]:
    """Returns the conjunction."""
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Constant):
            return other if one.value else one
    return AndCondition(left, right)


def either(left: IterativeCondition[Any], right: IterativeCondition[Any]) -> IterativeCondition[Any]:
    """Returns the disjunction."""
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Constant):
            return one if one.value else other
    return OrCondition(left, right)


def negated(condition: IterativeCondition[Any]) -> IterativeCondition[Any]:
    """Returns the negation."""
    if isinstance(condition, Constant):
        return Constant(not condition.value)
    return condition.parts[0] if isinstance(condition, NotCondition) else NotCondition(condition)


def as_condition(place: str, condition: Any) -> IterativeCondition[Any]:
    """Returns the condition given by a user: an object, or a callable of one parameter (the event) or two (the event
    and the context).
    """
    if isinstance(condition, IterativeCondition):
        return condition
    if isinstance(condition, type) and issubclass(condition, IterativeCondition):
        raise TypeError(f"{place}: pass an instance, {condition.__name__}(), not the class {condition.__name__}")
    if not callable(condition):
        raise TypeError(f"{place}: expected a condition or a callable, got {condition!r}")
    if _takes_context(place, condition):
        return ContextFunctionCondition(condition)
    return FunctionCondition(condition)


def _takes_context(place: str, function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # A built-in function without a signature.
        return False
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    required = [each for each in positional if each.default is each.empty]
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return False
    if len(required) > 2 or not positional:
        raise TypeError(
            f"{place}: a condition takes one parameter (the event) or two (the event and the context), but "
            f"{function!r} takes {len(required)}"
        )
    return len(required) == 2


def _callable(function: Any) -> Any:
    if not callable(function):
        raise TypeError(f"SimpleCondition.of: expected a callable, got {function!r}")
    return function
