"""KeyContext: the key whose state is used now."""

from __future__ import annotations

from typing import Any


class KeyContext:
    """What keyed states share: `current_key` is set before each record and timer.

    It is a class of its own so that compiled loops and states find the key without a look-up.
    """

    __slots__ = ("current_key",)

    def __init__(self) -> None:
        self.current_key: Any = None
