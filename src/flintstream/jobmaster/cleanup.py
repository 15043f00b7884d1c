"""Cleaning up: each step is tried, whatever becomes of those before it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

_log = logging.getLogger(__name__)


def clean_up(steps: Iterable[Callable[[], None]], left: str) -> None:
    """Does all steps; `left` says what is left behind where one fails, and is logged with the reason."""
    for step in steps:
        try:
            step()
        except Exception:
            _log.warning("%s", left, exc_info=True)
