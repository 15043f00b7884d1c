"""Checkpoints, restarts and savepoints of whole programs."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path

import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from tests.partly import Partly
from tests.waiting import wait_until

from flintstream.common import Configuration, JobStatus, RestartStrategies, Time, Types, WatermarkStrategy
from flintstream.datastream import (
    JobManagerCheckpointStorage,
    KeyedProcessFunction,
    MapFunction,
    StreamExecutionEnvironment,
)
from flintstream.datastream.connectors.base import (
    SourceReader,
    Split,
    SplitBasedSource,
    SplitEnumerator,
    SplitRecords,
)
from flintstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from flintstream.datastream.connectors.number_seq import NumberSequenceSource
from flintstream.datastream.connectors.spark import SparkDataFrameSource, SparkSink
from flintstream.datastream.functions import CheckpointedFunction, SinkFunction, SourceFunction
from flintstream.datastream.state import ListStateDescriptor, StateTtlConfig, ValueStateDescriptor
from flintstream.runtime.checkpoint.metadata import DatabaseHandle
from flintstream.runtime.checkpoint.store import read_checkpoint

pytestmark = pytest.mark.usefixtures("spark")
KEYS = 7


def environment(directory: Path | None = None, parallelism: int = 2, **options: str) -> StreamExecutionEnvironment:
    """An environment with a checkpoint ten times a second, and restarts at once."""
    configuration = Configuration()
    for key, value in options.items():
        configuration.set_string(key.replace("__", ".").replace("_", "-"), value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 0))
    env.enable_checkpointing(100)
    if directory is not None:
        env.get_checkpoint_config().set_checkpoint_storage_dir(directory.as_uri())
    return env


def numbers(env, last, share=1.0):
    return env.from_source(Partly(last, share), WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")


class Count(KeyedProcessFunction):
    """The number of each record among those of its key; takes its time, so that there are several epochs."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        time.sleep(0.0002)
        yield value % KEYS, count


class Trip(MapFunction):
    """Fails once at a record, or kills its process: the file says that it has happened."""

    def __init__(self, record, directory: Path, kill=False):
        self.record = record
        self.mark = directory / f"tripped-{record}"
        self.kill = kill

    def map(self, value):
        if value == self.record and not self.mark.exists():
            self.mark.touch()
            if self.kill:
                os._exit(9)
            raise ValueError(f"tripped over {value}")
        return value


def counts(last):
    """What Count gives for the numbers up to the last."""
    return Counter((value % KEYS, 1 + (value - 1) // KEYS) for value in range(1, last + 1))


def run(stream):
    with stream.execute_and_collect("test") as results:
        return Counter(results)


@pytest.mark.parametrize("kill", [False, True], ids=["exception", "killed slot"])
@pytest.mark.parametrize("storage", ["memory", "directory"])
def test_a_job_that_fails_goes_on_from_its_last_checkpoint(tmp_path, storage, kill):
    env = environment(tmp_path / "checkpoints" if storage == "directory" else None)
    tripping = numbers(env, 5000).map(Trip(3000, tmp_path, kill))
    assert run(tripping.key_by(lambda value: value % KEYS).process(Count())) == counts(5000)
    assert (tmp_path / "tripped-3000").exists()
    left = list((tmp_path / "checkpoints").rglob("*")) if storage == "directory" else []
    assert [path for path in left if path.is_file()] == [], "a finished job leaves no checkpoints"


class CountingSource(SourceFunction, CheckpointedFunction):
    """Emits numbers and remembers, as its state, how far it is."""

    def __init__(self, last):
        self.last = last
        self.offset = 0

    def initialize_state(self, context):
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("offset", Types.LONG()))
        self.offset = sum(self.state.get())

    def snapshot_state(self, context):
        self.state.update([self.offset])

    def run(self, ctx):
        while self.offset < self.last:
            with ctx.get_checkpoint_lock():
                self.offset += 1
                ctx.collect(self.offset)
            if self.offset % 50 == 0:
                time.sleep(0.02)

    def cancel(self):
        self.last = 0


class BufferingSink(SinkFunction, CheckpointedFunction):
    """Writes ten records at a time; those it holds meanwhile are its state."""

    def __init__(self, path: Path):
        self.path = path

    def initialize_state(self, context):
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("held", Types.LONG()))
        self.held = list(self.state.get())

    def snapshot_state(self, context):
        self.state.update(self.held)

    def invoke(self, value, context):
        self.held.append(value)
        if len(self.held) == 10:
            with self.path.open("a") as file:
                file.write("".join(f"{each}\n" for each in self.held))
            self.held = []


