"""Jobs to be hurt, with results that do not depend on what happens on the way.

`hurt_program.py JOB DIRECTORY [OPTION=VALUE ...]` restores the last checkpoint in DIRECTORY, if there is one, and
prints a line of JSON when the job has ended.
"""

from __future__ import annotations

import json
import random
import re
import sys
import time
import uuid
from collections import Counter
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.faults import hurts
from tests.faults.helpers import ENOUGH_SECONDS

from flintstream.cep import CEP, Pattern, PatternProcessFunction, TimedOutPartialMatchHandler
from flintstream.common import (
    Configuration,
    Duration,
    Encoder,
    RestartStrategies,
    SimpleStringSchema,
    Time,
    Types,
    WatermarkStrategy,
)
from flintstream.datastream import (
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    TwoPhaseCommitSinkFunction,
)
from flintstream.datastream.connectors.base import DeliveryGuarantee
from flintstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from flintstream.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    FileSource,
    RollingPolicy,
    StreamFormat,
)
from flintstream.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from flintstream.datastream.connectors.number_seq import NumberSequenceSource
from flintstream.datastream.connectors.spark import SparkDataFrameSource
from flintstream.datastream.functions import CheckpointedFunction
from flintstream.datastream.state import ListStateDescriptor, MapStateDescriptor
from flintstream.datastream.window import TumblingEventTimeWindows
from flintstream.jobmaster.progress import Progress
from flintstream.runtime.checkpoint.metadata import CorruptCheckpointError
from flintstream.runtime.checkpoint.storage import storage_at
from flintstream.runtime.checkpoint.store import read_checkpoint, readable_checkpoints
from flintstream.runtime.faults import Fault

FILES, LINES, USERS, DISORDER, WINDOW = 4, 250, 7, 200, 1000
EVENTS, EVENTS_PER_SECOND, KEYS, BUCKET = 1500, 750, 11, 100
NUMBERS = 1000
RULES = [("three", 3), ("five", 5), ("eleven", 11)]
BATCHES, BATCH_LINES = 5, 100
ROUNDS = 7


# --- amounts of users by window ---


def amounts() -> list[list[tuple[str, int, int]]]:
    """User, amount and timestamp of the lines of each file; a file goes on where the one before it ends."""
    made = random.Random(1)
    step = 20
    return [
        [
            (f"user-{made.randrange(USERS)}", made.randrange(100), moment * step + made.randrange(DISORDER))
            for moment in range(number * LINES, (number + 1) * LINES)
        ]
        for number in range(FILES)
    ]


def write_amounts(directory: Path) -> None:
    directory.mkdir()
    for number, lines in enumerate(amounts()):
        text = "".join(f"{user},{amount},{timestamp}\n" for user, amount, timestamp in lines)
        (directory / f"{number}.csv").write_text(text)


