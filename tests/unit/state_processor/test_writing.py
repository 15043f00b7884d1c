"""State made from records, and copied from other checkpoints, is what operators of a job restore; nothing needs Spark."""

from __future__ import annotations

import os
import pickle
import time

import pyarrow as pa
import pyarrow.compute
import pytest
from tests.unit.state_processor.savepoints import COUNT, MAX_PARALLELISM, LocalReader, Steps, opened
from tests.unit.state_processor.test_readings import RECORDS, ReadAll, expected
from tests.waiting import ENOUGH_SECONDS

from flintstream.common import Types
from flintstream.common.keys import subtasks
from flintstream.common.pickling import dumps_by_value
from flintstream.common.time import Time
from flintstream.datastream.functions import KeyedProcessFunction
from flintstream.datastream.state import ListStateDescriptor, MapStateDescriptor
from flintstream.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows
from flintstream.graph.partitioners import KeyGroupPartitioner
from flintstream.runtime.batch import Batch
from flintstream.runtime.checkpoint.metadata import METADATA, CheckpointMetadata, DatabaseHandle, OperatorState
from flintstream.runtime.checkpoint.pieces import CheckpointTarget, RestoredOperators
from flintstream.runtime.checkpoint.storage import StorageError, storage_at
from flintstream.runtime.faults import UserCodeError, user_fault
from flintstream.runtime.operators.process import ProcessOperator
from flintstream.runtime.slot.writers import make_writer
from flintstream.state_processor import (
    BroadcastStateBootstrapFunction,
    KeyedStateBootstrapFunction,
    OperatorIdentifier,
    OperatorTransformation,
    SavepointWriter,
    StateBootstrapFunction,
    StateNotFoundError,
)
from flintstream.state_processor.bootstrap_tasks import CopyState, Destination, MakeState, _Blocks, keyed_batches
from flintstream.state_processor.reader import Place
from flintstream.state_processor.savepoint import Savepoint
from flintstream.state_processor.shares import subtask_share
from flintstream.state_processor.writer import CLAIM, _claimed
from flintstream.testing import OneInputOperatorHarness

UID = OperatorIdentifier.for_uid("made")


class Frame:
    """In the place of a DataFrame, which is not looked at before something is written."""

    def mapInArrow(self):
        raise AssertionError


def destination(tmp_path, name="made"):
    return Destination(CheckpointTarget(storage_at(str(tmp_path / name)), inline_size=0), 1, 0)


def make(tmp_path, transformation, batches, parallelism=1, backend="hashmap"):
    """Lets each subtask process its batch; returns the location of the savepoint."""
    target = destination(tmp_path)
    maker = MakeState(
        b"",
        dumps_by_value(transformation.operator),
        "made",
        UID.operator_id,
        parallelism,
        MAX_PARALLELISM,
        target,
        None,
        backend,
    )
    states = {subtask: maker.make(subtask, iter([batch])) for subtask, batch in enumerate(batches)}
    operator = OperatorState("made", "made", parallelism, MAX_PARALLELISM, states)
    metadata = CheckpointMetadata(1, 0, "0" * 32, "a job", True, {UID.operator_id: operator})
    target.target.storage.write(METADATA, metadata.to_bytes())
    return target.target.storage.root


def restored(location, operator, key_selector, state_backend="hashmap"):
    """A harness of an operator that has restored a savepoint."""
    savepoint = Savepoint.read(location, {})
    chains = RestoredOperators(1, savepoint.storage, savepoint.metadata.operators).chains(
        UID.operator_id, range(MAX_PARALLELISM)
    )
    harness = OneInputOperatorHarness(
        operator, key_selector, max_parallelism=MAX_PARALLELISM, state_backend=state_backend
    )
    harness.restore(*(snapshot for (snapshot,) in chains))
    return harness


class WriteCounts(KeyedStateBootstrapFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(COUNT)

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + value)
        ctx.timer_service().register_event_time_timer(50)
        ctx.timer_service().register_processing_time_timer(1)  # Long due, and for the job to fire.


