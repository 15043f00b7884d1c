"""KafkaSource against a broker: what it finds, where it begins and stops, what it says when something is wrong."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import NewPartitions
from tests.waiting import wait_until

from flintstream.common.serialization import DeserializationSchema, SimpleStringSchema
from flintstream.common.typeinfo import Types
from flintstream.datastream.connectors.kafka import (
    FlinkKafkaConsumer,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecordDeserializationSchema,
    KafkaSource,
    KafkaSourceBuilder,
    KafkaTopicPartition,
)
from flintstream.metrics import MetricGroup
from flintstream.runtime.source import SourceError, Split, SplitRecords

from .kafka import PASSWORD, SASL_PLAINTEXT, SASL_SSL, USER, KafkaServer

pytestmark = pytest.mark.timeout(900)  # The broker may have to be downloaded first.
EARLIEST, LATEST = KafkaOffsetsInitializer.earliest(), KafkaOffsetsInitializer.latest()


def produce(kafka: KafkaServer, topic: str, values: Sequence[str], partition: int = 0, **more: Any) -> None:
    """Writes values to a partition; `more` is for `Producer.produce`."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap(), "log_level": 0})
    for value in values:
        producer.produce(topic, value.encode(), partition=partition, **more)
    assert producer.flush(60) == 0


def builder(kafka: KafkaServer, *topics: str) -> KafkaSourceBuilder:
    made = KafkaSource.builder().set_bootstrap_servers(kafka.bootstrap())
    made.set_value_only_deserializer(SimpleStringSchema())
    return made.set_topics(*topics) if topics else made


class Reading:
    """A source read by one subtask, without a job."""

    def __init__(self, source: KafkaSource, state: Any = None, positions: dict[str, Any] | None = None) -> None:
        self.enumerator = source.create_enumerator(1)
        if state is not None:
            self.enumerator.restore(state)
        self.enumerator.start()
        self.metrics = MetricGroup()
        self.reader = source.create_source_reader(Context(self.metrics))  # type: ignore[arg-type]
        self.records: dict[str, list[Any]] = {}
        self.timestamps: dict[str, list[int]] = {}
        self.finished: set[str] = set()
        self.in_vain: set[str] = set()
        self.positions = positions or {}

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, *_: Any) -> None:
        self.reader.close()
        self.enumerator.close()

    def discover(self) -> list[Split]:
        splits = list(self.enumerator.discover())
        for split in splits:
            self.records[split.split_id] = []
        self.reader.add_splits([(split, self.positions.get(split.split_id)) for split in splits])
        return splits

    def poll(self, limit: int = 100) -> Sequence[SplitRecords]:
        blocks = self.reader.poll(limit)
        for block in blocks:
            self.records[block.split_id] += block.values
            self.timestamps.setdefault(block.split_id, []).extend(block.timestamps or [])
            if block.finished:
                assert block.split_id not in self.finished
                self.finished.add(block.split_id)
            elif not block.values:
                self.in_vain.add(block.split_id)
        return blocks

    def read_to_the_end(self) -> dict[str, list[Any]]:
        """Reads until each split is finished, or has nothing more."""

        def done() -> bool:
            self.poll()
            return self.finished | self.in_vain == self.records.keys()

        wait_until(done, what="the end of all partitions")
        return self.records


class Context:
    """What a reader asks of its runtime context."""

    def __init__(self, metrics: MetricGroup) -> None:
        self.get_metrics_group = lambda: metrics
        self.get_index_of_this_subtask = lambda: 0


def read(source: KafkaSource) -> dict[str, list[Any]]:
    with Reading(source) as reading:
        reading.discover()
        return reading.read_to_the_end()


@pytest.fixture
def topic(kafka: KafkaServer) -> Iterator[str]:
    """A topic with two partitions: a, b, c and x, y."""
    topic = kafka.create_topic(partitions=2)
    produce(kafka, topic, ["a", "b", "c"], timestamp=1000)
    produce(kafka, topic, ["x", "y"], partition=1, timestamp=2000)
    yield topic
    kafka.delete_topic(topic)


# --- which partitions ---


