"""Pattern: a sequence of stages to look for in a stream.

A pattern is built stage by stage. What contradicts itself is refused by the method that is called; what concerns the
pattern as a whole is refused when it is compiled.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Generic, NoReturn, TypeVar

from flintstream.cep.errors import MalformedPatternException
from flintstream.cep.quantifier import ConsumingStrategy, Quantifier, QuantifierProperty, Times
from flintstream.common.time import Duration, Time
from flintstream.common.type_variables import T
from flintstream.runtime.cep.conditions import (
    Constant,
    IterativeCondition,
    SubtypeCondition,
    as_condition,
    both,
    either,
)
from flintstream.runtime.cep.skip import AfterMatchSkipStrategy

_P = TypeVar("_P", bound="Pattern[Any]")

_OPTIONAL_NOT = (
    "Specifying a pattern with an optional path to NOT condition is not supported yet. You can simulate such pattern "
    "with two independent patterns, one with and the other without the optional part."
)


class WithinType(Enum):
    """Between which events the time of `within` is measured."""

    FIRST_AND_LAST = "first and last"
    PREVIOUS_AND_CURRENT = "previous and current"


class Pattern(Generic[T]):
    """A stage of a pattern, with all stages before it. Methods that add a stage return the new one; all others change
    this stage and return it.

    Example::

        failed = lambda event: event.status == "fail"
        pattern = Pattern.begin("fails").where(failed).times(3).consecutive().within(Duration.of_seconds(10))
    """

    def __init__(
        self,
        name: str,
        previous: Pattern[Any] | None,
        consuming: ConsumingStrategy,
        skip: AfterMatchSkipStrategy,
    ) -> None:
        self._name = name
        self._previous = previous
        self._skip = skip
        self._quantifier = Quantifier(self.describe(), consuming, QuantifierProperty.SINGLE)
        self._condition: IterativeCondition[Any] | None = None
        self._until: IterativeCondition[Any] | None = None
        self._times: Times | None = None
        self._windows: dict[WithinType, Duration] = {}

    # --- stages ---

    @staticmethod
    def begin(name: str | Pattern[Any], skip: AfterMatchSkipStrategy | None = None) -> Pattern[Any]:
        """Begins a pattern with a stage of that name, or with a group.

        Example::

            Pattern.begin("start", AfterMatchSkipStrategy.skip_past_last_event())
        """
        strategy = AfterMatchSkipStrategy.no_skip() if skip is None else skip
        if not isinstance(strategy, AfterMatchSkipStrategy):
            raise TypeError(f"begin: expected an AfterMatchSkipStrategy, got {skip!r}")
        return _stage("begin", name, None, ConsumingStrategy.STRICT, strategy)

    def next(self, name: str | Pattern[Any]) -> Pattern[Any]:
        """Adds a stage whose event comes directly next: strict contiguity."""
        return _stage("next", name, self, ConsumingStrategy.STRICT, self._skip)

    def followed_by(self, name: str | Pattern[Any]) -> Pattern[Any]:
        """Adds a stage whose event comes later: relaxed contiguity. The first event that fits is taken."""
        return _stage("followed_by", name, self, ConsumingStrategy.SKIP_TILL_NEXT, self._skip)

    def followed_by_any(self, name: str | Pattern[Any]) -> Pattern[Any]:
        """Adds a stage whose event comes later, where every event that fits gives a match of its own:
        non-deterministic relaxed contiguity.
        """
        return _stage("followed_by_any", name, self, ConsumingStrategy.SKIP_TILL_ANY, self._skip)

    def not_next(self, name: str) -> Pattern[Any]:
        """Adds a stage whose event must not come directly next."""
        return self._negative("not_next", name, ConsumingStrategy.NOT_NEXT)

    def not_followed_by(self, name: str) -> Pattern[Any]:
        """Adds a stage whose event must not come before that of the following stage; as the last stage, not before the
        window ends.
        """
        return self._negative("not_followed_by", name, ConsumingStrategy.NOT_FOLLOW)

    def _negative(self, method: str, name: str, consuming: ConsumingStrategy) -> Pattern[Any]:
        if not isinstance(name, str) or not name:
            raise TypeError(f"{method}: expected the name of a stage, got {name!r}")
        if self._quantifier.has_property(QuantifierProperty.OPTIONAL):
            raise NotImplementedError(f"stage {name!r} after {self.describe()}: {_OPTIONAL_NOT}")
        return Pattern(name, self, consuming, self._skip)

    # --- conditions ---

    def where(self: _P, condition: Any) -> _P:
        """Takes only events that fit a condition, in addition to those given before: a callable of the event, or of the
        event and a context, or a condition object.

        Example::

            pattern.where(lambda event: event.price > 10)
            pattern.where(lambda event, ctx: event.price > sum(e.price for e in ctx.get_events_for_pattern("start")))
        """
        found = as_condition(f"where of stage {self._name!r}", condition)
        self._condition = found if self._condition is None else both(self._condition, found)
        return self

    def or_(self: _P, condition: Any) -> _P:
        """Takes events that fit a condition as well: `pattern.where(is_a).or_(is_b)`."""
        found = as_condition(f"or_ of stage {self._name!r}", condition)
        self._condition = found if self._condition is None else either(self._condition, found)
        return self

    def subtype(self: _P, subtype: type[Any]) -> _P:
        """Takes only events of a class: `pattern.subtype(Alarm)`."""
        if not isinstance(subtype, type):
            raise TypeError(f"subtype of stage {self._name!r}: expected a class, got {subtype!r}")
        found = SubtypeCondition(subtype)
        self._condition = found if self._condition is None else both(self._condition, found)
        return self

    def until(self: _P, condition: Any) -> _P:
        """Ends a loop at the first event that fits, which is not taken: `pattern.one_or_more().until(is_end)`."""
        if self._until is not None:
            raise self._malformed("Only one until condition can be applied.")
        if not self._quantifier.has_property(QuantifierProperty.LOOPING):
            raise self._malformed("The until condition is only applicable to looping states.")
        self._until = as_condition(f"until of {self.describe()}", condition)
        return self

    # --- quantifiers ---

    def one_or_more(self: _P, window: Duration | None = None) -> _P:
        """Takes one event or more."""
        self._check_quantifiable()
        self._times = Times(1, 1, self._optional_millis("one_or_more", window))
        self._quantify(QuantifierProperty.LOOPING)
        return self

    def times(self: _P, from_: int, to: int | Duration | None = None, window: Duration | None = None) -> _P:
        """Takes so many events: `times(3)`, or `times(2, 4)` for two to four."""
        self._check_quantifiable()
        if isinstance(to, (Duration, Time)):
            to, window = None, to
        millis = self._optional_millis("times", window)
        if to is None:
            self._check_number("times", from_)
            if from_ <= 0:
                raise self._malformed("You should give a positive number greater than 0.")
            times = Times(from_, from_, millis)
        else:
            times = self._bounds("times", from_ if from_ != 0 else 1, to, millis)
        self._times = times
        self._quantify(QuantifierProperty.TIMES)
        if to is not None and from_ == 0:
            self._quantifier.optional()
        return self

    def times_or_more(self: _P, times: int, window: Duration | None = None) -> _P:
        """Takes so many events or more."""
        self._check_quantifiable()
        self._times = self._bounds("times_or_more", times, times, self._optional_millis("times_or_more", window))
        self._quantify(QuantifierProperty.LOOPING)
        return self

    def optional(self: _P) -> _P:
        """Makes the stage optional: zero times as well."""
        if self._previous is not None and self._previous._quantifier.has_property(QuantifierProperty.GREEDY):
            raise self._malformed("Optional pattern cannot be preceded by greedy pattern")
        self._quantifier.optional()
        return self

    def greedy(self: _P) -> _P:
        """Lets a loop take an event that would fit the following stage as well."""
        self._check_not_negative()
        self._check_no_group()
        self._quantifier.greedy()
        return self

    def consecutive(self: _P) -> _P:
        """Allows no other event inside the loop: strict contiguity."""
        self._quantifier.consecutive()
        return self

    def allow_combinations(self: _P) -> _P:
        """Lets a loop leave out events that fit: non-deterministic relaxed contiguity."""
        self._quantifier.combinations()
        return self

    def within(self: _P, window: Duration | Time | None, within_type: WithinType = WithinType.FIRST_AND_LAST) -> _P:
        """Limits the time of the whole match, or between the event of this stage and the one before.

        Example::

            pattern.within(Duration.of_seconds(10))
        """
        if not isinstance(within_type, WithinType):
            raise TypeError(f"within of {self.describe()}: expected a WithinType, got {within_type!r}")
        if window is not None:
            self._windows[within_type] = Duration.of_millis(self._millis("within", window))
        return self

    # --- what it is ---

    def get_name(self) -> str:
        """Returns the name of this stage."""
        return self._name

    def get_previous(self) -> Pattern[Any] | None:
        """Returns the stage before this one; None for the first."""
        return self._previous

    def get_quantifier(self) -> Quantifier:
        """Returns the quantifier of this stage."""
        return self._quantifier

    def get_condition(self) -> IterativeCondition[Any]:
        """Returns the condition of this stage; without one, a condition that every event fits."""
        return Constant(True) if self._condition is None else self._condition

    def get_until_condition(self) -> IterativeCondition[Any] | None:
        """Returns the condition that ends the loop of this stage, if there is one."""
        return self._until

    def get_times(self) -> Times | None:
        """Returns how often this stage takes an event; None for a single stage."""
        return self._times

    def get_window_size(self, within_type: WithinType = WithinType.FIRST_AND_LAST) -> Duration | None:
        """Returns the window given to this stage, if there is one."""
        return self._windows.get(within_type)

    def get_after_match_skip_strategy(self) -> AfterMatchSkipStrategy:
        """Returns the strategy given to `begin`."""
        return self._skip

    def stages(self) -> list[Pattern[Any]]:
        """Returns all stages from the first one to this."""
        found: list[Pattern[Any]] = []
        stage: Pattern[Any] | None = self
        while stage is not None:
            found.append(stage)
            stage = stage._previous
        return found[::-1]

    def describe(self) -> str:
        """Returns how messages call this stage."""
        return f"stage {self._name!r}"

    def __repr__(self) -> str:
        parts = [f"{each._quantifier.get_consuming_strategy().value} {each._name!r}" for each in self.stages()]
        return f"Pattern({', '.join(parts)})"

    # --- checks ---

    def _quantify(self, kind: QuantifierProperty) -> None:
        # As in Flink, optional() is lost if it comes before the quantifier.
        self._quantifier = Quantifier(self.describe(), self._quantifier.get_consuming_strategy(), kind)

    def _check_quantifiable(self) -> None:
        self._check_not_negative()
        if not self._quantifier.has_property(QuantifierProperty.SINGLE):
            raise self._malformed(
                f"Already applied quantifier to this Pattern. Current quantifier is: {self._quantifier!r}"
            )

    def _check_not_negative(self) -> None:
        if self._quantifier.is_negative():
            raise self._malformed("Option not applicable to NOT pattern")

    def _check_no_group(self) -> None:
        """Refuses what a group cannot do."""

    def _bounds(self, method: str, from_: int, to: int, window: int | None) -> Times:
        self._check_number(method, from_)
        self._check_number(method, to)
        if from_ <= 0:
            raise self._malformed("The from should be a positive number greater than 0.")
        if to < from_:
            raise self._malformed(f"The to should be a number greater than or equal to from: {from_}.")
        return Times(from_, to, window)

    def _check_number(self, method: str, number: Any) -> None:
        if isinstance(number, bool) or not isinstance(number, int):
            raise TypeError(f"{method} of {self.describe()}: expected an integer, got {number!r}")

    def _optional_millis(self, method: str, window: Any) -> int | None:
        return None if window is None else self._millis(method, window)

    def _millis(self, method: str, window: Any) -> int:
        if isinstance(window, Duration):
            return window.to_millis()
        if isinstance(window, Time):
            return window.to_milliseconds()
        raise TypeError(f"{method} of {self.describe()}: expected a Duration, got {window!r}")

    def _malformed(self, message: str) -> MalformedPatternException:
        return MalformedPatternException(f"{self.describe()}: {message}")


class GroupPattern(Pattern[T]):
    """A pattern in the place of a stage: `Pattern.begin(group).times(2)`."""

    def __init__(
        self,
        group: Pattern[Any],
        previous: Pattern[Any] | None,
        consuming: ConsumingStrategy,
        skip: AfterMatchSkipStrategy,
    ) -> None:
        self._group = group
        super().__init__("GroupPattern", previous, consuming, skip)

    def get_raw_pattern(self) -> Pattern[Any]:
        """Returns the pattern of the group."""
        return self._group

    def describe(self) -> str:
        """Returns how messages call this group: by its stages."""
        return f"the group of {', '.join(stage.describe() for stage in self._group.stages())}"

    def where(self, condition: Any) -> NoReturn:
        """Refused: a group has no condition of its own."""
        raise self._refusal("where clause")

    def or_(self, condition: Any) -> NoReturn:
        """Refused: a group has no condition of its own."""
        raise self._refusal("or clause")

    def subtype(self, subtype: type[Any]) -> NoReturn:
        """Refused: a group has no condition of its own."""
        raise self._refusal("subtype clause")

    def _check_no_group(self) -> None:
        raise self._malformed("Option not applicable to group pattern")

    def _refusal(self, what: str) -> NotImplementedError:
        return NotImplementedError(f"{self.describe()}: GroupPattern does not support {what}.")


def _stage(
    method: str,
    name: Any,
    previous: Pattern[Any] | None,
    consuming: ConsumingStrategy,
    skip: AfterMatchSkipStrategy,
) -> Pattern[Any]:
    if isinstance(name, Pattern):
        return GroupPattern(name, previous, consuming, skip)
    if not isinstance(name, str) or not name:
        raise TypeError(f"{method}: expected the name of a stage or a pattern, got {name!r}")
    return Pattern(name, previous, consuming, skip)
