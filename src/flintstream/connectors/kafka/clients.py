"""Consumers and admin clients of confluent-kafka: their properties, and what they report while they run."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from flintstream.connectors.kafka.errors import reason_of
from flintstream.connectors.kafka.properties import Settings, client_settings

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

_LOG = logging.getLogger(__name__)
_QUIET_SECONDS = 60.0
"""The interval (seconds) at which a repeated error is logged."""
_REFUSALS = frozenset(
    {
        "_AUTHENTICATION",
        "SASL_AUTHENTICATION_FAILED",
        "UNSUPPORTED_SASL_MECHANISM",
        "TOPIC_AUTHORIZATION_FAILED",
        "GROUP_AUTHORIZATION_FAILED",
        "CLUSTER_AUTHORIZATION_FAILED",
    }
)
"""Errors that retries cannot resolve."""
_RENAMED = {"fetch.max.wait.ms": "fetch.wait.max.ms", "request.timeout.ms": "socket.timeout.ms"}
_WITHOUT_EFFECT = frozenset(
    {
        "max.poll.records",
        "exclude.internal.topics",
        "partition.assignment.strategy",
        "group.protocol",
        "register.consumer.metrics",
    }
)
"""Properties of polling and of group assignment: here the job assigns partitions."""


def consumer_settings(properties: Mapping[str, Any], what: str) -> Settings:
    """Returns the properties of a consumer by librdkafka's names; `what` names the connector in errors."""
    kept = {_RENAMED.get(name, name): value for name, value in properties.items() if name not in _WITHOUT_EFFECT}
    return client_settings(kept, what)


def with_callbacks(settings: Mapping[str, Any], errors: ClientErrors, **callbacks: Any) -> dict[str, Any]:
    """Returns the configuration of a client that reports its errors to `errors`, not to the terminal."""
    return {"log_level": 2, **settings, "logger": _LOG, "error_cb": errors, **callbacks}


class ClientErrors:
    """What a client reports while it runs. Refusals are kept for `check`; all else, which the client tries to mend by
    itself, is logged, so that one sees what a job waits for."""

    def __init__(self, who: str, also_refusals: frozenset[str] = frozenset()) -> None:
        self._who = who
        self._refusals = _REFUSALS | also_refusals
        self._refusal: KafkaError | None = None
        self._logged: dict[str, float] = {}
        self._last: KafkaError | None = None

    def __call__(self, error: KafkaError) -> None:
        now = time.monotonic()
        if now >= self._logged.get(error.name(), 0.0):
            # An unreachable broker is reported repeatedly.
            self._logged[error.name()] = now + _QUIET_SECONDS
            _LOG.warning("%s: %s", self._who, reason_of(error))
        if error.name() != "_ALL_BROKERS_DOWN":  # It says less than the previous one.
            self._last = error
        if error.fatal() or error.name() in self._refusals:
            self._refusal = error

    def check(self, kind: type[Exception]) -> None:
        """Raises an error that retries cannot resolve."""
        if self._refusal is not None:
            raise kind(f"{self._who}: {reason_of(self._refusal)}")

    def explain(self, error: KafkaError) -> str:
        """Returns an error with the last report, which often names the cause."""
        return reason_of(error) + self.told

    @property
    def told(self) -> str:
        """Returns the last report, to be appended to a message."""
        return "" if self._last is None else f"; reported before: {reason_of(self._last)}"