def test_a_counter_source_and_a_buffering_sink_lose_nothing_in_a_restart(tmp_path):
    env = environment(parallelism=1)
    source = env.add_source(CountingSource(2000), "counter")
    source.map(Trip(1503, tmp_path)).add_sink(BufferingSink(tmp_path / "out"))
    env.execute("buffering")
    written = [int(line) for line in (tmp_path / "out").read_text().split()]
    # The sink writes at once, so what came between the checkpoint and the failure is written again; nothing is missing.
    assert sorted(set(written)) == list(range(1, 2001))
    assert written[-10:] == list(range(1991, 2001))


def slow(value):
    time.sleep(0.0005)
    return value


def build(env, last, share=1.0, extra=False):
    """Numbers counted by key; the changed program also has another operator, and none of the first one's sums."""
    stream = numbers(env, last, share).map(slow).uid("slow")
    if extra:
        stream = stream.map(lambda value: value).uid("added")
    counted = stream.key_by(lambda value: value % KEYS).process(Count()).uid("count")
    if not extra:
        counted.key_by(lambda pair: pair[0]).reduce(lambda one, other: other).uid("dropped").filter(lambda pair: False)
    return counted


class Collecting:
    """Runs a program in the background and gathers what it gives."""

    def __init__(self, stream):
        self.results = stream.execute_and_collect("savepoints")
        self.client = self.results.get_job_client()
        self.seen: Counter = Counter()

    def take(self, count):
        for _ in range(count):
            self.seen[next(self.results)] += 1
        return self

    def rest(self):
        self.seen.update(self.results)
        return self.seen


def test_a_stopped_job_goes_on_at_other_parallelisms_with_changed_code(tmp_path):
    last = 6000
    first = Collecting(build(environment(parallelism=2), last, share=0.4)).take(500)
    savepoint = first.client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    seen = first.rest()
    assert first.client.get_job_status().result() is JobStatus.FINISHED
    assert 0 < sum(seen.values()) < last

    moved = tmp_path / "moved"
    os.rename(savepoint, moved)
    env = environment(parallelism=1, execution__state_recovery__path=str(moved))
    second = Collecting(build(env, last, share=0.8)).take(500)
    again = second.client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    seen += second.rest()
    assert sum(seen.values()) < last

    options = {"execution__state_recovery__path": again}
    with pytest.raises(ValueError, match=r"no operator of the program claims: 'Keyed Reduce' \(uid 'dropped'\)"):
        Collecting(build(environment(parallelism=3, **options), last, extra=True))
    options["execution__state_recovery__ignore_unclaimed_state"] = "true"
    seen += Collecting(build(environment(parallelism=3, **options), last, extra=True)).rest()
    assert seen == counts(last)


DAYS, DAY = 8, 250


class DayEnumerator(SplitEnumerator):
    """Finds a day at a time, up to the one that has not ended yet."""

    def __init__(self, now):
        self.found = 0
        self.now = now

    def discover(self):
        if self.found * DAY >= self.now:
            return []
        self.found += 1
        self.no_more_splits = self.found == DAYS
        return [Split(f"day {self.found}", self.found - 1)]

    def snapshot(self):
        return self.found

    def restore(self, state):
        self.found = state


