"""RestartStrategy: whether and when a failed job is restarted."""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from typing import TypeVar

from flintstream.common.config_values import parse_duration, parse_float, parse_integer
from flintstream.common.deprecated_keys import find_key

TYPE = "restart-strategy.type"
_PREFIX = "restart-strategy."
_WITHOUT_END = 2**31 - 1
_Number = TypeVar("_Number", int, float)


class RestartStrategy(ABC):
    """Decides after each failure. `clock` returns seconds."""

    @abstractmethod
    def delay(self) -> float | None:
        """Returns the delay in seconds before the restart after a failure, or None to end the job."""


class NoRestart(RestartStrategy):
    """Ends the job with the first failure."""

    def __str__(self) -> str:
        return "no restart"

    def delay(self) -> float | None:
        return None


class FixedDelay(RestartStrategy):
    """Restarts a fixed number of times, after a fixed delay."""

    def __init__(self, restarts: int, seconds: float) -> None:
        self._restarts = self._left = restarts
        self._seconds = seconds

    def __str__(self) -> str:
        return f"fixed delay: at most {_times(self._restarts)}, {self._seconds:g} s after each failure"

    def delay(self) -> float | None:
        self._left -= 1
        return self._seconds if self._left >= 0 else None


class FailureRate(RestartStrategy):
    """Restarts until the number of failures within an interval exceeds the limit."""

    def __init__(self, most: int, interval: float, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval = interval
        self._seconds = seconds
        self._clock = clock
        self._failures: deque[float] = deque(maxlen=most + 1)
        self._most = most

    def __str__(self) -> str:
        most = f"at most {_times(self._most)} within {self._interval:g} s"
        return f"failure rate: {most}, {self._seconds:g} s after each failure"

    def delay(self) -> float | None:
        self._failures.append(self._clock())
        too_many = len(self._failures) > self._most and self._failures[-1] - self._failures[0] <= self._interval
        return None if too_many else self._seconds


class ExponentialDelay(RestartStrategy):
    """Restarts after delays that grow up to a limit, and reset after a period without failures."""

    def __init__(
        self,
        initial: float = 1.0,
        most: float = 60.0,
        multiplier: float = 1.5,
        reset_after: float = 3600.0,
        jitter: float = 0.1,
        attempts: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._initial = initial
        self._most = most
        self._multiplier = multiplier
        self._reset_after = reset_after
        self._jitter = jitter
        self._attempts = attempts
        self._clock = clock
        self._restarts = 0
        self._running_since: float | None = None

    def __str__(self) -> str:
        most = "any number of times" if self._attempts is None else f"at most {_times(self._attempts)} in a row"
        return (
            f"exponential delay: {most}, {self._initial:g} s after the first failure and up to {self._most:g} s later"
        )

    def delay(self) -> float | None:
        now = self._clock()
        if self._running_since is not None and now - self._running_since >= self._reset_after:
            self._restarts = 0
        seconds = self._backoff()
        self._restarts += 1
        if self._attempts is not None and self._restarts > self._attempts:
            return None
        self._running_since = now + seconds
        return seconds

    def _backoff(self) -> float:
        try:
            grown = self._initial * self._multiplier**self._restarts
        except OverflowError:
            return self._most
        varied = grown * (1 + random.uniform(-self._jitter, self._jitter))
        return max(self._initial, min(varied, self._most))


def restart_strategy(
    configuration: Mapping[str, str], checkpointing: bool, clock: Callable[[], float] = time.monotonic
) -> RestartStrategy:
    """Returns the configured strategy; by default growing delays with checkpoints, and no restart without."""
    given = find_key(configuration, TYPE)
    name = configuration[given] if given is not None else ""
    if not name:
        name = "exponential-delay" if checkpointing else "none"
    kind = name.strip().lower().replace("_", "-").replace("exponentialdelay", "exponential-delay")
    kind = kind.replace("fixeddelay", "fixed-delay").replace("failurerate", "failure-rate")

    def seconds(key: str, default: str, least: float = 0.0) -> float:
        text = configuration.get(_PREFIX + key, default)
        value = parse_duration(text, _PREFIX + key).to_millis() / 1000
        return _checked(key, text, value, value >= least, f"at least {least * 1000:.0f} ms")

    def number(key: str, default: int, least: int) -> int:
        value = parse_integer(configuration.get(_PREFIX + key, default), _PREFIX + key)
        return _checked(key, value, value, value >= least, f"at least {least}")

    def fraction(key: str, default: float) -> float:
        return parse_float(configuration.get(_PREFIX + key, default), _PREFIX + key)

    if kind in ("none", "off", "disable"):
        return NoRestart()
    if kind == "fixed-delay":
        return FixedDelay(number("fixed-delay.attempts", 1, 0), seconds("fixed-delay.delay", "1 s"))
    if kind == "failure-rate":
        return FailureRate(
            number("failure-rate.max-failures-per-interval", 1, 1),
            seconds("failure-rate.failure-rate-interval", "1 min", 0.001),
            seconds("failure-rate.delay", "1 s"),
            clock,
        )
    if kind == "exponential-delay":
        initial = seconds("exponential-delay.initial-backoff", "1 s", 0.001)
        most = seconds("exponential-delay.max-backoff", "1 min", 0.001)
        multiplier = fraction("exponential-delay.backoff-multiplier", 1.5)
        jitter = fraction("exponential-delay.jitter-factor", 0.1)
        attempts = number("exponential-delay.attempts-before-reset-backoff", _WITHOUT_END, 1)
        _checked(
            "exponential-delay.max-backoff", most, most, most >= initial, f"at least the initial one, {initial:g} s"
        )
        _checked("exponential-delay.backoff-multiplier", multiplier, multiplier, multiplier > 1, "greater than 1")
        _checked("exponential-delay.jitter-factor", jitter, jitter, 0 <= jitter <= 1, "from 0 to 1")
        return ExponentialDelay(
            initial,
            most,
            multiplier,
            seconds("exponential-delay.reset-backoff-threshold", "1 h", 0.001),
            jitter,
            None if attempts >= _WITHOUT_END else attempts,
            clock,
        )
    raise ValueError(f"{TYPE} must be none, fixed-delay, failure-rate or exponential-delay, got {name!r}")


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _checked(key: str, given: object, value: _Number, fits: bool, wanted: str) -> _Number:
    if not fits:
        raise ValueError(f"{_PREFIX}{key} must be {wanted}, got {given!r}")
    return value
