"""The running count from Kafka to Kafka by PyFlink and its connector; runs in an interpreter that has it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial

from pyflink.common import SimpleStringSchema, Types, WatermarkStrategy
from pyflink.datastream import KeyedProcessFunction, RuntimeContext
from pyflink.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from pyflink.datastream.state import ValueStateDescriptor

from bench.peers import arguments, report
from bench.peers.pyflink_environment import environment
from bench.timing import Timing


class RunningCount(KeyedProcessFunction):
    """The same function as Flintstream's, on strings."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: str, ctx: KeyedProcessFunction.Context) -> Iterable[str]:
        count = (self._count.value() or 0) + 1
        self._count.update(count)
        yield f"{value},{count}"


def run(servers: str, output: str, jar: str, records: int) -> Timing:
    """The running count of the topic with so many records."""
    env = environment()
    env.add_jars(f"file://{jar}")
    env.enable_checkpointing(1000)
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(servers)
        .set_topics(f"records-{records}")
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    serializer = KafkaRecordSerializationSchema.builder().set_topic(output)
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(servers)
        .set_record_serializer(serializer.set_value_serialization_schema(SimpleStringSchema()).build())
        .build()
    )
    keys = env.from_source(source, WatermarkStrategy.no_watermarks(), "records").map(
        lambda record: record[:5], Types.STRING()
    )
    keys.key_by(lambda key: key, Types.STRING()).process(RunningCount(), Types.STRING()).sink_to(sink)
    started = time.perf_counter()
    env.execute("count")
    return Timing(records, time.perf_counter() - started)


if __name__ == "__main__":
    given = arguments(servers=None, output=None, jar=None)
    report(partial(run, given.servers, given.output, given.jar), given)
