"""A whole program on Spark that ends in Kafka, and whose slots are killed on the way."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from flintstream.common import RestartStrategies, Types, WatermarkStrategy
from flintstream.common.serialization import SimpleStringSchema
from flintstream.datastream import MapFunction, StreamExecutionEnvironment
from flintstream.datastream.connectors.kafka import DeliveryGuarantee, KafkaRecordSerializationSchema, KafkaSink
from flintstream.datastream.connectors.number_seq import NumberSequenceSource

from .kafka import KafkaServer
from .topics import Topic

pytestmark = pytest.mark.timeout(600)  # The broker may have to be downloaded first.

LAST = 3000


class Trip(MapFunction):
    """Numbers as text, slowly, so that there are several epochs; kills its process at some of them, once each."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def map(self, value: int) -> Any:
        time.sleep(0.0003)
        mark = self.directory / f"tripped-{value}"
        if value in (1400, 2200) and not mark.exists():
            mark.touch()
            os._exit(9)
        return str(value)


def test_each_record_is_there_once_although_slots_were_killed(
    env: StreamExecutionEnvironment, kafka: KafkaServer, tmp_path: Path
) -> None:
    topic = Topic(kafka, partitions=2)
    schema = KafkaRecordSerializationSchema.builder().set_topic(topic.name)
    schema.set_key_serialization_schema(SimpleStringSchema()).set_value_serialization_schema(SimpleStringSchema())
    sink = KafkaSink.builder().set_bootstrap_servers(kafka.bootstrap()).set_record_serializer(schema.build())
    sink.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix(topic.name)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 0))
    env.enable_checkpointing(100)
    numbers = env.from_source(NumberSequenceSource(1, LAST), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.map(Trip(tmp_path), Types.STRING()).sink_to(sink.build())
    env.execute()
    assert (tmp_path / "tripped-1400").exists() and (tmp_path / "tripped-2200").exists()
    topic.wait_for([str(number) for number in range(1, LAST + 1)])
