"""SlotTimeouts: the timeouts between driver and slots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flintstream.common.config_values import parse_duration
from flintstream.common.flint_options import REPORT_AFTER, SLOT_CALL_TIMEOUT

_START = "slot.request.timeout"
_INTERVAL = "heartbeat.interval"
_TIMEOUT = "heartbeat.timeout"
_CANCELLATION = "task.cancellation.timeout"
_LAUNCH_SECONDS = 30.0


@dataclass(frozen=True)
class SlotTimeouts:
    """The timeouts of a job, in seconds."""

    start: float = 300.0
    """For the slots to start."""
    call: float = 300.0
    """For a slot to answer a call that runs no user code."""
    heartbeat_interval: float = 10.0
    heartbeat_timeout: float = 600.0
    """For a silent slot or driver. Longer than Flink's: native code may hold an interpreter for minutes."""
    cancellation: float | None = 5.0
    """For user code to close when a job is cancelled or has failed; None for no limit."""
    report_after: float = 60.0
    """For slots to work on one thing before it is reported."""

    @property
    def launch(self) -> float:
        """How long a Spark task may take to start its slots, before they are started again."""
        return min(_LAUNCH_SECONDS, self.start / 2)

    @staticmethod
    def of(configuration: Mapping[str, str]) -> SlotTimeouts:
        """Reads the settings."""
        default = SlotTimeouts()

        def seconds(key: str, default: float, or_zero: bool = False) -> float:
            given = configuration.get(key)
            if given is None:
                return default
            duration = parse_duration(given, key).to_millis() / 1000
            if duration < 0 or (duration == 0 and not or_zero):
                raise ValueError(f"{key} must be greater than 0, got {given!r}")
            return duration

        call, report_after = SLOT_CALL_TIMEOUT.of(configuration), REPORT_AFTER.of(configuration)
        assert default.cancellation is not None
        timeouts = SlotTimeouts(
            start=seconds(_START, default.start),
            call=default.call if call is None else call.to_millis() / 1000,
            heartbeat_interval=seconds(_INTERVAL, default.heartbeat_interval),
            heartbeat_timeout=seconds(_TIMEOUT, default.heartbeat_timeout),
            cancellation=seconds(_CANCELLATION, default.cancellation, or_zero=True) or None,
            report_after=default.report_after if report_after is None else report_after.to_millis() / 1000,
        )
        if timeouts.heartbeat_interval > timeouts.heartbeat_timeout / 2:
            raise ValueError(
                f"{_INTERVAL} ({_shown(configuration, _INTERVAL, timeouts.heartbeat_interval)}) must be at most half "
                "of "
                f"{_TIMEOUT} ({_shown(configuration, _TIMEOUT, timeouts.heartbeat_timeout)}): otherwise responsive "
                "slots would be considered lost"
            )
        return timeouts


def _shown(configuration: Mapping[str, str], key: str, seconds: float) -> str:
    return repr(configuration[key]) if key in configuration else f"{seconds:g} s by default"
