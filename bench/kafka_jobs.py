"""The job from topic to topic that is measured, and the records that it reads."""

from __future__ import annotations

import time
from collections.abc import Iterable

from confluent_kafka import Producer

from bench.jobs import environment
from bench.timing import MeasurementError, Timing
from flintstream.common import ByteArraySchema, Types, WatermarkStrategy
from flintstream.datastream import KeyedProcessFunction, RuntimeContext
from flintstream.datastream.connectors.base import DeliveryGuarantee
from flintstream.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from flintstream.datastream.state import ValueStateDescriptor
from flintstream.testing.kafka import KafkaBroker

KEYS = 10_000
FILLER = b"x" * 95
FLUSH_SECONDS = 120.0


def fill(servers: str, topic: str, records: int) -> None:
    """Writes records of 100 bytes, which begin with their key, to two partitions."""
    producer = Producer({"bootstrap.servers": servers, "queue.buffering.max.messages": 1_000_000, "linger.ms": 20})
    for number in range(records):
        if number % 50_000 == 0 and producer.flush(FLUSH_SECONDS):
            raise MeasurementError(f"{servers} does not take records")
        producer.produce(topic, b"%05d" % (number % KEYS) + FILLER, partition=number & 1)
    if producer.flush(FLUSH_SECONDS):
        raise MeasurementError(f"{servers} does not take records")


class RunningCount(KeyedProcessFunction):
    """Counts the records of each key, and says the count after each."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: bytes, ctx: KeyedProcessFunction.Context) -> Iterable[bytes]:
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        yield b"%b,%d" % (value, count)


def key_of(record: bytes) -> bytes:
    """The key that a record begins with."""
    return record[:5]


def run_count(broker: KafkaBroker, topic: str, records: int, guarantee: DeliveryGuarantee) -> Timing:
    """The running count of a topic into a new one."""
    output = broker.create_topic(2)
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(broker.bootstrap())
        .set_topics(topic)
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_value_only_deserializer(ByteArraySchema())
        .build()
    )
    serializer = KafkaRecordSerializationSchema.builder().set_topic(output)
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(broker.bootstrap())
        .set_delivery_guarantee(guarantee)
        .set_transactional_id_prefix(output)
        .set_record_serializer(serializer.set_value_serialization_schema(ByteArraySchema()).build())
        .build()
    )
    env = environment()
    env.enable_checkpointing(1000)
    keys = env.from_source(source, WatermarkStrategy.no_watermarks(), "records").map(key_of)
    keys.key_by(lambda key: key).process(RunningCount()).sink_to(sink)
    started = time.monotonic()
    env.execute()
    timing = Timing(records, time.monotonic() - started)
    broker.delete_topic(output)
    return timing