def test_every_partition_of_a_topic_is_a_split_and_a_bounded_source_ends(kafka: KafkaServer, topic: str) -> None:
    with Reading(builder(kafka, topic).set_bounded(LATEST).build()) as reading:
        assert [split.split_id for split in reading.discover()] == [f"{topic}-0", f"{topic}-1"]
        assert reading.read_to_the_end() == {f"{topic}-0": ["a", "b", "c"], f"{topic}-1": ["x", "y"]}
        assert reading.finished == reading.records.keys()
        assert reading.timestamps == {f"{topic}-0": [1000] * 3, f"{topic}-1": [2000] * 2}
        assert reading.reader.snapshot() == {}


def test_topics_by_a_pattern_match_with_their_whole_name(kafka: KafkaServer) -> None:
    stem = uuid.uuid4().hex[:8]
    for name in (f"{stem}-orders", f"{stem}-orders-old", f"{stem}-clicks"):
        kafka.create_topic(name=name)
    with Reading(builder(kafka).set_topic_pattern(f"{stem}-(orders|clicks)").build()) as reading:
        assert [split.split_id for split in reading.discover()] == [f"{stem}-clicks-0", f"{stem}-orders-0"]
        kafka.create_topic(name=f"{stem}-order")
        assert reading.discover() == []
    with Reading(builder(kafka).set_topic_pattern(".*").build()) as reading:
        assert not [split for split in reading.discover() if split.split_id.startswith("__")]


def test_single_partitions(kafka: KafkaServer, topic: str) -> None:
    source = builder(kafka).set_partitions({KafkaTopicPartition(topic, 1)}).build()
    assert read(source) == {f"{topic}-1": ["x", "y"]}
    missing = builder(kafka).set_partitions([KafkaTopicPartition(topic, 1), KafkaTopicPartition(topic, 7)]).build()
    with (
        Reading(missing) as reading,
        pytest.raises(SourceError, match=f"partition 7 of topic '{topic}' does not exist"),
    ):
        reading.discover()


def test_partitions_that_come_later_are_read_from_their_beginning(kafka: KafkaServer, topic: str) -> None:
    source = builder(kafka, topic).set_starting_offsets(LATEST).build()
    assert (source.bounded, source.discovery_interval) == (False, 300.0)
    with Reading(source) as reading:
        assert len(reading.discover()) == 2
        state = reading.enumerator.snapshot()
    kafka.admin.create_partitions([NewPartitions(topic, 3)])[topic].result(60)
    produce(kafka, topic, ["new"], partition=2)
    with Reading(source, state) as reading:
        wait_until(reading.discover, what="the new partition")
        assert reading.read_to_the_end() == {f"{topic}-2": ["new"]}


@pytest.mark.parametrize(("interval", "seconds"), [("5000", 5.0), ("0", None), ("-1", None)])
def test_how_often_partitions_are_looked_for(kafka: KafkaServer, interval: str, seconds: float | None) -> None:
    source = builder(kafka, "t").set_property("partition.discovery.interval.ms", interval).build()
    assert source.discovery_interval == seconds


# --- from where, and to where ---


@pytest.mark.parametrize(
    ("starting", "expected"),
    [
        (EARLIEST, (["a", "b", "c"], ["x", "y"])),
        (LATEST, ([], [])),
        (KafkaOffsetsInitializer.timestamp(1500), ([], ["x", "y"])),
        (KafkaOffsetsInitializer.timestamp(0), (["a", "b", "c"], ["x", "y"])),
        (KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.LATEST), (["b", "c"], [])),
        (KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.EARLIEST), (["b", "c"], ["x", "y"])),
    ],
)
def test_where_reading_begins(kafka: KafkaServer, topic: str, starting: Any, expected: Any) -> None:
    commit(kafka, topic, {0: 1})
    source = builder(kafka, topic).set_group_id(topic).set_starting_offsets(starting).build()
    assert tuple(read(source).values()) == expected


