"""PatternStream: a stream with a pattern; and CEP, which makes one."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from flintstream.cep.compiler import compile_pattern
from flintstream.cep.functions import (
    EventComparator,
    FlatSelectAdapter,
    FlatSelectWithTimeout,
    PatternFlatSelectFunction,
    PatternFlatTimeoutFunction,
    PatternProcessFunction,
    PatternSelectFunction,
    PatternTimeoutFunction,
    SelectAdapter,
    SelectWithTimeout,
    TimedOutPartialMatchHandler,
)
from flintstream.cep.pattern import Pattern
from flintstream.common.output_tag import OutputTag
from flintstream.common.type_variables import T
from flintstream.datastream.basic_functions import NullByteKeySelector
from flintstream.datastream.data_stream import DataStream, OutputType
from flintstream.datastream.keyed_stream import KeyedStream
from flintstream.datastream.settings import declared_output_type
from flintstream.graph.transformations import SourceTransformation, Transformation
from flintstream.runtime.cep.automaton import Automaton
from flintstream.runtime.cep.operator import CepOperator
from flintstream.runtime.cep.spec import CepSpec
from flintstream.runtime.state.checkpointed import CheckpointedFunction, ListCheckpointed

Compare = Callable[[Any, Any], int]
_S = TypeVar("_S", bound="PatternStream[Any]")


class CEP:
    """Looks for patterns in streams."""

    @staticmethod
    def pattern(
        stream: DataStream[T], pattern: Pattern[Any], comparator: EventComparator[T] | Compare | None = None
    ) -> PatternStream[T]:
        """Looks for a pattern in a stream: for each key, or in all events, which takes one subtask.

        Example::

            CEP.pattern(logins.key_by(lambda event: event.user), pattern).select(lambda match: match["fail"])
        """
        if not isinstance(stream, DataStream):
            raise TypeError(f"CEP.pattern: expected a stream, got {stream!r}")
        if not isinstance(pattern, Pattern):
            raise TypeError(f"CEP.pattern: expected a Pattern, got {pattern!r}")
        return PatternStream(stream, pattern, _compare(comparator))


class PatternStream(Generic[T]):
    """A stream with a pattern: choose its time, and what happens with the matches."""

    def __init__(self, stream: DataStream[T], pattern: Pattern[Any], compare: Compare | None = None) -> None:
        self._stream = stream
        self._pattern = pattern
        self._compare = compare
        self._event_time = True
        self._late_tag: OutputTag[Any] | None = None

    def in_event_time(self) -> PatternStream[T]:
        """Orders events by their timestamps, and measures windows with these; the default."""
        return self._changed(_event_time=True)

    def in_processing_time(self) -> PatternStream[T]:
        """Takes events as they come, and measures windows with the machine's clock."""
        return self._changed(_event_time=False)

    def side_output_late_data(self, late_data_output_tag: OutputTag[T]) -> PatternStream[T]:
        """Sends events that come behind the watermark to a side output, rather than dropping them.

        Example::

            late = OutputTag("late")
            matches = CEP.pattern(stream, pattern).side_output_late_data(late).select(report)
            matches.get_side_output(late).print()
        """
        if not isinstance(late_data_output_tag, OutputTag):
            raise TypeError(f"side_output_late_data: expected an OutputTag, got {late_data_output_tag!r}")
        return self._changed(_late_tag=late_data_output_tag)

    def process(
        self, pattern_process_function: PatternProcessFunction[T, Any], output_type: OutputType = None
    ) -> DataStream[Any]:
        """Calls a PatternProcessFunction for each match; if it is a TimedOutPartialMatchHandler too, also for partial
        matches whose window has ended.
        """
        if not isinstance(pattern_process_function, PatternProcessFunction):
            raise TypeError(f"process: expected a PatternProcessFunction, got {pattern_process_function!r}")
        return self._transform("process", pattern_process_function, output_type)

    def select(self, *functions: Any, output_type: OutputType = None) -> DataStream[Any]:
        """Maps each match to one result: `select(f)`, or with partial matches that have timed out, whose results go to
        a side output, `select(tag, timeout_f, f)`.

        Example::

            matches.select(lambda match: match["fail"][0].user)
            matches.select(unpaid, lambda match, end: match["order"][0], lambda match: match["pay"][0])
        """
        tag, timeout, select, declared = _arguments("select", functions, output_type)
        _check_function("select", select, PatternSelectFunction)
        if tag is None:
            return self._transform("select", SelectAdapter(select, "select"), declared)
        _check_function("select", timeout, PatternTimeoutFunction)
        return self._transform("select", SelectWithTimeout(select, "select", tag, timeout), declared)

    def flat_select(self, *functions: Any, output_type: OutputType = None) -> DataStream[Any]:
        """Maps each match to any number of results: `flat_select(f)`, or with partial matches that have timed out,
        whose results go to a side output, `flat_select(tag, timeout_f, f)`.

        Example::

            matches.flat_select(lambda match: [event.user for event in match["fail"]])
        """
        tag, timeout, select, declared = _arguments("flat_select", functions, output_type)
        _check_function("flat_select", select, PatternFlatSelectFunction)
        if tag is None:
            return self._transform("flat_select", FlatSelectAdapter(select, "flat_select"), declared)
        _check_function("flat_select", timeout, PatternFlatTimeoutFunction)
        function = FlatSelectWithTimeout(select, "flat_select", tag, timeout)
        return self._transform("flat_select", function, declared)

    # --- recording ---

    def _changed(self, **settings: Any) -> PatternStream[T]:
        stream = PatternStream(self._stream, self._pattern, self._compare)
        vars(stream).update({**vars(self), **settings})
        return stream

    def _transform(self, method: str, function: PatternProcessFunction[Any, Any], output_type: Any) -> DataStream[Any]:
        declared = declared_output_type(method, output_type)
        for each in (function, *getattr(function, "_wrapped", ())):
            if isinstance(each, (CheckpointedFunction, ListCheckpointed)):
                raise TypeError(f"{method}: {type(each).__name__} has operator state, which patterns do not support")
        automaton = compile_pattern(self._pattern)
        _warn_if_endless(self._stream, self._pattern, automaton)
        spec = CepSpec(
            automaton,
            function,
            isinstance(function, TimedOutPartialMatchHandler),
            self._event_time,
            self._compare,
            None if self._late_tag is None else self._late_tag.tag_id,
        )
        if isinstance(self._stream, KeyedStream):
            return self._stream._transform("CepOperator", CepOperator(spec), declared)
        keyed = self._stream.key_by(NullByteKeySelector())
        return keyed._transform("GlobalCepOperator", CepOperator(spec), declared).force_non_parallel()


