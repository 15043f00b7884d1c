"""A whole program on Spark from Kafka to Kafka, whose slots are killed on the way."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from flintstream.common import RestartStrategies, Types, WatermarkStrategy
from flintstream.common.serialization import SimpleStringSchema
from flintstream.datastream import MapFunction, StreamExecutionEnvironment
from flintstream.datastream.connectors.kafka import (
    DeliveryGuarantee,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)

from .kafka import KafkaServer
from .topics import Topic

pytestmark = pytest.mark.timeout(900)  # The broker may have to be downloaded first.

LAST = 3000


class Trip(MapFunction):
    """Doubles numbers, slowly, so that there are several epochs; kills its process at some of them, once each."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def map(self, value: str) -> Any:
        time.sleep(0.0003)
        mark = self.directory / f"tripped-{value}"
        if value in ("1400", "2200") and not mark.exists():
            mark.touch()
            os._exit(9)
        return str(2 * int(value))


def numbers(kafka: KafkaServer) -> Topic:
    topic = Topic(kafka, partitions=2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap()})
    for number in range(1, LAST + 1):
        producer.produce(topic.name, str(number), partition=number % 2)
    assert producer.flush(60) == 0
    return topic


def test_each_record_is_there_once_although_slots_were_killed(
    env: StreamExecutionEnvironment, kafka: KafkaServer, tmp_path: Path
) -> None:
    taken, given = numbers(kafka), Topic(kafka, partitions=2)
    source = (
        KafkaSource.builder().set_bootstrap_servers(kafka.bootstrap()).set_topics(taken.name).set_group_id("doubling")
    )
    source.set_starting_offsets(KafkaOffsetsInitializer.earliest()).set_bounded(KafkaOffsetsInitializer.latest())
    source.set_value_only_deserializer(SimpleStringSchema())
    schema = KafkaRecordSerializationSchema.builder().set_topic(given.name)
    schema.set_key_serialization_schema(SimpleStringSchema()).set_value_serialization_schema(SimpleStringSchema())
    sink = KafkaSink.builder().set_bootstrap_servers(kafka.bootstrap()).set_record_serializer(schema.build())
    sink.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE).set_transactional_id_prefix(given.name)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 0))
    env.enable_checkpointing(100)
    stream = env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "numbers")
    stream.map(Trip(tmp_path), Types.STRING()).sink_to(sink.build())
    env.execute()
    assert (tmp_path / "tripped-1400").exists() and (tmp_path / "tripped-2200").exists()
    given.wait_for([str(2 * number) for number in range(1, LAST + 1)])
