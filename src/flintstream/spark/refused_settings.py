"""Spark settings that are incompatible with jobs. Independent of PySpark, so that planning alone can refuse them."""

from __future__ import annotations

import os
from collections.abc import Mapping

__all__ = ["REFUSED", "SessionError", "check_settings"]

REFUSED = {
    "spark.speculation": "a speculative copy of a task would process its records twice",
    "spark.dynamicAllocation.enabled": "a released executor loses the state of its slots",
}


class SessionError(RuntimeError):
    """The Spark session cannot run a Flintstream job; the message names the setting."""


def check_settings(settings: Mapping[str, str | None]) -> None:
    """Raises :class:`SessionError` for settings with which exactly-once processing is impossible."""
    for key, why in REFUSED.items():
        if (settings.get(key) or "").strip().lower() == "true":
            raise SessionError(f"{key} is true, but {why}: set {key}=false.")
    if os.environ.get("SPARK_REMOTE") or settings.get("spark.remote"):
        raise SessionError(
            "Flintstream needs a classic Spark session: unset SPARK_REMOTE or spark.remote, and set spark.master."
        )