def test_given_offsets_come_before_committed_ones_and_those_before_the_strategy(kafka: KafkaServer, topic: str) -> None:
    commit(kafka, topic, {0: 1, 1: 1})
    given = KafkaOffsetsInitializer.offsets({KafkaTopicPartition(topic, 0): 2})
    source = builder(kafka, topic).set_group_id(topic).set_starting_offsets(given).build()
    assert tuple(read(source).values()) == (["c"], ["y"])
    assert tuple(read(builder(kafka, topic).set_starting_offsets(given).build()).values()) == (["c"], ["x", "y"])


def test_a_partition_without_a_committed_offset_fails_unless_a_strategy_says_where(
    kafka: KafkaServer, topic: str
) -> None:
    commit(kafka, topic, {0: 1})
    committed = KafkaOffsetsInitializer.committed_offsets()
    source = builder(kafka, topic).set_group_id(topic).set_starting_offsets(committed).build()
    with Reading(source) as reading, pytest.raises(SourceError, match=f"no offset is known of {topic}-1, .*NONE"):
        reading.discover()


def test_where_reading_stops(kafka: KafkaServer, topic: str) -> None:
    stopping = KafkaOffsetsInitializer.offsets({KafkaTopicPartition(topic, 0): 2, KafkaTopicPartition(topic, 1): 0})
    source = builder(kafka, topic).set_bounded(stopping).build()
    with Reading(source) as reading:
        reading.discover()
        assert reading.reader.snapshot() == {f"{topic}-0": 0, f"{topic}-1": 0}
        reading.poll()
        assert reading.finished == {f"{topic}-1"}
        assert reading.read_to_the_end() == {f"{topic}-0": ["a", "b"], f"{topic}-1": []}
        assert reading.finished == reading.records.keys()
    unbounded = builder(kafka, topic).set_unbounded(stopping).build()
    assert not unbounded.bounded
    assert read(unbounded) == {f"{topic}-0": ["a", "b"], f"{topic}-1": []}


def test_a_stored_position_comes_before_the_starting_offsets(kafka: KafkaServer, topic: str) -> None:
    source = builder(kafka, topic).set_bounded(LATEST).build()
    with Reading(source, positions={f"{topic}-0": 2, f"{topic}-1": 1}) as reading:
        reading.discover()
        assert tuple(reading.read_to_the_end().values()) == (["c"], ["y"])


def test_a_partition_that_ends_with_the_marker_of_a_transaction_ends(kafka: KafkaServer) -> None:
    topic = kafka.create_topic()
    producer = Producer({"bootstrap.servers": kafka.bootstrap(), "transactional.id": topic, "log_level": 0})
    producer.init_transactions(60)
    for values, end in ((["a", "b"], producer.commit_transaction), (["lost"], producer.abort_transaction)):
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value)
        producer.flush(60)
        end(60)
    committed = builder(kafka, topic).set_property("isolation.level", "read_committed").set_bounded(LATEST)
    assert read(committed.build()) == {f"{topic}-0": ["a", "b"]}
    # As in Flink, what is aborted is read unless the isolation level says otherwise.
    assert read(builder(kafka, topic).set_bounded(LATEST).build()) == {f"{topic}-0": ["a", "b", "lost"]}


# --- records ---


class Whole(KafkaRecordDeserializationSchema):
    def deserialize(self, record):
        if record.value is not None:
            yield record.topic, record.partition, record.offset, record.timestamp, record.key, record.headers
            yield record.value.decode()


def test_a_deserialiser_may_see_whole_messages(kafka: KafkaServer) -> None:
    topic = kafka.create_topic()
    produce(kafka, topic, ["v"], key=b"k", headers=[("h", b"1"), ("none", None)], timestamp=7)
    Producer({"bootstrap.servers": kafka.bootstrap()}).produce(topic, None, key=b"k")
    source = builder(kafka, topic).set_deserializer(Whole()).set_bounded(LATEST).build()
    with Reading(source) as reading:
        reading.discover()
        (records,) = reading.read_to_the_end().values()
        assert records == [(topic, 0, 0, 7, b"k", (("h", b"1"), ("none", None))), "v"]
        assert reading.timestamps == {f"{topic}-0": [7, 7]}
    assert source.produced_type is None


