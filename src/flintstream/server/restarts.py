"""Whether and when the driver of a job is started again after it died, by the job's own restart strategy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flintstream.jobmaster.restart import restart_strategy

__all__ = ["Refusal", "restart_delay"]

_STARTS = 3
"""How often a driver is started again that was killed before its job began."""
_START_DELAY = 1.0


class Refusal(str):
    """Why a driver is not started again."""

    __slots__ = ()


def restart_delay(begun: Mapping[str, Any] | None, failures: Sequence[float]) -> float | Refusal:
    """Returns the seconds until the next driver is started, or why there is none.

    `begun` is what the driver noted when the job began; `failures` are the times of all deaths of the job's drivers,
    including this one. The strategy is asked anew about each, so that it decides as if the server had never ended.
    """
    if begun is None:
        if len(failures) > _STARTS:
            return Refusal(f"{len(failures)} drivers were killed before the job began")
        return _START_DELAY
    if begun["checkpointing"] and begun["directory"] is None:
        return Refusal(
            "the job's checkpoints were in the driver's memory: with execution.checkpointing.dir the job would be "
            "restarted"
        )
    times = iter(failures)
    strategy = restart_strategy(begun["restart"], begun["checkpointing"], clock=lambda: next(times))
    delay: float | None = None
    for _ in failures:
        delay = strategy.delay()
    if delay is not None:
        return delay
    if len(failures) > 1:
        return Refusal(f"the restart strategy permits no restart after {len(failures)} deaths of its drivers")
    return Refusal(
        "the job has no restart strategy: checkpoints (execution.checkpointing.interval) or restart-strategy.type would "
        "give it one"
    )
