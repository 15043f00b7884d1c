"""The timeout of transactions: as configured, as brokers allow, and as checkpoints need."""

from __future__ import annotations

import logging
from typing import Any

from flintstream.connectors.kafka.errors import KafkaConnectorError
from flintstream.connectors.kafka.producer import ProducerOptions
from flintstream.connectors.kafka.properties import Settings
from flintstream.runtime.operators.base import OperatorContext

DEFAULT_TIMEOUT = 3_600_000
"""Milliseconds: an hour, as in Flink."""
_BROKERS_DEFAULT = 900_000
_MAX_TIMEOUT = "transaction.max.timeout.ms"
_ANSWER_SECONDS = 10.0
_log = logging.getLogger(__name__)


def timeout_of(wanted: int | None, options: ProducerOptions, context: OperatorContext) -> int:
    """Returns the `transaction.timeout.ms` of a sink; refuses one with which records would be lost."""
    allowed = _broker_setting(options.settings, _MAX_TIMEOUT)
    limit = _BROKERS_DEFAULT if allowed is None else allowed
    if wanted is not None and wanted > limit and allowed is not None:
        raise KafkaConnectorError(
            f"transaction.timeout.ms is {wanted}, and {_MAX_TIMEOUT} of Kafka at {options.servers} is {allowed}: lower the "
            "one, or raise the other on the brokers"
        )
    timeout = min(DEFAULT_TIMEOUT, limit) if wanted is None else wanted
    _check_against_checkpoints(timeout, context)
    if wanted is None and timeout < DEFAULT_TIMEOUT and context.subtask == 0:
        _log.warning(
            "operator '%s': transaction.timeout.ms is %d, as %s of the brokers allows, rather than %d: a job that is down "
            "for longer than that loses what it has flushed and not committed",
            *(context.name, timeout, _MAX_TIMEOUT, DEFAULT_TIMEOUT),
        )
    return timeout


def _check_against_checkpoints(timeout: int, context: OperatorContext) -> None:
    interval = round(context.checkpoint_interval * 1000)
    needed = round((context.checkpoint_interval + context.checkpoint_timeout) * 1000)
    if context.checkpointing and timeout <= interval:
        raise KafkaConnectorError(
            f"transaction.timeout.ms is {timeout}, and a checkpoint is taken every {interval} ms: each transaction would be "
            "aborted before its checkpoint completes. Take checkpoints more often, or give transactions more time"
        )
    if context.checkpointing and timeout < needed and context.subtask == 0:
        _log.warning(
            "operator '%s': transaction.timeout.ms is %d, and a checkpoint may take until %d ms after its transaction has "
            "begun (interval and time-out of checkpoints): a transaction that is aborted before its commit ends the job",
            *(context.name, timeout, needed),
        )


def _broker_setting(settings: Settings, name: str) -> int | None:
    """Returns a setting of a broker; None if unknown."""
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.admin._config import ConfigResource

    try:
        client = AdminClient({**settings}, logger=_log)
        broker = min(client.list_topics(timeout=_ANSWER_SECONDS).brokers)
        asked = client.describe_configs([ConfigResource("broker", str(broker))], request_timeout=_ANSWER_SECONDS)
        (answer,) = asked.values()
        found: Any = answer.result(_ANSWER_SECONDS)
        return int(found[name].value)
    except Exception as error:  # It needs a permission; faults of the brokers are reported by the producer.
        _log.info("%s is not known: %s", name, error)
        return None
