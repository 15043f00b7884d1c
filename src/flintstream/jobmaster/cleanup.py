"""Cleanup: every step is run, even if an earlier one fails."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

_log = logging.getLogger(__name__)


def clean_up(steps: Iterable[Callable[[], None]], left: str) -> None:
    """Runs all steps; if one fails, the reason is logged with `left`, which names what is left behind."""
    for step in steps:
        try:
            step()
        except Exception:
            _log.warning("%s", left, exc_info=True)
