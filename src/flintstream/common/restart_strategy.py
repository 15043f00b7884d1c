"""Descriptions of restart strategies, which the JobMaster carries out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from .time import Duration, Time, to_millis

__all__ = ["RestartStrategies", "RestartStrategyConfiguration"]

_TYPE = "restart-strategy.type"


class RestartStrategyConfiguration(ABC):
    """How a job restarts after a failure. Created by :class:`RestartStrategies`."""

    @abstractmethod
    def get_description(self) -> str:
        """Returns a readable description."""

    @abstractmethod
    def _options(self) -> dict[str, str]:
        """Returns the equivalent configuration options."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))

    def __repr__(self) -> str:
        return self.get_description()


class RestartStrategies:
    """Creates restart strategies.

    Example::

        >>> RestartStrategies.fixed_delay_restart(3, 10_000).get_description()
        'Restart with fixed delay (10000 ms). #3 restart attempts.'
    """

    @staticmethod
    def no_restart() -> RestartStrategies.NoRestartStrategyConfiguration:
        """Ends the job with the first failure."""
        return RestartStrategies.NoRestartStrategyConfiguration()

    @staticmethod
    def fall_back_restart() -> RestartStrategies.FallbackRestartStrategyConfiguration:
        """Uses the configured ``restart-strategy.type``."""
        return RestartStrategies.FallbackRestartStrategyConfiguration()

    @staticmethod
    def fixed_delay_restart(
        restart_attempts: int, delay_between_attempts: int | Duration | Time
    ) -> RestartStrategies.FixedDelayRestartStrategyConfiguration:
        """Restarts up to `restart_attempts` times, after a fixed delay (milliseconds if an int)."""
        return RestartStrategies.FixedDelayRestartStrategyConfiguration(restart_attempts, delay_between_attempts)

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: int | Duration | Time, delay_interval: int | Duration | Time
    ) -> RestartStrategies.FailureRateRestartStrategyConfiguration:
        """Restarts after a fixed delay, until the number of failures within the interval exceeds the limit."""
        return RestartStrategies.FailureRateRestartStrategyConfiguration(failure_rate, failure_interval, delay_interval)

    @staticmethod
    def exponential_delay_restart(
        initial_backoff: int | Duration | Time,
        max_backoff: int | Duration | Time,
        backoff_multiplier: float = 1.5,
        reset_backoff_threshold: int | Duration | Time = 3_600_000,
        jitter_factor: float = 0.1,
    ) -> RestartStrategies.ExponentialDelayRestartStrategyConfiguration:
        """Restarts without limit, after delays that grow up to a maximum and reset after a period without failures."""
        return RestartStrategies.ExponentialDelayRestartStrategyConfiguration(
            initial_backoff, max_backoff, backoff_multiplier, reset_backoff_threshold, jitter_factor
        )

    class NoRestartStrategyConfiguration(RestartStrategyConfiguration):
        """Ends the job with the first failure."""

        def get_description(self) -> str:
            """Returns a readable description."""
            return "Restart deactivated."

        def _options(self) -> dict[str, str]:
            return {_TYPE: "none"}

    class FallbackRestartStrategyConfiguration(RestartStrategyConfiguration):
        """Uses the configured strategy."""

        def get_description(self) -> str:
            """Returns a readable description."""
            return "Cluster level default restart strategy"

        def _options(self) -> dict[str, str]:
            return {}

    class FixedDelayRestartStrategyConfiguration(RestartStrategyConfiguration):
        """Restarts a fixed number of times, after a fixed delay."""

        def __init__(
            self,
            restart_attempts: int | None = None,
            delay_between_attempts_interval: int | Duration | Time | None = None,
        ) -> None:
            self._attempts = _count("restart_attempts", restart_attempts, 1)
            self._delay = _millis("delay_between_attempts_interval", delay_between_attempts_interval, 1000)

        def get_restart_attempts(self) -> int:
            """Returns the number of restarts before the job fails for good."""
            return self._attempts

        def get_delay_between_attempts_interval(self) -> Duration:
            """Returns the delay before a restart."""
            return Duration.of_millis(self._delay)

        def get_description(self) -> str:
            """Returns a readable description."""
            return f"Restart with fixed delay ({self._delay} ms). #{self._attempts} restart attempts."

        def _options(self) -> dict[str, str]:
            return _as_options("fixed-delay", {"attempts": self._attempts, "delay": f"{self._delay} ms"})

    class FailureRateRestartStrategyConfiguration(RestartStrategyConfiguration):
        """Restarts until failures become too frequent."""

        def __init__(
            self,
            max_failure_rate: int | None = None,
            failure_interval: int | Duration | Time | None = None,
            delay_between_attempts_interval: int | Duration | Time | None = None,
        ) -> None:
            self._rate = _count("max_failure_rate", max_failure_rate, 1)
            self._interval = _millis("failure_interval", failure_interval, 60_000)
            self._delay = _millis("delay_between_attempts_interval", delay_between_attempts_interval, 1000)

        def get_max_failure_rate(self) -> int:
            """Returns the maximum number of failures within the interval."""
            return self._rate

        def get_failure_interval(self) -> Duration:
            """Returns the interval in which failures are counted."""
            return Duration.of_millis(self._interval)

        def get_delay_between_attempts_interval(self) -> Duration:
            """Returns the delay before a restart."""
            return Duration.of_millis(self._delay)

        def get_description(self) -> str:
            """Returns a readable description."""
            return (
                f"Failure rate restart with maximum of {self._rate} failures "
                f"within interval {self._interval} ms and fixed delay {self._delay} ms."
            )

        def _options(self) -> dict[str, str]:
            return _as_options(
                "failure-rate",
                {
                    "max-failures-per-interval": self._rate,
                    "failure-rate-interval": f"{self._interval} ms",
                    "delay": f"{self._delay} ms",
                },
            )

    class ExponentialDelayRestartStrategyConfiguration(RestartStrategyConfiguration):
        """Restarts without limit, after growing delays."""

        def __init__(
            self,
            initial_backoff: int | Duration | Time = 1000,
            max_backoff: int | Duration | Time = 60_000,
            backoff_multiplier: float = 1.5,
            reset_backoff_threshold: int | Duration | Time = 3_600_000,
            jitter_factor: float = 0.1,
        ) -> None:
            self.initial_backoff = _millis("initial_backoff", initial_backoff, 1000)
            self.max_backoff = _millis("max_backoff", max_backoff, 60_000)
            self.backoff_multiplier = backoff_multiplier
            self.reset_backoff_threshold = _millis("reset_backoff_threshold", reset_backoff_threshold, 3_600_000)
            self.jitter_factor = jitter_factor
            if self.max_backoff < self.initial_backoff:
                raise ValueError(f"max_backoff ({self.max_backoff} ms) is below initial_backoff.")
            if backoff_multiplier < 1 or not 0 <= jitter_factor <= 1:
                raise ValueError("backoff_multiplier must be 1 or more, and jitter_factor from 0 to 1.")

        def get_description(self) -> str:
            """Returns a readable description."""
            return (
                f"Restart with exponential delay, from {self.initial_backoff} ms to {self.max_backoff} ms, "
                f"multiplied by {self.backoff_multiplier}, reset after {self.reset_backoff_threshold} ms."
            )

        def _options(self) -> dict[str, str]:
            return _as_options(
                "exponential-delay",
                {
                    "initial-backoff": f"{self.initial_backoff} ms",
                    "max-backoff": f"{self.max_backoff} ms",
                    "backoff-multiplier": self.backoff_multiplier,
                    "reset-backoff-threshold": f"{self.reset_backoff_threshold} ms",
                    "jitter-factor": self.jitter_factor,
                },
            )


def _as_options(kind: str, values: dict[str, Any]) -> dict[str, str]:
    return {_TYPE: kind, **{f"restart-strategy.{kind}.{key}": str(value) for key, value in values.items()}}


def _count(name: str, value: Any, default: int) -> int:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{name} must be an integer of at least 0, not {value!r}.")
    return value


def _millis(name: str, value: int | Duration | Time | None, default: int) -> int:
    millis = default if value is None else to_millis(value)
    if millis < 0:
        raise ValueError(f"{name} must not be negative, but is {millis} ms.")
    return millis