def _arguments(method: str, functions: tuple[Any, ...], output_type: Any) -> tuple[Any, Any, Any, Any]:
    """Returns the tag, the function for partial matches, the one for matches, and the output type."""
    if functions and isinstance(functions[0], OutputTag):
        if len(functions) == 4 and output_type is None:
            return functions[0], functions[1], functions[2], functions[3]
        if len(functions) == 3:
            return functions[0], functions[1], functions[2], output_type
    elif len(functions) == 1:
        return None, None, functions[0], output_type
    elif len(functions) == 2 and output_type is None and not callable(functions[1]):
        return None, None, functions[0], functions[1]
    raise TypeError(
        f"{method}: expected a function for matches, or an OutputTag, a function for partial matches and one for "
        f"matches, got {len(functions)} arguments"
    )


def _check_function(method: str, function: Any, kind: type[Any]) -> None:
    if isinstance(function, type):
        raise TypeError(f"{method}: pass an instance, {function.__name__}(), not the class {function.__name__}")
    if not isinstance(function, kind) and not callable(function):
        raise TypeError(f"{method}: expected a {kind.__name__} or a callable, got {function!r}")


def _compare(comparator: Any) -> Compare | None:
    if comparator is None:
        return None
    if isinstance(comparator, EventComparator):
        return comparator.compare
    if not callable(comparator) or isinstance(comparator, type):
        raise TypeError(f"CEP.pattern: expected an EventComparator or a callable of two events, got {comparator!r}")
    return functools.partial(comparator)


def _warn_if_endless(stream: DataStream[Any], pattern: Pattern[Any], automaton: Automaton) -> None:
    """Warns that partial matches of an endless stream stay for ever without a window."""
    if automaton.window or len(automaton.states) <= 2 or _is_bounded(stream._transformation):
        return
    stages = ", ".join(stage.describe() for stage in pattern.stages())
    reason = "only windows between two events, which end when another event of the key comes"
    warnings.warn(
        f"the pattern of {stages} has {reason if automaton.step_windows else 'no within()'}, and its stream has no "
        "end: partial matches that are never completed stay in the state for ever",
        stacklevel=4,
    )


def _is_bounded(transformation: Transformation) -> bool:
    seen: set[int] = set()
    found = [transformation]
    while found:
        each = found.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, SourceTransformation) and not each.bounded:
            return False
        found.extend(each.inputs)
    return True
