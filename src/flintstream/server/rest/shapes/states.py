"""The shapes of queried state."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict


class QueriedState(TypedDict):
    """The state of a key."""

    name: str
    key: Any
    kind: str
    value: Any


class StateAnswer(TypedDict):
    """The answer to one query; `value` is a pickled value in base64, or says why there is none."""

    status: str
    kind: str
    value: str


class StateAnswers(TypedDict):
    """The answers to queries, in their order."""

    answers: list[StateAnswer]