class DayReader(SourceReader):
    """Reads all days of a subtask in turn, and notes how far completed checkpoints have them."""

    def __init__(self, notes: Path, now):
        self.notes = notes
        self.now = now
        self.days = {}

    def add_splits(self, splits):
        for split, position in splits:
            self.days[split.split_id] = split.content, position or 0

    def poll(self, limit):
        for split_id, (day, start) in self.days.items():
            end = min(start + limit, DAY, self.now - day * DAY)
            if start < end:
                del self.days[split_id]
                if end < DAY:
                    self.days[split_id] = day, end
                return [SplitRecords(split_id, [day * DAY + n + 1 for n in range(start, end)], finished=end == DAY)]
        return []

    def snapshot(self):
        return {split_id: offset for split_id, (_, offset) in self.days.items()}

    def notify_checkpoint_complete(self, positions):
        for split_id, offset in positions.items():
            (self.notes / split_id).write_text(str(offset))


class Days(SplitBasedSource):
    """Numbers, a range a day. There are as many of them as it is `now`."""

    discovery_interval = 0.2

    def __init__(self, notes: Path, now):
        self.notes = notes
        self.now = now

    def create_enumerator(self, parallelism):
        return DayEnumerator(self.now)

    def create_source_reader(self, runtime_context):
        return DayReader(self.notes, self.now)


