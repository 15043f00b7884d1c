"""The shapes of what all have in common."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

Number = int | float | Literal["NaN"]


class Empty(TypedDict):
    """No answer but success."""


class Errors(TypedDict):
    """What every refused request gets."""

    errors: list[str]
