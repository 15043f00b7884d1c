"""Functions for the matches of a pattern."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Generic

from flintstream.common.output_tag import SideOutput
from flintstream.common.type_variables import IN, OUT, T
from flintstream.runtime.cep.context import CepRichFunction, CepRuntimeContext, MatchContext

Match = dict[str, list[IN]]
"""A match: the events of each stage, in the order in which the stages were taken. Stages that took nothing are absent."""


class PatternProcessFunction(CepRichFunction, ABC, Generic[IN, OUT]):
    """Maps each match to any number of results, to the main output or, as `(tag, value)`, to a side output.

    Example::

        class Report(PatternProcessFunction):
            def process_match(self, match, ctx):
                yield f"{match['start'][0].user} at {ctx.timestamp()}"
    """

    Context = MatchContext

    @abstractmethod
    def process_match(self, match: Match[IN], ctx: MatchContext) -> Iterable[OUT | SideOutput] | None:
        """Returns the results for a match: a generator, any iterable, or None for none."""


class TimedOutPartialMatchHandler(ABC, Generic[IN]):
    """Mixed into a PatternProcessFunction: receives partial matches whose window has ended.

    Example::

        class Report(PatternProcessFunction, TimedOutPartialMatchHandler):
            def process_match(self, match, ctx):
                yield match

            def process_timed_out_match(self, match, ctx):
                yield unpaid, match["order"][0]  # unpaid = OutputTag("unpaid")
    """

    @abstractmethod
    def process_timed_out_match(self, match: Match[IN], ctx: MatchContext) -> Iterable[SideOutput] | None:
        """Returns pairs of a tag and a value: there are only side outputs for partial matches."""


class PatternSelectFunction(ABC, Generic[IN, OUT]):
    """Maps each match to one result: `select(match)` returns it."""

    @abstractmethod
    def select(self, match: Match[IN]) -> OUT:
        """Returns the result for a match."""


class PatternFlatSelectFunction(ABC, Generic[IN, OUT]):
    """Maps each match to any number of results: `flat_select(match)` yields them."""

    @abstractmethod
    def flat_select(self, match: Match[IN]) -> Iterable[OUT] | None:
        """Returns the results for a match."""


class RichPatternSelectFunction(CepRichFunction, PatternSelectFunction[IN, OUT]):
    """A PatternSelectFunction with `open`, `close` and a runtime context."""


class RichPatternFlatSelectFunction(CepRichFunction, PatternFlatSelectFunction[IN, OUT]):
    """A PatternFlatSelectFunction with `open`, `close` and a runtime context."""


class PatternTimeoutFunction(ABC, Generic[IN, OUT]):
    """Maps each partial match that has timed out to one result for a side output."""

    @abstractmethod
    def timeout(self, match: Match[IN], timeout_timestamp: int) -> OUT:
        """Returns the result for a partial match, and the time at which its window ended."""


class PatternFlatTimeoutFunction(ABC, Generic[IN, OUT]):
    """Maps each partial match that has timed out to any number of results for a side output."""

    @abstractmethod
    def timeout(self, match: Match[IN], timeout_timestamp: int) -> Iterable[OUT] | None:
        """Returns the results for a partial match, and the time at which its window ended."""


class EventComparator(ABC, Generic[T]):
    """Orders events with the same timestamp: `compare(a, b)` is negative if `a` comes first."""

    @abstractmethod
    def compare(self, left: T, right: T) -> int:
        """Returns a negative number, zero or a positive number."""


class _Adapter(PatternProcessFunction[Any, Any]):
    """Calls another function for matches, and opens and closes it."""

    def __init__(self, select: Any, method: str) -> None:
        self._wrapped = [select]
        self._method = method

    def set_runtime_context(self, runtime_context: CepRuntimeContext) -> None:
        self._each("set_runtime_context", runtime_context)

    def open(self, runtime_context: CepRuntimeContext) -> None:
        self._call = _bound(self._wrapped[0], self._method)
        self._each("open", runtime_context)

    def close(self) -> None:
        self._each("close")

    def _each(self, method: str, *args: Any) -> None:
        for function in self._wrapped:
            call = getattr(function, method, None)
            if callable(call) and not isinstance(function, type):
                call(*args)


class SelectAdapter(_Adapter):
    """One result for each match."""

    def process_match(self, match: Match[Any], ctx: MatchContext) -> Iterable[Any]:
        return (self._call(match),)


class FlatSelectAdapter(_Adapter):
    """Any number of results for each match."""

    def process_match(self, match: Match[Any], ctx: MatchContext) -> Iterable[Any] | None:
        results: Iterable[Any] | None = self._call(match)
        return results


class _TimeoutAdapter(_Adapter, TimedOutPartialMatchHandler[Any]):
    """A function for partial matches as well, whose results go to a side output."""

    def __init__(self, select: Any, method: str, tag: Any, timeout: Any) -> None:
        super().__init__(select, method)
        self._tag = tag
        self._wrapped.append(timeout)

    def open(self, runtime_context: CepRuntimeContext) -> None:
        super().open(runtime_context)
        self._timeout = _bound(self._wrapped[1], "timeout")


class SelectWithTimeout(_TimeoutAdapter, SelectAdapter):
    """One result for each match and for each partial match."""

    def process_timed_out_match(self, match: Match[Any], ctx: MatchContext) -> Iterable[Any]:
        return ((self._tag, self._timeout(match, ctx.timestamp())),)


class FlatSelectWithTimeout(_TimeoutAdapter, FlatSelectAdapter):
    """Any number of results for each match and for each partial match."""

    def process_timed_out_match(self, match: Match[Any], ctx: MatchContext) -> Iterable[Any]:
        for result in self._timeout(match, ctx.timestamp()) or ():
            yield self._tag, result


def _bound(function: Any, method: str) -> Callable[..., Any]:
    found = getattr(function, method, None)
    return found if callable(found) else function  # type: ignore[no-any-return]
