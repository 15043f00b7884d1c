"""Patterns and inputs with the results of Flink 2.3, in `flink_cases.json`.

A case has stages, each with the calls that follow it; an input of events `["e", time, name, value]`, watermarks
`["w", time]` and, in processing time, settings of the clock `["p", time]`; and what Flink's CepOperator gave for one
key: matches `["m", stages and event numbers, time]` and time-outs `["t", …]` in order, and the late events.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from flintstream.cep import AfterMatchSkipStrategy, Pattern, WithinType
from flintstream.common.time import Duration

CASES: list[dict[str, Any]] = [
    json.loads(line) for line in Path(__file__).with_name("flink_cases.json").read_text().splitlines()
]


class Event:
    """An event: its number in the input, a name and a value."""

    def __init__(self, number: int, name: str, value: int) -> None:
        self.number, self.name, self.value = number, name, value


class Named:
    """A simple condition on the name."""

    def __init__(self, names: str) -> None:
        self.names = names

    def __call__(self, event: Event) -> bool:
        return event.name in self.names


class SumBelow(Named):
    """An iterative condition: the sum of the values of a stage, with this one, is below a limit."""

    def __init__(self, names: str, stage: str, limit: int) -> None:
        super().__init__(names)
        self.stage, self.limit = stage, limit

    def __call__(self, event: Event, ctx: Any) -> bool:  # type: ignore[override]
        before = sum(each.value for each in ctx.get_events_for_pattern(self.stage))
        return event.name in self.names and event.value + before < self.limit


def condition(described: dict[str, Any]) -> Named:
    if "sumBelow" in described:
        return SumBelow(described["in"], *described["sumBelow"])
    return Named(described["in"])


def strategy(described: list[str] | None) -> AfterMatchSkipStrategy:
    if not described:
        return AfterMatchSkipStrategy.no_skip()
    if described[0] == "next":
        return AfterMatchSkipStrategy.skip_to_next()
    if described[0] == "past":
        return AfterMatchSkipStrategy.skip_past_last_event()
    skip_to = {"first": AfterMatchSkipStrategy.skip_to_first, "last": AfterMatchSkipStrategy.skip_to_last}
    found = skip_to[described[0]](described[1])
    return found.throw_exception_on_miss() if len(described) > 2 else found


def pattern(stages: list[dict[str, Any]], skip: AfterMatchSkipStrategy | None = None) -> Pattern[Any]:
    """Builds the pattern of a case."""
    built: Any = None
    for stage in stages:
        name: Any = pattern(stage["group"]) if "group" in stage else stage["name"]
        built = Pattern.begin(name, skip) if stage["by"] == "begin" else getattr(built, stage["by"])(name)
        for method, *args in stage.get("calls", ()):
            built = getattr(built, method)(*_arguments(method, args))
    return built  # type: ignore[no-any-return]


def _arguments(method: str, args: list[Any]) -> list[Any]:
    if method in ("where", "or_", "until"):
        return [condition(args[0])]
    if method == "within":
        return [Duration.of_millis(args[0]), *([WithinType.PREVIOUS_AND_CURRENT] if len(args) > 1 else [])]
    if method == "one_or_more":
        return [Duration.of_millis(each) for each in args]
    if method == "times":
        return [*args[:2], *(Duration.of_millis(each) for each in args[2:])]
    if method == "times_or_more":
        return [args[0], *(Duration.of_millis(each) for each in args[1:])]
    return []


def shown(match: dict[str, list[Event]]) -> list[Any]:
    """A match as in a case."""
    return [[stage, [event.number for event in events]] for stage, events in match.items()]


def larger_first(left: Event, right: Event) -> int:
    return right.value - left.value
