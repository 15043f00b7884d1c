"""RestartStrategy: whether a job that has failed starts again, and after how long."""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping

from flintstream.common.config_values import parse_duration, parse_float, parse_integer

TYPE = ("restart-strategy.type", "restart-strategy")
_PREFIX = "restart-strategy."


class RestartStrategy(ABC):
    """Decides after each failure. `clock` gives seconds."""

    @abstractmethod
    def delay(self) -> float | None:
        """A failure has happened: the seconds to wait before the restart, or None to give the job up."""


class NoRestart(RestartStrategy):
    """The first failure ends the job."""

    def delay(self) -> float | None:
        return None


class FixedDelay(RestartStrategy):
    """So many restarts, each after the same delay."""

    def __init__(self, attempts: int, seconds: float) -> None:
        self._left = attempts
        self._seconds = seconds

    def delay(self) -> float | None:
        self._left -= 1
        return self._seconds if self._left >= 0 else None


class FailureRate(RestartStrategy):
    """Restarts until there are more failures within an interval than allowed."""

    def __init__(self, most: int, interval: float, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval = interval
        self._seconds = seconds
        self._clock = clock
        self._failures: deque[float] = deque(maxlen=most + 1)
        self._most = most

    def delay(self) -> float | None:
        self._failures.append(self._clock())
        too_many = len(self._failures) > self._most and self._failures[-1] - self._failures[0] <= self._interval
        return None if too_many else self._seconds


class ExponentialDelay(RestartStrategy):
    """Restarts after delays that grow up to a limit, and begin anew after a quiet time."""

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
        self._next = initial
        self._restarts = 0
        self._running_since: float | None = None

    def delay(self) -> float | None:
        now = self._clock()
        if self._running_since is not None and now - self._running_since >= self._reset_after:
            self._next, self._restarts = self._initial, 0
        self._restarts += 1
        if self._attempts is not None and self._restarts > self._attempts:
            return None
        seconds = self._next
        self._next = min(self._most, self._next * self._multiplier)
        seconds = max(0.0, seconds * (1 + random.uniform(-self._jitter, self._jitter)))
        self._running_since = now + seconds
        return seconds


def restart_strategy(configuration: Mapping[str, str], checkpointing: bool) -> RestartStrategy:
    """The strategy that a configuration names; without one, growing delays with checkpoints and none without."""
    name = next((configuration[key] for key in TYPE if configuration.get(key)), None)
    if name is None:
        name = "exponential-delay" if checkpointing else "none"
    kind = name.strip().lower().replace("_", "-").replace("exponentialdelay", "exponential-delay")
    kind = kind.replace("fixeddelay", "fixed-delay").replace("failurerate", "failure-rate")

    def seconds(key: str, default: str) -> float:
        return parse_duration(configuration.get(_PREFIX + key, default), _PREFIX + key).to_millis() / 1000

    def number(key: str, default: int) -> int:
        return parse_integer(configuration.get(_PREFIX + key, default), _PREFIX + key)

    def fraction(key: str, default: float) -> float:
        return parse_float(configuration.get(_PREFIX + key, default), _PREFIX + key)

    if kind in ("none", "off", "disable"):
        return NoRestart()
    if kind == "fixed-delay":
        return FixedDelay(number("fixed-delay.attempts", 1), seconds("fixed-delay.delay", "1 s"))
    if kind == "failure-rate":
        return FailureRate(
            number("failure-rate.max-failures-per-interval", 1),
            seconds("failure-rate.failure-rate-interval", "1 min"),
            seconds("failure-rate.delay", "1 s"),
        )
    if kind == "exponential-delay":
        attempts = configuration.get(f"{_PREFIX}exponential-delay.attempts-before-reset-backoff")
        return ExponentialDelay(
            seconds("exponential-delay.initial-backoff", "1 s"),
            seconds("exponential-delay.max-backoff", "1 min"),
            fraction("exponential-delay.backoff-multiplier", 1.5),
            seconds("exponential-delay.reset-backoff-threshold", "1 h"),
            fraction("exponential-delay.jitter-factor", 0.1),
            None if attempts in (None, "infinite", str(2**31 - 1)) else int(str(attempts)),
        )
    raise ValueError(f"{TYPE[0]} must be none, fixed-delay, failure-rate or exponential-delay, got {name!r}")
