"""Kafka: `KafkaSource` and what it is made with."""

from __future__ import annotations

from flintstream.datastream.connectors.kafka_source import *  # noqa: F403
from flintstream.datastream.connectors.kafka_source import __all__  # noqa: F401
