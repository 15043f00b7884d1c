"""Savepoints and checkpoints read into DataFrames, changed, written, and restored by jobs."""

from __future__ import annotations

import os
import time

import pytest
from tests.waiting import wait_until

from flintstream.common import Configuration, Row, Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import (
    EmbeddedRocksDBStateBackend,
    ExternalizedCheckpointRetention,
    HashMapStateBackend,
    KeyedProcessFunction,
    MapFunction,
    StreamExecutionEnvironment,
)
from flintstream.datastream.connectors.number_seq import NumberSequenceSource
from flintstream.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from flintstream.datastream.window import TumblingEventTimeWindows
from flintstream.runtime.faults import UserCodeError
from flintstream.state_processor import (
    BroadcastStateBootstrapFunction,
    KeyedStateBootstrapFunction,
    KeyedStateReaderFunction,
    OperatorTransformation,
    SavepointReader,
    SavepointWriter,
    StateBootstrapFunction,
    WindowReaderFunction,
)

KEYS, LAST = 7, 6000
COUNT = ValueStateDescriptor("count", Types.LONG())
SUM = ValueStateDescriptor("sum", Types.PICKLED_BYTE_ARRAY())
LIMIT = ValueStateDescriptor("limit", Types.STRING())


def environment(parallelism, backend, **options):
    configuration = Configuration()
    for key, value in options.items():
        configuration.set_string(key.replace("__", ".").replace("_", "-"), value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    env.set_state_backend(backend)
    return env


class Slow(MapFunction):
    """With a pause, it takes its time, so that the job is stopped long before its end."""

    def __init__(self, pause):
        self.pause = pause

    def map(self, value):
        time.sleep(self.pause)
        return value


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(COUNT)

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_processing_time_timer(10**15 + value % KEYS)
        yield value, self.count.value()


class Sum(KeyedProcessFunction):
    def open(self, runtime_context):
        self.sum = runtime_context.get_state(SUM)

    def process_element(self, value, ctx):
        self.sum.update((self.sum.value() or 0) + value[0])
        yield (*value, self.sum.value())


class Limit(KeyedProcessFunction):
    """Adds what was put into its state before the job began."""

    def open(self, runtime_context):
        self.limit = runtime_context.get_state(LIMIT)

    def process_element(self, value, ctx):
        yield (*value, self.limit.value())


def program(env, sums="old sums", limits=False, pause=0.0):
    numbers = env.from_source(NumberSequenceSource(1, LAST), WatermarkStrategy.no_watermarks(), "numbers")
    numbers = numbers.uid("numbers").map(Slow(pause)).uid("slow")
    counted = numbers.key_by(lambda value: value % KEYS).process(Count()).uid("counts")
    summed = counted.key_by(lambda pair: pair[0] % KEYS).process(Sum()).uid(sums)
    return summed.key_by(lambda each: each[0] % KEYS).process(Limit()).uid("limits") if limits else summed


class ReadCounts(KeyedStateReaderFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(COUNT)

    def read_key(self, key, ctx, out):
        out.collect(Row(key, self.count.value(), sorted(ctx.registered_processing_time_timers())))


COUNTED = Types.ROW_NAMED(["key", "count", "timers"], [Types.LONG(), Types.LONG(), Types.LIST(Types.LONG())])


class WriteCounts(KeyedStateBootstrapFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(COUNT)

    def process_element(self, value, ctx):
        self.count.update(value.count + 1000)
        for timer in value.timers:
            ctx.timer_service().register_processing_time_timer(timer)


class WriteLimits(KeyedStateBootstrapFunction):
    def open(self, runtime_context):
        self.limit = runtime_context.get_state(LIMIT)

    def process_element(self, value, ctx):
        assert ctx.get_current_key() == value.id
        self.limit.update(value.limit)


def stopped(env, directory):
    """Runs the program for a while; returns what it gave, and its savepoint."""
    results = program(env, pause=0.005).execute_and_collect("state processor")
    seen = [next(results) for _ in range(100)]
    savepoint = results.get_job_client().stop_with_savepoint(False, str(directory)).result()
    return seen + list(results), savepoint


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(HashMapStateBackend(), EmbeddedRocksDBStateBackend(), id="heap to rocksdb"),
        pytest.param(EmbeddedRocksDBStateBackend(), HashMapStateBackend(), id="rocksdb to heap"),
    ],
)
def test_a_job_goes_on_exactly_from_a_changed_savepoint(tmp_path, spark, before, after):
    seen, savepoint = stopped(environment(2, before), tmp_path)
    assert 0 < len(seen) < LAST

    reader = SavepointReader.read(spark, savepoint)
    counts = reader.read_keyed_state("counts", ReadCounts(), out_type_info=COUNTED)
    last = {value % KEYS: (count, total) for value, count, total in seen}
    timers = {key: [10**15 + key] for key in last}
    assert {row["key"]: (row["count"], row["timers"]) for row in counts.collect()} == {
        key: (count, timers[key]) for key, (count, _) in last.items()
    }
    sums = reader.read_keyed_state("old sums", SUM, Types.LONG(), Types.LONG())
    assert {tuple(row) for row in sums.collect()} == {(key, total) for key, (_, total) in last.items()}

    limits = spark.createDataFrame([(key, f"limit {key}") for key in range(KEYS)], "id BIGINT, limit STRING")
    written = (
        SavepointWriter.from_existing_savepoint(spark, savepoint)
        .remove_operator("counts")
        .with_operator(
            "counts", OperatorTransformation.bootstrap_with(counts).key_by(lambda row: row.key).transform(WriteCounts())
        )
        .change_operator_identifier("old sums", "sums")
        .with_operator(
            "limits", OperatorTransformation.bootstrap_with(limits).key_by(lambda row: row.id).transform(WriteLimits())
        )
        .write(str(tmp_path / "changed"))
    )
    os.rename(savepoint, tmp_path / "gone")  # What was written stands by itself.

    env = environment(3, after, execution__state_recovery__path=written)
    with program(env, "sums", limits=True).execute_and_collect("changed") as results:
        rest = list(results)
    # The source goes on too: each number is there once, and each result continues those of its key.
    assert sorted(value for value, *_ in [*seen, *rest]) == list(range(1, LAST + 1))
    for key in range(KEYS):
        # In the order in which they were counted: both ranges of the source are read at the same time.
        numbers = sorted((each for each in rest if each[0] % KEYS == key), key=lambda each: each[1])
        count, total = last[key]
        for number, (value, found_count, found_sum, limit) in enumerate(numbers, 1):
            total += value
            assert (found_count, found_sum, limit) == (count + 1000 + number, total, f"limit {key}")


class Event:
    """A class of this module in state without a type."""

    def __init__(self, kind, amount):
        self.kind, self.amount = kind, amount

    def __eq__(self, other):
        return isinstance(other, Event) and vars(self) == vars(other)


EVENTS = ListStateDescriptor("events", Types.PICKLED_BYTE_ARRAY())
RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())
TUMBLING = TumblingEventTimeWindows.of(Time.seconds(10))


