"""AfterMatchSkipStrategy: which partial matches are discarded once a match is complete."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from flintstream.runtime.cep.computation import Moment

Path = Sequence[tuple[str, Moment]]
"""The events of a match in the order in which they were taken: the stage, and the place of the event."""


class AfterMatchSkipStrategy:
    """What happens to overlapping matches; given to `Pattern.begin`.

    Any strategy other than `no_skip` also orders the matches: one is emitted only when no partial match that began
    earlier is alive.

    Example::

        Pattern.begin("a", AfterMatchSkipStrategy.skip_past_last_event())
    """

    skips = True
    """Whether matches are ordered, and partial matches discarded."""

    def __init__(self, name: str) -> None:
        self._name = name

    @staticmethod
    def no_skip() -> AfterMatchSkipStrategy:
        """Emits every match."""
        return NoSkip()

    @staticmethod
    def skip_to_next() -> AfterMatchSkipStrategy:
        """Discards the partial matches that began with the same event as the match."""
        return SkipRelative("skip_to_next", min, 0)

    @staticmethod
    def skip_past_last_event() -> AfterMatchSkipStrategy:
        """Discards the partial matches that began before the match ended."""
        return SkipRelative("skip_past_last_event", max, -1)

    @staticmethod
    def skip_to_first(pattern_name: str) -> SkipToElement:
        """Discards the partial matches that began before the first event of a stage."""
        return SkipToElement("skip_to_first", pattern_name, 0)

    @staticmethod
    def skip_to_last(pattern_name: str) -> SkipToElement:
        """Discards the partial matches that began before the last event of a stage."""
        return SkipToElement("skip_to_last", pattern_name, -1)

    def get_pattern_name(self) -> str | None:
        """Returns the stage that is skipped to, if any."""
        return None

    def first_kept(self, match: Path) -> Moment | None:
        """Returns the earliest place at which a partial match may have begun to survive the match; None for any."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((type(self), self._name, self.get_pattern_name()))

    def __repr__(self) -> str:
        return f"AfterMatchSkipStrategy.{self._name}()"


class NoSkip(AfterMatchSkipStrategy):
    """Discards nothing."""

    skips = False

    def __init__(self) -> None:
        super().__init__("no_skip")

    def first_kept(self, match: Path) -> Moment | None:
        return None


class SkipRelative(AfterMatchSkipStrategy):
    """Skips to the event after the first or the last one of the match."""

    def __init__(self, name: str, choose: Callable[[Iterable[Moment]], Moment], index: int) -> None:
        super().__init__(name)
        self._choose = choose
        self._index = index

    def first_kept(self, match: Path) -> Moment | None:
        if not match:
            return None
        of_stage: dict[str, list[Moment]] = {}
        for stage, moment in match:
            of_stage.setdefault(stage, []).append(moment)
        timestamp, event = self._choose(moments[self._index] for moments in of_stage.values())
        return timestamp, event + 1


class SkipToElement(AfterMatchSkipStrategy):
    """Skips to the first or the last event of a stage."""

    def __init__(self, name: str, pattern_name: str, index: int, throws: bool = False) -> None:
        super().__init__(name)
        if not isinstance(pattern_name, str) or not pattern_name:
            raise TypeError(f"{name}: expected the name of a stage, got {pattern_name!r}")
        self._pattern_name = pattern_name
        self._index = index
        self._throws = throws

    def throw_exception_on_miss(self) -> SkipToElement:
        """Returns the strategy that fails if the match has no event of the stage, or begins with it."""
        return SkipToElement(self._name, self._pattern_name, self._index, True)

    def get_pattern_name(self) -> str:
        return self._pattern_name

    def first_kept(self, match: Path) -> Moment | None:
        events = [event for stage, event in match if stage == self._pattern_name]
        if not events:
            if self._throws:
                raise SkipMissed(f"Could not skip to {self._pattern_name}. No such element in the found match")
            return None
        kept = events[self._index]
        if self._throws and kept == match[0][1]:
            raise SkipMissed("Could not skip to first element of a match.")
        return kept

    def __repr__(self) -> str:
        suffix = ".throw_exception_on_miss()" if self._throws else ""
        return f"AfterMatchSkipStrategy.{self._name}({self._pattern_name!r}){suffix}"


class SkipMissed(RuntimeError):
    """A match cannot be skipped as its strategy demands."""

    def __reduce__(self) -> Any:
        return SkipMissed, self.args
