"""Whole programs on Spark that read topics."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import NewPartitions
from tests.waiting import wait_until

from flintstream.cli.runner import Program, run_program
from flintstream.common import Duration, RestartStrategies, Types, WatermarkStrategy
from flintstream.common.serialization import SimpleStringSchema
from flintstream.datastream import MapFunction, StreamExecutionEnvironment
from flintstream.datastream.connectors.kafka import FlinkKafkaConsumer, KafkaOffsetsInitializer, KafkaSource
from flintstream.datastream.window import TumblingEventTimeWindows

from .kafka import KafkaServer
from .test_kafka_source import builder, committed, produce
from .topics import read

pytestmark = pytest.mark.timeout(900)  # The broker may have to be downloaded first.
LATEST = KafkaOffsetsInitializer.latest()


def test_windows_over_the_timestamps_of_two_partitions(env: StreamExecutionEnvironment, kafka: KafkaServer) -> None:
    topic = kafka.create_topic(partitions=2)
    for second in range(6):
        produce(kafka, topic, ["a", "b"], partition=second % 2, timestamp=1_000_000 + second * 1000)
    source = builder(kafka, topic).set_bounded(LATEST).build()
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(0))
    pairs = env.from_source(source, strategy, "letters").map(
        lambda letter: (letter, 1), Types.TUPLE([Types.STRING(), Types.INT()])
    )
    windows = pairs.key_by(lambda pair: pair[0]).window(TumblingEventTimeWindows.of(Duration.of_seconds(2)))
    with windows.reduce(lambda one, other: (one[0], one[1] + other[1])).execute_and_collect() as results:
        assert sorted(results) == [("a", 2)] * 3 + [("b", 2)] * 3


class Trip(MapFunction):
    """Fails once, when much has been read and a checkpoint is complete."""

    def __init__(self, directory: Path) -> None:
        self.mark = directory / "tripped"

    def map(self, value: str) -> str:
        time.sleep(0.0005)
        if value == "1500" and not self.mark.exists():
            self.mark.touch()
            raise ValueError("tripped")
        return value


def test_a_failed_job_reads_on_behind_its_checkpoint(
    env: StreamExecutionEnvironment, kafka: KafkaServer, tmp_path: Path
) -> None:
    topic = kafka.create_topic(partitions=2)
    for partition in (0, 1):
        produce(kafka, topic, [str(number) for number in range(partition, 2000, 2)], partition=partition)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(1, 0))
    env.enable_checkpointing(100)
    source = builder(kafka, topic).set_group_id(topic).set_bounded(LATEST).build()
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    counts = numbers.map(Trip(tmp_path), Types.STRING()).key_by(lambda _: 0).map(Count(), Types.INT())
    with counts.execute_and_collect() as results:
        assert max(results) == 2000
    assert (tmp_path / "tripped").exists()
    assert committed(kafka, topic) == [1000, 1000]


class Count(MapFunction):
    """How many records there were of a key."""

    def open(self, runtime_context: Any) -> None:
        from flintstream.datastream.state import ValueStateDescriptor

        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def map(self, value: str) -> int:
        self.count.update((self.count.value() or 0) + 1)
        return int(self.count.value())


def test_partitions_that_are_added_while_the_job_runs(env: StreamExecutionEnvironment, kafka: KafkaServer) -> None:
    topic = kafka.create_topic()
    produce(kafka, topic, ["first"])
    source = builder(kafka, topic).set_property("partition.discovery.interval.ms", "200").build()
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "topic")
    with stream.execute_and_collect() as results:
        assert next(results) == "first"
        kafka.admin.create_partitions([NewPartitions(topic, 2)])[topic].result(60)
        wait_until(lambda: len(kafka.admin.list_topics(topic, 60).topics[topic].partitions) == 2, what="it")
        produce(kafka, topic, ["second"], partition=1)
        assert next(results) == "second"


def test_a_consumer_by_its_older_name(env: StreamExecutionEnvironment, kafka: KafkaServer) -> None:
    topic = kafka.create_topic()
    produce(kafka, topic, ["old"])
    made = FlinkKafkaConsumer(topic, SimpleStringSchema(), {"bootstrap.servers": kafka.bootstrap(), "group.id": topic})
    with env.add_source(made.set_start_from_earliest()).execute_and_collect() as results:
        assert next(results) == "old"


def test_a_broker_that_is_away_names_source_and_address(env: StreamExecutionEnvironment) -> None:
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers("127.0.0.1:1")
        .set_property("default.api.timeout.ms", "1000")
        .set_topics("orders")
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    env.from_source(source, WatermarkStrategy.no_watermarks(), "orders").print()
    with pytest.raises(Exception, match=r"(?s)orders.*127\.0\.0\.1:1.*refused"):
        env.execute()


def test_the_example_from_kafka_to_kafka(run: Callable[..., list[str]], kafka: KafkaServer) -> None:
    lines = run("kafka_windows", kafka.bootstrap())
    assert lines[1:] == [
        f"{start:3} to {start + 10:3} s  {product:5} {orders * price:4}"
        for start, orders in ((0, 10), (10, 11), (20, 9), (30, 10))
        for product, price in (("book", 12), ("cup", 7), ("lamp", 30))
    ]


@pytest.mark.usefixtures("spark")
@pytest.mark.filterwarnings("ignore:add_jars")
def test_a_pyflink_program_runs_as_it_is(kafka: KafkaServer, capsys: pytest.CaptureFixture[str]) -> None:
    topics = [kafka.create_topic() for _ in range(4)]
    program = Path(__file__).with_name("pyflink_kafka_program.py")
    run_program(Program(program, arguments=(kafka.bootstrap(), *topics)), pyflink=True)
    printed = capsys.readouterr().out.splitlines()
    greetings = ["Row(f0=1, f1='hi')", "Row(f0=2, f1='hello')"]
    avro = ["Row(id=1, name='hi')", "Row(id=2, name='hello')"]
    for topic, expected in zip(topics, [greetings, greetings, avro, ["b'hi'", "b'hello'"]]):
        assert sorted(line for line in printed if line.startswith(topic)) == sorted(
            f"{topic}> {row}" for row in expected
        )
    keys = {record.key: record.value for record in read(kafka.bootstrap(), topics[3], 1, "read_committed")}
    assert keys == {b"1": b"hi", b"2": b"hello"}