class WriteEvents(KeyedStateBootstrapFunction):
    def open(self, runtime_context):
        self.events = runtime_context.get_list_state(EVENTS)

    def process_element(self, value, ctx):
        assert ctx.timestamp() == value.time
        self.events.add(Event(value.kind, value.amount))


class WriteRules(BroadcastStateBootstrapFunction):
    def process_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(value[0], value[1])


class WriteLines(StateBootstrapFunction):
    def initialize_state(self, context):
        store = context.get_operator_state_store()
        self.lines = store.get_list_state(ListStateDescriptor("lines", Types.TUPLE([Types.STRING(), Types.INT()])))

    def process_element(self, value, ctx):
        self.lines.add((value.kind, value.amount))

    def snapshot_state(self, context):
        pass


class TimeOf(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value.time


class ReadEvents(KeyedStateReaderFunction):
    def open(self, runtime_context):
        self.events = runtime_context.get_list_state(EVENTS)

    def read_key(self, key, ctx, out):
        for event in self.events:
            out.collect((key, event))


ROWS = [(f"kind {number % 5}", number, number * 1000) for number in range(200)]


@pytest.fixture(scope="module")
def made(spark, tmp_path_factory):
    """A signed savepoint with state of each kind, and the environment that has the key."""
    directory = tmp_path_factory.mktemp("made")
    keys = directory / "keys"
    keys.write_text("k" * 64)
    keys.chmod(0o600)
    env = environment(2, HashMapStateBackend(), flint__checkpoints__signing_key_file=str(keys))
    frame = spark.createDataFrame(ROWS, "kind STRING, amount INT, time BIGINT").repartition(3)
    timed = OperatorTransformation.bootstrap_with(frame).assign_timestamps(TimeOf())
    by_kind = timed.key_by(lambda row: row.kind, Types.STRING())
    rules = env.from_collection([("a", 1), ("b", 2)])
    path = (
        SavepointWriter.new_savepoint(env, EmbeddedRocksDBStateBackend(), 64)
        .with_operator("events", by_kind.transform(WriteEvents()))
        .with_operator("windows", by_kind.window(TUMBLING).reduce(later))
        .with_operator("lines", OperatorTransformation.bootstrap_with(frame).transform(WriteLines()))
        .with_operator("rules", OperatorTransformation.bootstrap_with(rules).transform(WriteRules()))
        .write(str(directory / "savepoint"))
    )
    return env, path


def later(one, other):
    return max(one, other, key=lambda row: row.time)


class ReadWindows(WindowReaderFunction):
    def read_window(self, key, context, elements, out):
        out.collect(Row(key, context.window().start, next(iter(elements)).amount))


def test_state_of_each_kind_is_made_and_read(made):
    env, path = made
    reader = SavepointReader.read(env, path)
    lines = reader.read_list_state("lines", "lines")
    assert lines.columns == ["f0", "f1"]
    assert sorted(map(tuple, lines.collect())) == sorted((kind, amount) for kind, amount, _ in ROWS)
    assert {tuple(row) for row in reader.read_broadcast_state("rules", "rules").collect()} == {("a", 1), ("b", 2)}
    windows = reader.window(TUMBLING).reduce(
        "windows",
        later,
        ReadWindows(),
        output_type=Types.ROW_NAMED(["kind", "start", "last"], [Types.STRING(), Types.LONG(), Types.INT()]),
    )
    last = {}
    for kind, amount, time_ in ROWS:
        last[kind, time_ - time_ % 10_000] = amount
    assert {(row.kind, row.start): row.last for row in windows.collect()} == last
    assert windows.where("last >= 100").count() == sum(amount >= 100 for amount in last.values())


def test_objects_without_a_type_are_streams(made):
    env, path = made
    reader = SavepointReader.read(env, path)
    with pytest.raises(TypeError, match=r"read_keyed_state: operator 'events' \(uid 'events'\) of .*needs the type"):
        reader.read_keyed_state("events", ReadEvents())
    stream = reader.as_stream(env).read_keyed_state("events", ReadEvents())
    with stream.map(lambda pair: (pair[0], pair[1].kind, pair[1].amount)).execute_and_collect() as results:
        assert sorted(results) == sorted((kind, kind, amount) for kind, amount, _ in ROWS)


def test_only_what_is_signed_is_read_and_what_is_written_is(made, spark, tmp_path):
    env, path = made
    assert SavepointReader.read(spark, path).read_broadcast_state("rules", "rules").count() == 2
    existing = SavepointWriter.from_existing_savepoint(env, path).remove_operator("windows")
    compressed = existing.with_configuration("execution.checkpointing.snapshot-compression", "true")
    compressed.change_operator_identifier("lines", "rules").change_operator_identifier("rules", "lines")
    copied = SavepointReader.read(env, compressed.write(str(tmp_path / "copy")))
    assert copied.read_list_state("rules", "lines").count() == 200
    assert copied.read_broadcast_state("lines", "rules").count() == 2
    unsigned = SavepointWriter.from_existing_savepoint(spark, path).write(str(tmp_path / "unsigned"))
    with pytest.raises(ValueError, match="is not signed"):
        SavepointReader.read(env, unsigned)


def checkpoints(directory):
    return [int(path.parent.name.removeprefix("chk-")) for path in directory.glob("*/chk-*/_metadata")]


def test_a_retained_checkpoint_of_rocksdb_is_read_and_changed(tmp_path, spark):
    env = environment(2, EmbeddedRocksDBStateBackend())
    env.enable_checkpointing(100)
    env.get_checkpoint_config().set_checkpoint_storage_dir(tmp_path.as_uri())
    env.get_checkpoint_config().set_externalized_checkpoint_retention(
        ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
    )
    results = program(env, pause=0.005).execute_and_collect("retained")
    for _ in range(100):
        next(results)
    client = results.get_job_client()
    before = max(checkpoints(tmp_path), default=0)
    wait_until(lambda: max(checkpoints(tmp_path), default=0) > before + 1, what="a checkpoint after these results")
    client.cancel().result()
    (job,) = [path for path in tmp_path.iterdir() if path.is_dir()]
    counts = SavepointReader.read(spark, str(job)).read_keyed_state("counts", COUNT, Types.LONG())
    found = {row.key: row.value for row in counts.collect()}
    assert set(found) == set(range(KEYS))
    written = SavepointWriter.from_existing_savepoint(spark, str(job)).write(str(tmp_path / "savepoint"))
    # In the form of savepoints, which the other backend restores too.
    env = environment(1, HashMapStateBackend(), execution__state_recovery__path=written)
    with program(env).execute_and_collect("restored") as rest:
        assert {value % KEYS: count for value, count, _ in rest} == {
            key: len([value for value in range(1, LAST + 1) if value % KEYS == key]) for key in range(KEYS)
        }


def test_a_failure_names_the_function_and_leaves_nothing(tmp_path, spark):
    frame = spark.createDataFrame([(1,)], "id INT")
    broken = OperatorTransformation.bootstrap_with(frame).key_by(lambda row: row.id).transform(WriteEvents())
    with pytest.raises(UserCodeError, match=r"(?s)Operator 'broken'.*Record at fault: Row\(id=1\)") as failure:
        SavepointWriter.new_savepoint(spark, 8).with_operator("broken", broken).write(str(tmp_path / "broken"))
    assert isinstance(failure.value.__cause__, AttributeError)
    assert list((tmp_path / "broken").iterdir()) == []
    broken = OperatorTransformation.bootstrap_with(frame).key_by(lambda row: row.name).transform(WriteEvents())
    with pytest.raises(UserCodeError, match=r"(?s)key_by.*Record at fault: Row\(id=1\)"):
        SavepointWriter.new_savepoint(spark, 8).with_operator("broken", broken).write(str(tmp_path / "broken"))
