"""Quantifier: how often a stage takes an event, and which events may stand between two of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from flintstream.cep.errors import MalformedPatternException


class ConsumingStrategy(Enum):
    """Which events may stand between two that are taken."""

    STRICT = "strict"
    SKIP_TILL_NEXT = "relaxed"
    SKIP_TILL_ANY = "non-deterministic relaxed"
    NOT_FOLLOW = "not followed by"
    NOT_NEXT = "not next"


class QuantifierProperty(Enum):
    """What a quantifier is."""

    SINGLE = "single"
    LOOPING = "looping"
    TIMES = "times"
    OPTIONAL = "optional"
    GREEDY = "greedy"


@dataclass(frozen=True)
class Times:
    """How often: from and to, both inclusive; and a window in milliseconds."""

    from_: int
    to: int
    window: int | None = None

    def get_from(self) -> int:
        """Returns the lower bound."""
        return self.from_

    def get_to(self) -> int:
        """Returns the upper bound; of a loop, the number of times after which it is open."""
        return self.to

    def get_window_size(self) -> int | None:
        """Returns the window in milliseconds, if there is one."""
        return self.window


_Strategy = ConsumingStrategy
_Property = QuantifierProperty


class Quantifier:
    """The quantifier of a stage, returned by `Pattern.get_quantifier`."""

    ConsumingStrategy = ConsumingStrategy
    QuantifierProperty = QuantifierProperty
    Times = Times

    def __init__(self, place: str, consuming: _Strategy, kind: _Property) -> None:
        self._place = place
        self._consuming = consuming
        self._inner = _Strategy.SKIP_TILL_NEXT
        self._properties = {kind}

    def has_property(self, prop: _Property) -> bool:
        """Returns whether the quantifier has a property."""
        return prop in self._properties

    def get_consuming_strategy(self) -> _Strategy:
        """Returns the contiguity with the stage before."""
        return self._consuming

    def get_inner_consuming_strategy(self) -> _Strategy:
        """Returns the contiguity inside the loop."""
        return self._inner

    def is_negative(self) -> bool:
        """Returns whether the stage is one that must not match."""
        return self._consuming in (_Strategy.NOT_FOLLOW, _Strategy.NOT_NEXT)

    def optional(self) -> None:
        """Makes the stage optional."""
        self._check(not self.has_property(_Property.OPTIONAL), "Optional already applied!")
        self._check(not self.is_negative(), "NOT pattern cannot be optional")
        self._properties.add(_Property.OPTIONAL)

    def greedy(self) -> None:
        """Makes the loop greedy."""
        any_inner = self._inner is _Strategy.SKIP_TILL_ANY
        self._check(not any_inner, "Option not applicable to FollowedByAny pattern")
        single = self.has_property(_Property.SINGLE)
        self._check(not single, "Option not applicable to singleton quantifier")
        self._properties.add(_Property.GREEDY)

    def consecutive(self) -> None:
        """Makes the contiguity inside the loop strict."""
        self._set_inner("Consecutive", _Strategy.STRICT, _Strategy.SKIP_TILL_ANY)

    def combinations(self) -> None:
        """Makes the contiguity inside the loop non-deterministic."""
        self._set_inner("Combinations", _Strategy.SKIP_TILL_ANY, _Strategy.STRICT)

    def _set_inner(self, what: str, inner: _Strategy, other: _Strategy) -> None:
        self._check(not self.has_property(_Property.SINGLE), f"{what} not applicable to {self}!")
        self._check(self._inner is not other, "You can apply either combinations or consecutive, not both!")
        self._check(self._inner is not inner, f"{what} already applied!")
        self._inner = inner

    def _check(self, holds: bool, message: str) -> None:
        if not holds:
            raise MalformedPatternException(f"{self._place}: {message}")

    def __repr__(self) -> str:
        names = ", ".join(sorted(prop.name for prop in self._properties))
        return f"Quantifier({names}, {self._consuming.value}, inside {self._inner.value})"