def test_splits_found_while_the_job_runs_are_read_once_over_a_failure_and_at_another_parallelism(tmp_path):
    def counted(now, **options):
        days = Days(tmp_path, now)
        stream = environment(**options).from_source(days, WatermarkStrategy.no_watermarks(), "days").uid("days")
        tripped = stream.map(slow).uid("slow").map(Trip(DAY + 5, tmp_path)).uid("trip")
        return tripped.key_by(lambda value: value % KEYS).process(Count()).uid("count")

    first = Collecting(counted(5 * DAY + DAY // 2, parallelism=2)).take(2 * DAY)
    wait_until(lambda: any(tmp_path.glob("day *")), what="a checkpoint within a day")
    savepoint = first.client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    seen = first.rest()
    assert 0 < sum(seen.values()) < DAYS * DAY
    assert (tmp_path / f"tripped-{DAY + 5}").exists()
    noted = {path.name: int(path.read_text()) for path in tmp_path.glob("day *")}
    assert noted and all(0 <= offset < DAY for offset in noted.values())
    seen += Collecting(counted(DAYS * DAY, parallelism=3, execution__state_recovery__path=savepoint)).rest()
    assert seen == counts(DAYS * DAY)


def test_a_job_that_signs_restores_only_what_was_signed_with_its_key(tmp_path):
    for name in ("own", "other"):
        (tmp_path / name).write_text(name * 20)
        (tmp_path / name).chmod(0o600)
    last = 4000
    options = {"execution__checkpointing__data_inline_threshold": "0 b"}
    signed = {**options, "flint__checkpoints__signing_key_file": str(tmp_path / "own")}
    first = Collecting(build(environment(tmp_path / "checkpoints", **signed), last, share=0.5)).take(500)
    savepoint = first.client.stop_with_savepoint(False, str(tmp_path)).result()
    seen = first.rest()
    assert 0 < sum(seen.values()) < last

    options["execution__state_recovery__path"] = signed["execution__state_recovery__path"] = savepoint
    options["flint__checkpoints__signing_key_file"] = str(tmp_path / "other")
    with pytest.raises(ValueError, match=r"_metadata was signed with a key that is not in .*/other"):
        Collecting(build(environment(**options), last))
    seen += Collecting(build(environment(**signed), last)).rest()
    assert seen == counts(last)


def test_a_job_takes_over_the_maximum_parallelism_of_its_savepoint_unless_it_sets_one(tmp_path):
    last = 3000
    env = environment(parallelism=2, pipeline__max_parallelism="16")
    first = Collecting(build(env, last, share=0.5)).take(300)
    savepoint = first.client.stop_with_savepoint(False, str(tmp_path)).result()
    seen = first.rest()
    assert 0 < sum(seen.values()) < last

    options = {"execution__state_recovery__path": savepoint}
    with pytest.raises(ValueError, match=r"maximum parallelism 16, but the program sets 128, so that .* or set none"):
        Collecting(build(environment(pipeline__max_parallelism="128", **options), last))
    with pytest.raises(ValueError, match="maximum parallelism 16, but the program's parallelism is 100: .* at most 16"):
        Collecting(build(environment(parallelism=100, **options), last))
    seen += Collecting(build(environment(parallelism=3, **options), last)).rest()
    assert seen == counts(last)


def test_a_drained_job_lets_everything_out(tmp_path):
    env = environment()
    env.from_source(NumberSequenceSource(1, 10**9), WatermarkStrategy.no_watermarks(), "endless")
    stream = numbers(env, 10**9).map(slow).key_by(lambda value: value % 2).count_window(10**8).reduce(max)
    job = Collecting(stream)
    wait_until(lambda: job.client.master.progress.epochs, what="the first epoch")
    location = job.client.stop_with_savepoint(True, str(tmp_path)).result()
    assert Path(location, "_metadata").exists()
    assert job.client.get_job_status().result() is JobStatus.FINISHED


def test_savepoints_are_taken_of_running_jobs_and_while_they_are_cancelled(tmp_path):
    job = Collecting(numbers(environment(), 10**9).map(slow)).take(100)
    one = job.client.trigger_savepoint(str(tmp_path)).result()
    job.take(100)
    other = job.client.cancel_with_savepoint(str(tmp_path)).result()
    assert one != other and Path(one, "_metadata").exists() and Path(other, "_metadata").exists()
    assert job.client.get_job_status().result() is JobStatus.CANCELED
    job.results.close()


def test_a_savepoint_that_cannot_be_written_leaves_the_job_running(tmp_path):
    (tmp_path / "file").touch()
    job = Collecting(numbers(environment(), 10**9).map(slow)).take(100)
    with pytest.raises(Exception, match="file"):
        job.client.stop_with_savepoint(False, str(tmp_path / "file")).result()
    job.take(5000)
    job.client.cancel().result()
    job.results.close()


def test_retained_checkpoints_can_be_gone_on_from(tmp_path):
    options = {"execution__checkpointing__externalized_checkpoint_retention": "RETAIN_ON_CANCELLATION"}
    job = Collecting(build(environment(tmp_path, **options), 4000, share=0.5)).take(300)
    job.client.cancel().result()
    (directory,) = tmp_path.iterdir()
    with pytest.raises(Exception, match="cancel"):
        job.rest()
    env = environment(execution__state_recovery__path=str(directory))
    # A collecting reader has seen exactly what the last checkpoint contains.
    assert job.seen + run(build(env, 4000)) == counts(4000)


def test_a_checkpoint_whose_file_was_altered_is_refused_once_and_by_name(tmp_path):
    options = {
        "execution__checkpointing__externalized_checkpoint_retention": "RETAIN_ON_CANCELLATION",
        "execution__checkpointing__data_inline_threshold": "0 b",
    }
    job = Collecting(build(environment(tmp_path, **options), 4000, share=0.5)).take(300)
    job.client.cancel().result()
    (directory,) = tmp_path.iterdir()
    # All of them: some may belong to a checkpoint that the cancelling cut short, which nothing restores.
    for path in (directory / "shared").iterdir():
        path.write_bytes(bytes(255 - byte for byte in path.read_bytes()))

    env = environment(execution__state_recovery__path=str(directory))
    again = Collecting(build(env, 4000))
    with pytest.raises(Exception, match=rf"{directory}/shared/\S+ was altered: a checksum is wrong"):
        again.rest()
    assert again.client.master.restarts == 0, "it would fail in the same way again"


def test_state_in_rocksdb_survives_a_killed_slot_and_another_parallelism(tmp_path):
    options = {
        "state__backend__type": "rocksdb",
        "execution__checkpointing__externalized_checkpoint_retention": "RETAIN_ON_CANCELLATION",
    }
    env = environment(tmp_path / "checkpoints", **options)
    stream = numbers(env, 4000, share=0.6).map(Trip(500, tmp_path, kill=True)).uid("trip")
    job = Collecting(stream.key_by(lambda value: value % KEYS).process(Count()).uid("count")).take(1500)
    job.client.cancel().result()
    with pytest.raises(Exception, match="cancel"):
        job.rest()
    (directory,) = (tmp_path / "checkpoints").iterdir()
    env = environment(parallelism=3, execution__state_recovery__path=str(directory), **options)
    stream = numbers(env, 4000).map(Trip(500, tmp_path)).uid("trip")
    assert job.seen + run(stream.key_by(lambda value: value % KEYS).process(Count()).uid("count")) == counts(4000)


class FirstSeen(KeyedProcessFunction):
    """State of each key that expires after a second."""

    def open(self, runtime_context):
        descriptor = ValueStateDescriptor("seen", Types.LONG())
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())
        self.seen = runtime_context.get_state(descriptor)

    def process_element(self, value, ctx):
        self.seen.update(value)
        yield value


class ThenNothing(SourceFunction):
    """Emits some numbers, and then nothing until the job is cancelled."""

    def __init__(self, last):
        self.last = last
        self.running = True

    def run(self, ctx):
        for number in range(self.last):
            ctx.collect(number)
        while self.running:
            time.sleep(0.02)

    def cancel(self):
        self.running = False


def test_expired_state_leaves_the_disk_of_a_job_without_records(tmp_path):
    options = {
        "state__backend__type": "rocksdb",
        "state__backend__rocksdb__localdir": str(tmp_path / "disk"),
        "execution__checkpointing__externalized_checkpoint_retention": "RETAIN_ON_CANCELLATION",
    }

    def start(last, **more):
        source = environment(tmp_path / "checkpoints", 1, **options, **more).add_source(ThenNothing(last)).uid("source")
        return Collecting(source.key_by(lambda value: value).process(FirstSeen()).uid("seen"))

    job = start(5000).take(5000)
    job.client.cancel().result()
    (directory,) = (tmp_path / "checkpoints").iterdir()
    metadata, _ = read_checkpoint(str(directory))
    states = [state for operator in metadata.operators.values() for state in operator.subtasks.values()]
    files = [handle.files for state in states for handle in state.keyed if isinstance(handle, DatabaseHandle)]
    assert any(name.endswith(".sst") for each in files for name in each)

    before = set((tmp_path / "disk").glob("*/CURRENT"))  # Of a slot that was killed, since it closed too slowly.
    again = start(0, execution__state_recovery__path=str(directory))

    def is_empty():
        databases = [path.parent for path in (tmp_path / "disk").glob("*/CURRENT") if path not in before]
        return databases and not any(list(database.glob("*.sst")) for database in databases)

    try:
        wait_until(is_empty, what="that the files with expired entries go")
        assert again.client.get_job_status().result() is JobStatus.RUNNING
    finally:
        again.client.cancel().result()


def test_a_spark_writer_writes_once_for_each_checkpoint(tmp_path):
    calls: list[int] = []

    def write(frame, number):
        rows = [row[0] for row in frame.collect()]
        calls.append(number)
        (tmp_path / f"part-{number}").write_text("\n".join(map(str, rows)))
        if len(calls) == 2:
            raise OSError("the writer has failed behind its back")

    env = environment()
    numbers(env, 4000).map(slow).map(Trip(2500, tmp_path)).sink_to(SparkSink(write))
    env.execute("spark writer")
    rows = [int(line) for part in tmp_path.glob("part-*") for line in part.read_text().split()]
    assert sorted(rows) == list(range(1, 4001))
    assert len(calls) > len(set(calls)), "what had failed was written again, with the same number"


def test_a_delta_table_has_each_record_once(tmp_path):
    """A failure right behind a commit: the table knows the number of the checkpoint, and the second call writes nothing."""
    table, calls = str(tmp_path / "table"), []

    def write(frame, number):
        calls.append(number)
        if not (DeltaTable.is_deltatable(table) and (DeltaTable(table).transaction_version("job") or 0) >= number):
            commit = CommitProperties(app_transactions=[Transaction("job", number)])
            write_deltalake(table, frame.toArrow(), mode="append", commit_properties=commit)
        if len(calls) == 1:
            raise OSError("failed behind the commit")

    env = environment()
    rows = numbers(env, 1000).map(lambda number: (number,), Types.TUPLE([Types.LONG()]))
    rows.sink_to(SparkSink(write))
    env.execute("to a Delta table")
    assert calls[0] == calls[1]
    (column,) = DeltaTable(table).to_pyarrow_table().columns
    assert sorted(column.to_pylist()) == list(range(1, 1001))


def test_a_streaming_frame_goes_on_where_the_checkpoint_ends(tmp_path, spark):
    source = tmp_path / "in"
    source.mkdir()
    for number in range(6):
        (source / f"{number}.txt").write_text("".join(f"{number * 100 + line}\n" for line in range(100)))
    frame = spark.readStream.option("maxFilesPerTrigger", "1").text(str(source))
    env = environment(tmp_path / "checkpoints")
    rows = env.from_source(
        SparkDataFrameSource(frame, {"availableNow": True}), WatermarkStrategy.no_watermarks(), "files"
    )
    assert run(rows.map(lambda row: int(row[0])).map(Trip(350, tmp_path))) == Counter(range(600))


def test_without_checkpoints_a_failure_ends_the_job(tmp_path):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    with pytest.raises(Exception, match="tripped over 5"):
        run(numbers(env, 10).map(Trip(5, tmp_path)))


def test_a_storage_that_cannot_be_written_is_refused_before_anything_runs(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"execution\.checkpointing\.dir: checkpoints cannot be written to .*file"):
        run(numbers(environment(tmp_path / "file"), 10))


class Refuse(MapFunction, CheckpointedFunction):
    """Lets no checkpoint be taken."""

    def initialize_state(self, context):
        """Has no state."""

    def snapshot_state(self, context):
        raise ValueError("not now")

    def map(self, value):
        return value


def test_more_failed_checkpoints_than_tolerated_fail_the_job():
    env = environment()
    env.set_restart_strategy(RestartStrategies.no_restart())
    env.get_checkpoint_config().set_tolerable_checkpoint_failure_number(1)
    with pytest.raises(Exception, match="checkpoint 2 failed, and no more failures are tolerated: .*not now"):
        run(numbers(env, 10**7).map(slow).map(Refuse()))


def test_so_many_records_between_two_checkpoints_with_compressed_metadata_in_a_directory(tmp_path):
    env = environment(**{"execution__checkpointing__snapshot-compression": "true"})
    env.get_checkpoint_config().set_checkpoint_storage(JobManagerCheckpointStorage(tmp_path.as_uri()))
    source = DataGeneratorSource(lambda index: index + 1, 100, RateLimiterStrategy.per_checkpoint(30), Types.LONG())
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").map(Trip(70, tmp_path))
    results = stream.key_by(lambda value: value % KEYS).process(Count()).execute_and_collect("test")
    with results:
        assert Counter(results) == counts(100)
    master = results._client.master
    # Each of the two subtasks needs four turns.
    assert len(master.checkpoints.statistics) >= 3
    assert (tmp_path / "tripped-70").exists()
    assert master.settings.checkpoints.compressed
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} <= {"tripped-70"}  # Ended, so none is kept.