class EvenNumbers(DeserializationSchema):
    def deserialize(self, message):
        return None if int(message) % 2 else int(message)

    def get_produced_type(self):
        return Types.LONG()


def test_what_a_schema_leaves_out_and_what_it_cannot_read(kafka: KafkaServer) -> None:
    topic = kafka.create_topic()
    produce(kafka, topic, ["1", "2", "3", "4"], timestamp=5)
    source = builder(kafka, topic).set_value_only_deserializer(EvenNumbers()).build()
    assert source.produced_type == Types.LONG()
    with Reading(source) as reading:
        reading.discover()
        assert reading.read_to_the_end() == {f"{topic}-0": [2, 4]}
        assert reading.timestamps == {f"{topic}-0": [5, 5]}
        produce(kafka, topic, ["6", "x" * 200])
        message = (
            rf"EvenNumbers cannot read offset 5 of partition 0 of topic '{topic}', .*x{{90,100}}'\.\.\. \(200 bytes\)"
        )
        with pytest.raises(SourceError, match=message):
            wait_until(lambda: reading.poll() and False, what="the error")


def test_a_message_without_a_value_is_no_string(kafka: KafkaServer) -> None:
    topic = kafka.create_topic()
    producer = Producer({"bootstrap.servers": kafka.bootstrap()})
    producer.produce(topic, None, key=b"gone")
    producer.flush(60)
    with Reading(builder(kafka, topic).build()) as reading, pytest.raises(SourceError, match="no value .a tombstone"):
        reading.discover()
        reading.read_to_the_end()


# --- while it runs ---


def test_the_offsets_of_the_group_are_committed_when_a_checkpoint_is_complete(kafka: KafkaServer, topic: str) -> None:
    with Reading(builder(kafka, topic).set_group_id(topic).build()) as reading:
        reading.discover()
        reading.read_to_the_end()
        stored = dict(reading.reader.snapshot())
        produce(kafka, topic, ["d"])
        wait_until(lambda: reading.poll() and "d" in reading.records[f"{topic}-0"], what="the new record")
        assert committed(kafka, topic) == [-1001, -1001]
        reading.reader.notify_checkpoint_complete(stored)
        wait_until(lambda: (reading.poll(), committed(kafka, topic) == [3, 2])[1], what="the commit")
        wait_until(lambda: (reading.poll(), shown(reading, "commitsSucceeded") == [1])[1], what="the answer")
        assert sorted(shown(reading, "committedOffset")) == [2, 3]
        assert sorted(shown(reading, "currentOffset")) == [1, 3]
        assert shown(reading, "pendingRecords") == [0]
        produce(kafka, topic, ["e", "f"], partition=1)
        wait_until(lambda: (reading.poll(1), shown(reading, "pendingRecords") == [1])[1], what="one of two records")


def test_what_was_read_to_its_end_is_committed_too(kafka: KafkaServer, topic: str) -> None:
    with Reading(builder(kafka, topic).set_group_id(topic).set_bounded(LATEST).build()) as reading:
        reading.discover()
        reading.read_to_the_end()
        reading.reader.notify_checkpoint_complete({f"{topic}-1": 1})  # It ended behind this checkpoint.
    assert committed(kafka, topic) == [3, 1]


@pytest.mark.parametrize("properties", [{}, {"group.id": "g", "commit.offsets.on.checkpoint": "false"}])
def test_offsets_are_not_committed_without_a_group_or_against_the_option(
    kafka: KafkaServer, topic: str, properties: dict[str, str]
) -> None:
    with Reading(builder(kafka, topic).set_properties(properties).build()) as reading:
        reading.discover()
        reading.read_to_the_end()
        reading.reader.notify_checkpoint_complete(reading.reader.snapshot())
    assert shown(reading, "commitsSucceeded") == [0]


def test_a_partition_that_is_ahead_waits_and_loses_nothing(kafka: KafkaServer, topic: str) -> None:
    with Reading(builder(kafka, topic).set_bounded(LATEST).build()) as reading:
        first, second = (split.split_id for split in reading.discover())
        reading.reader.align({second: 1})

        def second_is_done() -> bool:
            assert sum(len(block.values) for block in reading.poll()) <= 1
            return second in reading.finished

        wait_until(second_is_done, what="the second partition")
        assert reading.records == {first: [], second: ["x", "y"]}
        reading.reader.align({first: 100})
        assert reading.read_to_the_end() == {first: ["a", "b", "c"], second: ["x", "y"]}


