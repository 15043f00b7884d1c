"""Automaton: what a pattern is compiled to on the driver, and sent to every subtask.

Its states are joined by transitions that take an event, ignore it, or proceed to the next state and offer it the same
event. A partial match is in one state at a time; where several transitions fit it branches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from flintstream.runtime.cep.conditions import IterativeCondition
from flintstream.runtime.cep.skip import AfterMatchSkipStrategy


class Action(Enum):
    """What a transition does with the event."""

    TAKE = "take"
    IGNORE = "ignore"
    PROCEED = "proceed"


class StateKind(Enum):
    """The part that a state plays."""

    START = "start"
    NORMAL = "normal"
    PENDING = "pending"
    """A match, once its window has ended without the event that must not come."""
    STOP = "stop"
    """The event that must not come has come: the partial match is discarded."""
    FINAL = "final"


class State:
    """A state: the name is unique, the stage is the name that the user gave."""

    def __init__(self, index: int, name: str, stage: str, kind: StateKind) -> None:
        self.index = index
        self.name = name
        self.stage = stage
        self.kind = kind
        self.transitions: list[Transition] = []

    def add(self, action: Action, target: State, condition: IterativeCondition[Any]) -> None:
        """Adds a transition; they are tried in this order."""
        self.transitions.append(Transition(action, target, condition))

    def __repr__(self) -> str:
        return f"State({self.name!r}, {self.kind.value})"


@dataclass
class Transition:
    """A transition: for an event that fits the condition."""

    action: Action
    target: State
    condition: IterativeCondition[Any]


@dataclass
class Automaton:
    """The states of a pattern, and its windows in milliseconds."""

    states: list[State]
    start: State
    skip: AfterMatchSkipStrategy
    window: int = 0
    """The longest time from the first event of a match to its last, exclusive; 0 for none."""
    step_windows: dict[int, int] = field(default_factory=dict)
    """The longest time that a partial match may stay in a state, by the state's index."""

    def conditions(self) -> Iterator[IterativeCondition[Any]]:
        """Yields the user's conditions, each once."""
        seen: set[int] = set()
        for state in self.states:
            for transition in state.transitions:
                for leaf in transition.condition.leaves():
                    if id(leaf) not in seen:
                        seen.add(id(leaf))
                        yield leaf

    def layout(self) -> list[str]:
        """Returns the states and transitions as text, without the conditions: equal for automata between which partial
        matches can be exchanged.
        """
        return [
            f"{state.name} ({state.kind.value})"
            + "".join(f"; {each.action.value} {each.target.name}" for each in state.transitions)
            for state in self.states
        ]