def expected_sums() -> list[str]:
    sums: Counter[tuple[str, int]] = Counter()
    for lines in amounts():
        for user, amount, timestamp in lines:
            sums[user, timestamp // WINDOW * WINDOW] += amount
    return sorted(f"{user} {start} {total}" for (user, start), total in sums.items())


class Parse(MapFunction, CheckpointedFunction):
    """Takes its time, and more of it until the job is hurt; what it has counted is its state."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.count = 0

    def open(self, runtime_context):
        hurts.install_in_slot(self.directory)

    def initialize_state(self, context):
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("parsed", Types.LONG()))
        self.count = sum(self.state.get())

    def snapshot_state(self, context):
        hurts.reached("snapshot_state")
        self.state.update([self.count])

    def map(self, line):
        hurts.reached("map")
        time.sleep(0.004 if hurts.outstanding() else 0.001)
        self.count += 1
        user, amount, timestamp = line.split(",")
        return user, int(amount), int(timestamp)


class Sum(ProcessWindowFunction):
    def process(self, key, context, elements):
        hurts.reached("window function")
        yield f"{key} {context.window().start} {sum(amount for _, amount, _ in elements)}"


# --- patterns in the amounts of users ---

LOW, HIGH, SOON = 30, 85, 300
GIVEN_UP = OutputTag("given up", Types.STRING())


def by_amount(left: tuple[str, int, int], right: tuple[str, int, int]) -> int:
    """The order of amounts at the same time, which come in any order."""
    return left[1] - right[1]


def expected_patterns() -> dict[str, list[str]]:
    """For each low amount the first high one of the user that follows soon."""
    events = sorted((moment, amount, user) for lines in amounts() for user, amount, moment in lines)
    found: dict[str, list[str]] = {"followed": [], "given up": []}
    for place, (moment, amount, user) in enumerate(events):
        if amount < LOW:
            later = (each for each in events[place + 1 :] if each[2] == user and each[1] > HIGH)
            high = next(later, (moment + SOON, 0, user))
            if high[0] - moment < SOON:
                found["followed"].append(f"{user} {moment} {amount} {high[0]} {high[1]}")
            else:
                found["given up"].append(f"{user} {moment} {amount} {moment + SOON}")
    return {name: sorted(lines) for name, lines in found.items()}


class LowThenHigh(PatternProcessFunction, TimedOutPartialMatchHandler):
    def process_match(self, match, ctx):
        hurts.reached("pattern function")
        (low,), (high,) = match["low"], match["high"]
        yield f"{low[0]} {low[2]} {low[1]} {high[2]} {high[1]}"

    def process_timed_out_match(self, match, ctx):
        (low,) = match["low"]
        yield GIVEN_UP, f"{low[0]} {low[2]} {low[1]} {ctx.timestamp()}"


# --- events by bucket ---


def expected_counts() -> list[str]:
    counts = Counter((event % KEYS, event // BUCKET) for event in range(EVENTS))
    return sorted(f"{key} {bucket} {count}" for (key, bucket), count in counts.items())


class CountByBucket(KeyedProcessFunction):
    """Counts in buckets of event time; a timer lets each out at its end."""

    def open(self, runtime_context):
        self.counts = runtime_context.get_map_state(MapStateDescriptor("counts", Types.LONG(), Types.LONG()))

    def process_element(self, event, ctx):
        bucket = event // BUCKET
        self.counts.put(bucket, (self.counts.get(bucket) or 0) + 1)
        ctx.timer_service().register_event_time_timer((bucket + 1) * BUCKET - 1)

    def on_timer(self, timestamp, ctx):
        hurts.reached("timer")
        bucket = timestamp // BUCKET
        count = self.counts.get(bucket)
        self.counts.remove(bucket)
        yield f"{ctx.get_current_key()} {bucket} {count}"


# --- numbers by rules ---


def expected_matches() -> list[str]:
    return sorted(f"{number} {name}" for number in range(1, NUMBERS + 1) for name, n in RULES if number % n == 0)


def slow(number: int) -> int:
    time.sleep(0.001)
    return number


RULE_STATE = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class Match(KeyedBroadcastProcessFunction):
    """Numbers wait until all rules are there: at the latest for the end of the rules, when the watermark comes."""

    def open(self, runtime_context):
        self.early = runtime_context.get_list_state(ListStateDescriptor("early", Types.LONG()))

    def process_broadcast_element(self, rule, ctx):
        ctx.get_broadcast_state(RULE_STATE).put(*rule)

    def process_element(self, number, ctx):
        rules = dict(ctx.get_broadcast_state(RULE_STATE).items())
        if len(rules) == len(RULES):
            yield from self.matches(number, rules)
        else:
            self.early.add(number)
            ctx.timer_service().register_event_time_timer(0)

    def on_timer(self, timestamp, ctx):
        rules = dict(ctx.get_broadcast_state(RULE_STATE).items())
        for number in self.early.get():
            yield from self.matches(number, rules)
        self.early.clear()

    def matches(self, number, rules):
        return [f"{number} {name}" for name, divisor in rules.items() if number % divisor == 0]


class Transactions(TwoPhaseCommitSinkFunction):
    """A file for each transaction, hidden until it is committed."""

    def __init__(self, directory: Path):
        super().__init__()
        self.directory = directory
        self.lines: list[str] = []

    def begin_transaction(self):
        self.lines = []
        return str(uuid.uuid4())

    def invoke(self, transaction, value, context):
        self.lines.append(f"{value}\n")

    def pre_commit(self, transaction):
        if self.lines:
            self.hidden(transaction).write_text("".join(self.lines))

    def commit(self, transaction):
        hurts.reached("before transaction commit")
        if self.hidden(transaction).exists():
            self.hidden(transaction).rename(self.directory / transaction)
        hurts.reached("after transaction commit")

    def abort(self, transaction):
        self.hidden(transaction).unlink(missing_ok=True)

    def hidden(self, transaction) -> Path:
        return self.directory / f".{transaction}"


# --- the jobs ---


def job_id(directory: Path) -> str:
    """The id of the job in a directory, whichever driver runs it; in one program no two jobs may have the same."""
    return sha256(str(directory).encode()).hexdigest()[:32]


def environment(directory: Path, options: dict[str, str]) -> StreamExecutionEnvironment:
    """Checkpoints in a directory five times a second, even small state in files of its own, restarts at once."""
    configuration = Configuration()
    settings = {
        "flint.job-id": job_id(directory),
        "execution.checkpointing.dir": str(directory / "checkpoints"),
        "execution.checkpointing.interval": "200 ms",
        "execution.checkpointing.num-retained": "3",
        "execution.checkpointing.data-inline-threshold": "100 b",
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    }
    for key, value in {**settings, **options}.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(int(options.get("parallelism.default", "2")))
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(5, 0))
    return env


def file_sink(path: Path, policy: RollingPolicy) -> FileSink:
    builder = FileSink.for_row_format(str(path), Encoder.simple_string_encoder()).with_rolling_policy(policy)
    return builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()


def build_main(env: StreamExecutionEnvironment, directory: Path) -> None:
    """Windows, timers and broadcast rules, each from a source of its own into a sink of its own."""
    if not (directory / "in").exists():
        write_amounts(directory / "in")
    (directory / "matches").mkdir(exist_ok=True)
    disorderly = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(DISORDER))
    orderly = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda event, before: event)
    text, never = Types.STRING(), WatermarkStrategy.no_watermarks()

    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(directory / "in")).build()
    (
        env.from_source(source, never, "lines")
        .map(Parse(directory))
        .assign_timestamps_and_watermarks(disorderly.with_timestamp_assigner(lambda parsed, before: parsed[2]))
        .key_by(lambda parsed: parsed[0], text)
        .window(TumblingEventTimeWindows.of(Time.milliseconds(WINDOW)))
        .process(Sum(), text)
        .sink_to(file_sink(directory / "sums", RollingPolicy.default_rolling_policy(part_size=300)))
    )
    generator = DataGeneratorSource(lambda index: index, EVENTS, RateLimiterStrategy.per_second(EVENTS_PER_SECOND))
    (
        env.from_source(generator, orderly, "events")
        .key_by(lambda event: event % KEYS, Types.LONG())
        .process(CountByBucket(), text)
        .sink_to(file_sink(directory / "counts", RollingPolicy.on_checkpoint_rolling_policy()))
    )
    rules = env.from_collection(RULES).broadcast(RULE_STATE)
    (
        env.from_source(NumberSequenceSource(1, NUMBERS), never, "numbers")
        .map(slow, Types.LONG())
        .key_by(lambda number: number % KEYS, Types.LONG())
        .connect(rules)
        .process(Match(), text)
        .add_sink(Transactions(directory / "matches"))
    )


def expected_main() -> dict[str, list[str]]:
    return {"sums": expected_sums(), "counts": expected_counts(), "matches": expected_matches()}


def build_patterns(env: StreamExecutionEnvironment, directory: Path) -> None:
    """A pattern with time-outs, whose events come out of order, into two sinks."""
    if not (directory / "in").exists():
        write_amounts(directory / "in")
    disorderly = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(DISORDER))
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(directory / "in")).build()
    events = (
        env.from_source(source, WatermarkStrategy.no_watermarks(), "lines")
        .map(Parse(directory))
        .assign_timestamps_and_watermarks(disorderly.with_timestamp_assigner(lambda parsed, before: parsed[2]))
        .key_by(lambda parsed: parsed[0], Types.STRING())
    )
    low = Pattern.begin("low").where(lambda parsed: parsed[1] < LOW)
    pattern = low.followed_by("high").where(lambda parsed: parsed[1] > HIGH).within(Duration.of_millis(SOON))
    followed = CEP.pattern(events, pattern, by_amount).process(LowThenHigh(), Types.STRING())
    followed.sink_to(file_sink(directory / "followed", RollingPolicy.on_checkpoint_rolling_policy()))
    given_up = followed.get_side_output(GIVEN_UP)
    given_up.sink_to(file_sink(directory / "given up", RollingPolicy.on_checkpoint_rolling_policy()))


def build_bridge(env: StreamExecutionEnvironment, directory: Path) -> None:
    """A streaming DataFrame of files, a batch each."""
    from flintstream.spark.session import get_or_create_session

    if not (directory / "in").exists():
        (directory / "in").mkdir()
        for batch in range(BATCHES):
            lines = (f"{batch * BATCH_LINES + line}\n" for line in range(BATCH_LINES))
            (directory / "in" / f"{batch}.txt").write_text("".join(lines))
    spark = get_or_create_session({})
    frame = spark.readStream.option("maxFilesPerTrigger", "1").text(str(directory / "in"))
    rows = env.from_source(
        SparkDataFrameSource(frame, {"availableNow": True}), WatermarkStrategy.no_watermarks(), "rows"
    )
    (
        rows.map(lambda row: f"{row[0]},0,0")
        .map(Parse(directory))
        .map(lambda parsed: parsed[0], Types.STRING())
        .sink_to(file_sink(directory / "rows", RollingPolicy.on_checkpoint_rolling_policy()))
    )


def expected_bridge() -> dict[str, list[str]]:
    return {"rows": sorted(map(str, range(BATCHES * BATCH_LINES)))}


# --- rounds of an iteration ---


class Rounds(KeyedProcessFunction):
    """Counts how often each number has come round; those that are done leave the loop."""

    def open(self, runtime_context):
        self.counts = runtime_context.get_map_state(MapStateDescriptor("rounds", Types.LONG(), Types.LONG()))

    def process_element(self, step, ctx):
        hurts.reached("round")
        number, left = step
        count = (self.counts.get(number) or 0) + 1
        if left:
            self.counts.put(number, count)
            yield number, left - 1
        else:
            self.counts.remove(number)
            yield DONE, f"{number} {count}"


DONE = OutputTag("done", Types.STRING())


def build_iterations(env: StreamExecutionEnvironment, directory: Path) -> None:
    """Numbers that go round a loop, each its own number of times, and are counted with it."""
    generator = DataGeneratorSource(lambda index: index, EVENTS, RateLimiterStrategy.per_second(EVENTS_PER_SECOND))
    loop = (
        env.from_source(generator, WatermarkStrategy.no_watermarks(), "events")
        .map(lambda number: f"{number},0,0")
        .map(Parse(directory))
        .map(lambda parsed: (int(parsed[0]), int(parsed[0]) % ROUNDS))
        .iterate()
    )
    rounds = loop.key_by(lambda step: step[0] % KEYS, Types.LONG()).process(Rounds())
    loop.close_with(rounds.rebalance())
    done = rounds.get_side_output(DONE)
    done.sink_to(file_sink(directory / "rounds", RollingPolicy.on_checkpoint_rolling_policy()))


def expected_iterations() -> dict[str, list[str]]:
    return {"rounds": sorted(f"{number} {number % ROUNDS + 1}" for number in range(EVENTS))}


# --- from Kafka to Kafka ---


@dataclass(frozen=True)
class Topics:
    """What a job from Kafka to Kafka is told in a file: a broker, its process, and two topics of it."""

    servers: str
    pid: int
    events: str
    counts: str

    def write(self, directory: Path) -> None:
        made = directory / "topics.part"
        made.write_text(json.dumps(asdict(self)))
        made.rename(directory / "topics.json")

    @staticmethod
    def read(directory: Path) -> Topics:
        return Topics(**json.loads((directory / "topics.json").read_text()))


def build_kafka(env: StreamExecutionEnvironment, directory: Path) -> None:
    """Events of a topic, whose timestamps follow from their numbers, counted into another topic."""
    topics = Topics.read(directory)
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(topics.servers)
        .set_topics(topics.events)
        .set_group_id("counts")
        .set_bounded(KafkaOffsetsInitializer.latest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    records = KafkaRecordSerializationSchema.builder().set_topic(topics.counts)
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(topics.servers)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix(topics.counts)
        .set_property("transaction.timeout.ms", "600000")
        .set_record_serializer(records.set_value_serialization_schema(SimpleStringSchema()).build())
        .build()
    )
    (
        env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "events")
        .map(lambda event: f"{event},0,0")
        .map(Parse(directory))
        .map(lambda parsed: int(parsed[0]), Types.LONG())
        .key_by(lambda event: event % KEYS, Types.LONG())
        .process(CountByBucket(), Types.STRING())
        .sink_to(sink)
    )


def expected_kafka() -> dict[str, list[str]]:
    return {"topic": expected_counts()}


JOBS = {
    "main": (build_main, expected_main),
    "patterns": (build_patterns, expected_patterns),
    "bridge": (build_bridge, expected_bridge),
    "iterations": (build_iterations, expected_iterations),
    "kafka": (build_kafka, expected_kafka),
}


def run(job: str, directory: Path, options: dict[str, str]) -> dict[str, Any]:
    """Runs a job to its end, from its latest checkpoint if there is one, with the hurts that are planned for it."""
    path = directory / "checkpoints" / job_id(directory)
    restored, refused = None, None
    try:
        restored = str(path) if read_checkpoint(str(path)) else None
    except FileNotFoundError:
        pass  # The first driver was killed before it had completed one.
    except CorruptCheckpointError as error:
        # The driver was killed right behind it, before sinks could commit: here the one before it is the right one.
        refused = str(error)
        if readable_checkpoints(storage_at(str(path)))[0]:
            [restored] = re.findall(r"(\S*/chk-\d+) is intact, but older", refused)
    if restored is not None:
        options = {**options, "execution.state-recovery.path": restored}
    env = environment(directory, options)
    JOBS[job][0](env, directory)
    undo = hurts.install_in_driver(directory)
    try:
        client = env.execute_async(job)
        causes = restart_causes(client.master.progress)
        error = client.get_job_execution_result().exception(2 * ENOUGH_SECONDS)
    finally:
        undo()
    return {
        "status": client.get_job_status().result().name,
        "error": None if error is None else str(error),
        "restored": restored,
        "refused": refused,
        "restarts": causes,
    }


def restart_causes(progress: Progress) -> list[str]:
    """Is filled with the reasons for which a job starts again."""
    causes: list[str] = []
    tell = progress.restarts

    def restarts(number: int, fault: Fault, seconds: float) -> None:
        causes.append(fault.summary)
        tell(number, fault, seconds)

    progress.restarts = restarts  # type: ignore[method-assign]
    return causes


def main() -> None:
    job, directory = sys.argv[1], Path(sys.argv[2])
    options = dict(option.split("=", 1) for option in sys.argv[3:])
    print(json.dumps(run(job, directory, options)), flush=True)


if __name__ == "__main__":
    main()