def test_a_reader_at_the_end_says_so_and_reads_on(kafka: KafkaServer, topic: str) -> None:
    with Reading(builder(kafka, topic).build()) as reading:
        reading.discover()
        reading.read_to_the_end()
        assert reading.in_vain == reading.records.keys()
        wait_until(lambda: (reading.poll(), reading.reader.next_due() is None)[1], what="nothing to do")
        produce(kafka, topic, ["d"])
        wait_until(lambda: (reading.poll(), reading.records[f"{topic}-0"][3:] == ["d"])[1], what="the new record")


# --- when something is wrong ---


def test_a_topic_that_is_missing(kafka: KafkaServer) -> None:
    missing = f"topic 'nowhere' does not exist at {kafka.bootstrap()}"
    with Reading(builder(kafka, "nowhere").build()) as reading, pytest.raises(SourceError, match=missing):
        reading.discover()


def test_a_topic_that_is_deleted_while_it_is_read(kafka: KafkaServer) -> None:
    topic = kafka.create_topic()
    produce(kafka, topic, ["a"])
    source = builder(kafka, topic).set_property("topic.metadata.propagation.max.ms", "500").build()
    with Reading(source) as reading:
        reading.discover()
        reading.read_to_the_end()
        kafka.delete_topic(topic)
        with pytest.raises(SourceError, match=rf"{topic} \[0\]: topic does not exist"):
            wait_until(lambda: reading.poll() and False, what="the error")


def test_an_offset_that_is_gone(kafka: KafkaServer, topic: str) -> None:
    none = KafkaOffsetsInitializer.offsets({KafkaTopicPartition(topic, 0): 99}, KafkaOffsetResetStrategy.NONE)
    source = builder(kafka).set_partitions([KafkaTopicPartition(topic, 0)]).set_starting_offsets(none).build()
    with Reading(source) as reading:
        reading.discover()
        with pytest.raises(SourceError, match=f"partition 0 of topic '{topic}' at .* has no offset 99"):
            wait_until(lambda: reading.poll() and False, what="the error")
    earliest = KafkaOffsetsInitializer.offsets({KafkaTopicPartition(topic, 0): 99})
    source = builder(kafka).set_partitions([KafkaTopicPartition(topic, 0)]).set_starting_offsets(earliest).build()
    assert read(source) == {f"{topic}-0": ["a", "b", "c"]}


def test_a_broker_that_is_not_there_at_the_start() -> None:
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers("127.0.0.1:1")
        .set_property("default.api.timeout.ms", "1000")
        .set_topics("orders")
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    with Reading(source) as reading, pytest.raises(SourceError, match="the cluster, asked at 127.0.0.1:1: .*refused"):
        reading.discover()


def test_a_broker_that_is_away_later_is_waited_for(kafka: KafkaServer, topic: str, caplog: Any) -> None:
    source = builder(kafka, topic).set_property("default.api.timeout.ms", "1000").build()
    with Reading(source) as reading:
        reading.discover()
        reading.read_to_the_end()
        with kafka.paused():
            assert list(reading.enumerator.discover()) == []
            assert "the discovery of new partitions failed" in caplog.text
        produce(kafka, topic, ["d"])
        wait_until(lambda: (reading.poll(), reading.records[f"{topic}-0"][3:] == ["d"])[1], what="the new record")


@pytest.mark.parametrize("listener", [SASL_PLAINTEXT, SASL_SSL])
def test_a_password(kafka: KafkaServer, topic: str, listener: str) -> None:
    assert read(secured(kafka, topic, listener, PASSWORD).set_bounded(LATEST).build()) == {
        f"{topic}-0": ["a", "b", "c"],
        f"{topic}-1": ["x", "y"],
    }