class Fire(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(COUNT)

    def process_element(self, value, ctx):
        yield ctx.get_current_key(), self.count.value()

    def on_timer(self, timestamp, ctx):
        yield f"{ctx.get_current_key()} at {timestamp}"


@pytest.mark.parametrize("made_with", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("restored_with", ["hashmap", "rocksdb"])
def test_keyed_state_and_timers_are_restored(tmp_path, made_with, restored_with):
    transformation = OperatorTransformation.bootstrap_with(Frame()).key_by(lambda row: row).transform(WriteCounts())
    location = make(tmp_path, transformation, [Batch([1, 2, 3], None, ["a", "b", "a"])], backend=made_with)
    assert sorted(LocalReader.at(location).read_keyed_state("made", COUNT)) == [("a", 4), ("b", 2)]
    with restored(location, ProcessOperator(Fire(), keyed=True), lambda value: value, restored_with) as harness:
        harness.process_element("a")
        harness.process_watermark(60)
        assert sorted(map(str, harness.output)) == sorted(["a at 1", "b at 1", "('a', 4)", "a at 50", "b at 50"])


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_windows_are_restored_and_fire_in_the_job(tmp_path, backend):
    assigner = TumblingEventTimeWindows.of(Time.seconds(10))
    windows = OperatorTransformation.bootstrap_with(Frame()).key_by(lambda row: row).window(assigner)
    transformation = windows.reduce(lambda one, other: one + other)
    batch = Batch([1, 2, 3, 4], [1_000, 2_000, 3_000, 15_000], ["a", "b", "a", "a"])
    location = make(tmp_path, transformation, [batch], backend=backend)
    found = LocalReader.at(location).window(assigner).reduce("made", lambda one, other: one + other)
    assert found == [("a", 4), ("a", 4), ("b", 2)]
    with restored(location, pickle.loads(dumps_by_value(transformation.operator)), lambda value: "a") as harness:
        harness.process_element(10, 4_000)
        harness.process_watermark(9_999)
        assert sorted(harness.output) == [2, 14]


def test_sessions_are_merged_while_they_are_made(tmp_path):
    assigner = EventTimeSessionWindows.with_gap(Time.seconds(5))
    windows = OperatorTransformation.bootstrap_with(Frame()).key_by(lambda row: row).window(assigner)
    batch = Batch([1, 2, 3], [1_000, 20_000, 4_000], ["a", "a", "a"])
    location = make(tmp_path, windows.reduce(lambda one, other: one + other), [batch])
    found = LocalReader.at(location).window(assigner).reduce("made", lambda one, other: one + other)
    assert found == [("a", 2), ("a", 4)]


class Buffered(StateBootstrapFunction):
    def initialize_state(self, context):
        store = context.get_operator_state_store()
        self.lines = store.get_list_state(ListStateDescriptor("lines", Types.STRING()))
        self.all = store.get_union_list_state(ListStateDescriptor("all", Types.PICKLED_BYTE_ARRAY()))
        self.count = 0

    def process_element(self, value, ctx):
        assert abs(ctx.current_processing_time() - 1000 * time.time()) < 1000 * ENOUGH_SECONDS
        self.lines.add(value)
        self.count += 1

    def snapshot_state(self, context):
        self.all.update([self.count])


def test_lists_of_all_subtasks_are_read(tmp_path):
    transformation = OperatorTransformation.bootstrap_with(Frame()).transform(Buffered())
    location = make(tmp_path, transformation, [Batch(["x", "y"]), Batch(["z"])], 2)
    reader = LocalReader.at(location)
    assert reader.read_list_state("made", "lines") == ["x", "y", "z"]
    assert reader.read_union_state("made", "all") == [1, 2]
    with pytest.raises(TypeError, match="state 'all' is union list state, not list state"):
        reader.read_list_state("made", "all")
    with pytest.raises(
        StateNotFoundError, match=r"no list state 'none'; it has 'lines' \(list\), 'all' \(union list\)"
    ):
        reader.read_list_state("made", "none")


RULES = MapStateDescriptor("rules", Types.STRING(), Types.INT())


class Rules(BroadcastStateBootstrapFunction):
    def process_element(self, value, ctx):
        assert abs(ctx.current_processing_time() - 1000 * time.time()) < 1000 * ENOUGH_SECONDS
        ctx.get_broadcast_state(RULES).put(*value)


def test_broadcast_state_is_made_and_read_once(tmp_path):
    transformation = OperatorTransformation.bootstrap_with(Frame()).transform(Rules())
    assert transformation.alone
    location = make(tmp_path, transformation, [Batch([("a", 1), ("b", 2), ("a", 3)])])
    assert LocalReader.at(location).read_broadcast_state("made", "rules") == [("a", 3), ("b", 2)]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("savepoint", [True, False])
def test_a_copy_has_the_same_state_and_needs_no_rocksdb(tmp_path, backend, savepoint):
    steps = Steps(tmp_path, state_backend=backend)
    steps.feed(RECORDS[:50]).store(1, savepoint)
    location = steps.feed(RECORDS[50:]).store(2, savepoint)
    steps.close()
    operator = opened(location).find("counts")
    copy = CopyState(b"", destination(tmp_path, "copy"))
    states = {subtask: copy.copy(subtask_share(operator, subtask)) for subtask in operator.state.subtasks}
    assert not any(isinstance(handle, DatabaseHandle) for state in states.values() for handle in state.keyed)
    kept = OperatorState("counts", "counts", 2, MAX_PARALLELISM, states)
    metadata = CheckpointMetadata(2, 0, "0" * 32, "a job", True, {operator.operator_id: kept})
    storage_at(str(tmp_path / "copy")).write(METADATA, metadata.to_bytes())
    os.rename(location, tmp_path / "gone")
    found = LocalReader.at(str(tmp_path / "copy")).read_keyed_state("counts", ReadAll())
    assert {key: (seen, event) for key, _, seen, _, event, _ in found} == {
        key: (values, {1000 + value for value in values}) for key, values in expected().items()
    }


def test_records_larger_than_a_block_arrive_whole_and_in_order():
    blocks = _Blocks(3)
    partitioner = KeyGroupPartitioner(lambda value: value[0])
    writer = make_writer(partitioner, range(2), MAX_PARALLELISM, blocks.add, ("made", 0))
    records = [(f"k{number}", bytes([number]) * (1_500_000 if number % 3 == 0 else 10)) for number in range(9)]
    for record in records:
        writer.process(Batch([record]))
    writer.flush()
    rows = blocks.take()
    for subtask in range(2):
        own = rows.filter(pa.compute.equal(rows.column(0), subtask))
        found = [pair for batch in keyed_batches(iter([own])) for pair in zip(batch.keys, batch.values, strict=True)]
        targets = subtasks([key for key, _ in records], MAX_PARALLELISM, 2)
        assert found == [
            (record[0], record) for record, target in zip(records, targets, strict=True) if target == subtask
        ]
    fragment = next(index for index, block in enumerate(rows.column(3).to_pylist()) if block[0] == 1)
    with pytest.raises(RuntimeError, match="incomplete"):
        list(keyed_batches(iter([rows.slice(fragment, 1)])))


def test_a_failure_of_the_users_code_is_among_the_rows():
    blocks = _Blocks(0)
    blocks.fail(user_fault(ValueError("no key"), "key_by", 0, "the record"))
    with pytest.raises(UserCodeError, match=r"(?s)no key.*the record"):
        list(keyed_batches(iter([blocks.take()])))


# --- what is refused, and the directory ---


def test_a_directory_is_owned_while_it_is_written(tmp_path):
    storage = storage_at(str(tmp_path / "new"))
    with _claimed(storage) as claim:
        with pytest.raises(FileExistsError, match="is not empty"), _claimed(storage):
            raise AssertionError
        storage.write("piece", b"1")
        storage.write("of an attempt that failed", b"2")
        claim.keep_only({"piece"})
    assert storage.names() == ["piece"]
    with pytest.raises(FileExistsError, match="is not empty"), _claimed(storage):
        raise AssertionError


def test_what_failed_leaves_nothing_and_what_is_foreign_stays(tmp_path):
    storage = storage_at(str(tmp_path / "new"))
    with pytest.raises(ValueError, match="went wrong"), _claimed(storage):
        storage.write("piece", b"1")
        raise ValueError("went wrong")
    assert storage.names() == []
    with pytest.raises(StorageError, match="taken over by another writer"), _claimed(storage):
        storage.write(CLAIM, b"somebody else")
        storage.write("theirs", b"1")
    assert storage.names() == [CLAIM, "theirs"]


def writer(**options):
    return SavepointWriter(Place(None), 128, None, **options)


def test_operators_of_a_savepoint_are_added_removed_and_renamed():
    one = OperatorTransformation.bootstrap_with(Frame()).transform(Rules())
    made = writer().with_operator("one", one).with_operator(OperatorIdentifier.for_uid("two"), one)
    with pytest.raises(ValueError, match="has an operator with the uid 'one' already: remove it first"):
        made.with_operator("one", one)
    made.remove_operator("two")
    assert [each.uid for each in made._made] == ["one"]
    with pytest.raises(StateNotFoundError, match="no operator with the uid 'two'; it has 'one'"):
        made.remove_operator("two")
    with pytest.raises(ValueError, match="has no operators"):
        writer().write("/nowhere")
    with pytest.raises(ValueError, match="maximum parallelism must be an integer from 1 to 32768, got 0"):
        SavepointWriter.new_savepoint(None, 0)
    with pytest.raises(TypeError, match="expected a SparkSession or a StreamExecutionEnvironment, got None"):
        SavepointWriter.new_savepoint(None, 128)


def test_identifiers_are_changed_at_last_and_all_at_once():
    one = OperatorTransformation.bootstrap_with(Frame()).transform(Rules())
    made = writer().change_operator_identifier("one", "two").change_operator_identifier("two", "one")
    made.with_operator("one", one).with_operator("two", one).with_operator("three", one)
    changed = {old.uid: made._changed().get(old.operator_id, old).uid for old in made._made}
    assert changed == {"one": "two", "two": "one", "three": "three"}
    with pytest.raises(ValueError, match="two operators would have the uid 'one'"):
        made.change_operator_identifier("three", "one").write("/nowhere")
    with pytest.raises(StateNotFoundError, match="change_operator_identifier: .* no operator with the uid 'five'"):
        made.change_operator_identifier("five", "six").write("/nowhere")


def test_functions_of_another_kind_are_refused():
    data = OperatorTransformation.bootstrap_with(Frame())
    with pytest.raises(TypeError, match=r"expected a StateBootstrapFunction.*call key_by\(\) before"):
        data.transform(WriteCounts())
    with pytest.raises(TypeError, match="expected a KeyedStateBootstrapFunction, got <"):
        data.key_by(lambda row: row).transform(Rules())
    with pytest.raises(TypeError, match="expected a Spark DataFrame or a DataStream, got"):
        OperatorTransformation.bootstrap_with([1, 2])
    with pytest.raises(TypeError, match="expected a StateBootstrapTransformation, got"):
        writer().with_operator("one", Rules())
    with pytest.raises(TypeError, match="expected a TimestampAssigner"):
        data.assign_timestamps(lambda value: 1)