def test_a_wrong_password(kafka: KafkaServer, topic: str) -> None:
    source = secured(kafka, topic, SASL_PLAINTEXT, "guessed").set_property("default.api.timeout.ms", "20000").build()
    with Reading(source) as reading, pytest.raises(SourceError, match="(?i)authentication"):
        reading.discover()


def secured(kafka: KafkaServer, topic: str, listener: str, password: str) -> KafkaSourceBuilder:
    """A source with credentials, as they are written for Kafka's own clients."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    password = password.replace("\\", "\\\\").replace('"', '\\"')
    properties = {
        "bootstrap.servers": kafka.bootstrap(listener),
        "security.protocol": listener,
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": f'{module} required username="{USER}" password="{password}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(kafka.authority),
    }
    if listener == SASL_PLAINTEXT:
        properties = {key: value for key, value in properties.items() if not key.startswith("ssl.")}
    return builder(kafka, topic).set_properties(properties)


# --- what a builder refuses ---


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda b: b.build(), "call set_topics, set_topic_pattern or set_partitions"),
        (lambda b: b.set_topics("a").set_topic_pattern("b"), "exclude each other"),
        (lambda b: b.set_topics(), "at least one topic"),
        (lambda b: b.set_topics(3), "3 is no name of a topic"),
        (lambda b: b.set_topics(["a", "b"]), r"\['a', 'b'\] is no name of a topic"),
        (lambda b: b.set_topic_pattern("("), "no regular expression"),
        (lambda b: b.set_partitions([("a", 0)]), r"\('a', 0\) is no KafkaTopicPartition"),
        (lambda b: b.set_starting_offsets("earliest"), "'earliest' is no KafkaOffsetsInitializer"),
        (lambda b: b.set_value_only_deserializer(str), "is no DeserializationSchema"),
        (lambda b: b.set_deserializer(str), "is no KafkaRecordDeserializationSchema"),
        (lambda b: b.set_topics("a").set_property("commit.offsets.on.checkpoint", "true").build(), "set_group_id"),
        (
            lambda b: b.set_topics("a").set_starting_offsets(KafkaOffsetsInitializer.committed_offsets()).build(),
            "set_group_id",
        ),
        (
            lambda b: b.set_topics("a").set_property("partition.discovery.interval.ms", "often").build(),
            "partition.discovery.interval.ms must be a number of milliseconds, not 'often'",
        ),
    ],
)
def test_what_a_builder_refuses(build: Any, message: str) -> None:
    base = (
        KafkaSource.builder().set_bootstrap_servers("localhost:9092").set_value_only_deserializer(SimpleStringSchema())
    )
    with pytest.raises((TypeError, ValueError), match=message):
        build(base)


def test_a_builder_needs_servers_and_a_deserialiser() -> None:
    with pytest.raises(ValueError, match="bootstrap.servers is not set"):
        KafkaSource.builder().set_topics("a").set_value_only_deserializer(SimpleStringSchema()).build()
    with pytest.raises(ValueError, match="set_value_only_deserializer or set_deserializer"):
        KafkaSource.builder().set_bootstrap_servers("a:1").set_topics("a").build()


# --- helpers ---


def commit(kafka: KafkaServer, group: str, offsets: dict[int, int]) -> None:
    """Commits offsets of the partitions of a topic for the group of the same name."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap(), "group.id": group, "log_level": 0})
    consumer.commit(
        offsets=[TopicPartition(group, partition, offset) for partition, offset in offsets.items()], asynchronous=False
    )
    consumer.close()


def committed(kafka: KafkaServer, group: str) -> list[int]:
    """What the group has committed for two partitions of the topic of the same name."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap(), "group.id": group, "log_level": 0})
    found = consumer.committed([TopicPartition(group, 0), TopicPartition(group, 1)], timeout=60)
    consumer.close()
    return [each.offset for each in found]


def shown(reading: Reading, name: str) -> list[Any]:
    """The values of all metrics of a name."""
    return [value for key, value in reading.metrics.snapshot().items() if key.rpartition(".")[2] == name]


# --- the older name ---


def consumer(kafka: KafkaServer, topics: Any, **properties: str) -> FlinkKafkaConsumer:
    given = {"bootstrap.servers": kafka.bootstrap()} | {
        key.replace("_", "."): value for key, value in properties.items()
    }
    return FlinkKafkaConsumer(topics, SimpleStringSchema(), given)


def test_the_older_consumer_starts_where_it_is_told(kafka: KafkaServer, topic: str) -> None:
    commit(kafka, topic, {0: 1})
    everything, nothing = (["a", "b", "c"], ["x", "y"]), ([], [])

    def found(made: FlinkKafkaConsumer) -> tuple[list[Any], ...]:
        return tuple(read(made.as_source()).values())

    assert found(consumer(kafka, topic).set_start_from_earliest()) == everything
    assert found(consumer(kafka, [topic]).set_start_from_latest()) == nothing
    assert found(consumer(kafka, topic).set_start_from_timestamp(1500)) == ([], ["x", "y"])
    assert found(consumer(kafka, topic)) == nothing
    assert found(consumer(kafka, topic, group_id=topic)) == (["b", "c"], [])
    assert found(consumer(kafka, topic, group_id=topic, auto_offset_reset="earliest")) == (["b", "c"], ["x", "y"])
    assert consumer(kafka, topic).get_produced_type() == Types.STRING()


def test_the_older_consumer_leaves_out_restored_topics_that_it_no_longer_reads(kafka: KafkaServer, topic: str) -> None:
    other = kafka.create_topic()
    with Reading(consumer(kafka, [topic, other]).set_start_from_earliest().as_source()) as reading:
        splits = [(split, None) for split in reading.enumerator.discover()]
    for filters, finished in ((True, {f"{topic}-0", f"{topic}-1"}), (False, set())):
        made = consumer(kafka, other)
        if not filters:
            made.disable_filter_restored_partitions_with_subscribed_topics()
        with Reading(made.as_source()) as reading:
            reading.records = {split.split_id: [] for split, _ in splits}
            reading.reader.add_splits(splits)
            reading.poll()
            assert reading.finished == finished


def test_what_the_older_consumer_refuses(kafka: KafkaServer) -> None:
    class Ends(SimpleStringSchema):
        def is_end_of_stream(self, next_element: Any) -> bool:
            return True

    with pytest.raises(NotImplementedError, match="Ends.is_end_of_stream has no effect"):
        FlinkKafkaConsumer("t", Ends(), {"bootstrap.servers": "a:1"})
    with pytest.raises(ValueError, match="auto.offset.reset must be earliest, latest or none, not 'first'"):
        consumer(kafka, "t", auto_offset_reset="first")


# --- what a client reports ---


class Event:
    """What a consumer gives in place of a message."""

    def __init__(self, topic: str, error: KafkaError) -> None:
        self.topic = lambda: topic
        self.partition = lambda: 0
        self.offset = lambda: 99
        self.error = lambda: error


def test_an_error_that_passes_is_no_end_of_a_partition(kafka: KafkaServer, topic: str, monkeypatch: Any) -> None:
    events: list[Event] = []

    class Reporting(Consumer):
        def consume(self, *arguments: Any) -> Any:
            return events or super().consume(*arguments)

    monkeypatch.setattr(confluent_kafka, "Consumer", Reporting)
    stopping = KafkaOffsetsInitializer.offsets({KafkaTopicPartition(topic, 0): 3, KafkaTopicPartition(topic, 1): 0})
    with Reading(builder(kafka, topic).set_bounded(stopping).build()) as reading:
        reading.discover()
        events.append(Event(topic, KafkaError(KafkaError.LEADER_NOT_AVAILABLE, "elected soon", retriable=True)))
        reading.poll()
        assert (reading.finished, reading.in_vain) == ({f"{topic}-1"}, set())
        events.append(Event(topic, KafkaError(KafkaError._BAD_MSG, "damaged")))
        with pytest.raises(SourceError, match=f"partition 0 of topic '{topic}' at .*damaged"):
            reading.poll()
        events.clear()
        assert reading.read_to_the_end() == {f"{topic}-0": ["a", "b", "c"], f"{topic}-1": []}
