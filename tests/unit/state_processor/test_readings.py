"""Stored state is read back whole, by shares, from savepoints and checkpoints of both backends; nothing needs Spark."""

from __future__ import annotations

import pytest
from tests.unit.state_processor.savepoints import BY_KIND, COUNT, SEEN, Steps, opened

from flintstream.common import Types
from flintstream.common.time import Time
from flintstream.datastream import KeyedProcessFunction
from flintstream.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from flintstream.runtime.faults import UserCodeError
from flintstream.runtime.operators.process import ProcessOperator
from flintstream.runtime.state.backend import StateMigrationException
from flintstream.state_processor import KeyedStateReaderFunction, OperatorIdentifier, StateKindError, StateNotFoundError
from flintstream.state_processor import shares as shares_module
from flintstream.state_processor.reader import Place, SavepointReader
from flintstream.state_processor.readings import CHUNK, EntryReading, KeyedReading
from flintstream.state_processor.savepoint import declared_type
from flintstream.state_processor.shares import declarations, keyed_shares

RECORDS = [(f"k{number % 40}", number) for number in range(100)]


def expected():
    found = {}
    for key, value in RECORDS:
        found.setdefault(key, []).append(value)
    return found


class ReadAll(KeyedStateReaderFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(COUNT)
        self.seen = runtime_context.get_list_state(SEEN)
        self.by_kind = runtime_context.get_map_state(BY_KIND)

    def read_key(self, key, ctx, out):
        event, processing = ctx.registered_event_time_timers(), ctx.registered_processing_time_timers()
        out.collect((key, self.count.value(), list(self.seen.get()), dict(self.by_kind.items()), event, processing))


STORED = ["savepoint", "savepoint of rocksdb", "checkpoint", "changes", "rocksdb", "changes of rocksdb"]


@pytest.fixture(params=STORED)
def location(request, tmp_path):
    """The same state, stored in each way."""
    steps = Steps(tmp_path, state_backend="rocksdb" if "rocksdb" in request.param else "hashmap")
    if "changes" in request.param:
        steps.feed(RECORDS[:60]).store(1, savepoint=False)
        stored = steps.feed(RECORDS[60:]).store(2, savepoint=False)
    else:
        stored = steps.feed(RECORDS).store(1, savepoint="savepoint" in request.param)
    steps.close()
    return stored


def read(location, reading, uid="counts", **options):
    operator = opened(location).find(uid)
    return [value for share in keyed_shares(operator, **options) for part in reading.chunks(share) for value in part]


@pytest.mark.parametrize("share_bytes", [1, 1 << 24])
def test_every_key_is_read_once_with_its_states_and_timers(location, share_bytes, monkeypatch):
    monkeypatch.setattr(shares_module, "_SHARE_BYTES", share_bytes)
    found = read(location, KeyedReading.of(ReadAll()))
    assert len(found) == 40
    for key, count, seen, by_kind, event, processing in found:
        values = expected()[key]
        assert (count, seen) == (len(values), values)
        assert by_kind == {"even" if value % 2 == 0 else "odd": value for value in values}
        assert event == {1000 + value for value in values}
        assert processing == {10**15 + value for value in values}


def test_a_database_is_divided_among_tasks(tmp_path):
    steps = Steps(tmp_path, parallelism=2, state_backend="rocksdb").feed(RECORDS)
    location = steps.store(1, savepoint=False)
    steps.close()
    assert len(keyed_shares(opened(location).find("counts"), 1)) == 2
    assert len(keyed_shares(opened(location).find("counts"), 8)) == 8
    assert sorted(read(location, EntryReading("count"), databases_at_least=8)) == sorted(
        (key, len(values)) for key, values in expected().items()
    )


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_the_entries_of_a_state_are_read_by_its_descriptor(location, backend):
    assert dict(read(location, EntryReading("count", COUNT, backend))) == {
        key: len(values) for key, values in expected().items()
    }
    assert dict(read(location, EntryReading("seen", SEEN, backend))) == expected()
    assert dict(read(location, EntryReading("by kind", None, backend)))["k1"] == {"odd": 81}


def test_entries_are_converted_to_a_wider_type(location):
    wider = ListStateDescriptor("seen", Types.LONG())
    assert dict(read(location, EntryReading("seen", wider))) == expected()


def test_a_state_of_another_kind_or_type_is_refused(location):
    operator = opened(location).find("counts")
    with pytest.raises(StateMigrationException, match="'count' was a value state, and is declared as a list state"):
        list(EntryReading("count", ListStateDescriptor("count", Types.LONG())).chunks(declarations(operator)))
    with pytest.raises(StateMigrationException, match="'count'.*Long.*String"):
        list(EntryReading("count", ValueStateDescriptor("count", Types.STRING())).chunks(declarations(operator)))
    with pytest.raises(StateKindError, match="state 'count' is value state, not map state"):
        operator.check_keyed_state("count", "map")


def test_what_does_not_exist_is_refused_with_what_does(location):
    savepoint = opened(location)
    with pytest.raises(StateNotFoundError, match=r"has no operator with the uid 'other'; it has 'counts'"):
        savepoint.find("other")
    with pytest.raises(StateNotFoundError, match=r"no keyed state 'sum'; it has 'count' \(value\), 'seen' \(list\)"):
        savepoint.find("counts").check_keyed_state("sum")
    with pytest.raises(StateKindError, match="'count' is keyed value state: read it with read_keyed_state"):
        savepoint.find("counts").check_operator_state("count", "split")
    by_hash = OperatorIdentifier.for_uid_hash(OperatorIdentifier.for_uid("counts").operator_id.upper())
    assert savepoint.find(by_hash).state.uid == "counts"
    with pytest.raises(FileNotFoundError, match="nowhere is not a checkpoint, a savepoint"):
        opened("/nowhere")


def test_the_stored_types_are_known(location):
    states = opened(location).find("counts").keyed_states()
    assert {name: str(declared_type(states[name].serializer)) for name in ("count", "seen")} == {
        "count": str(Types.LONG()),
        "seen": str(Types.LIST(Types.INT())),
    }


class ReadTimers(KeyedStateReaderFunction):
    def read_key(self, key, ctx, out):
        yield key, len(ctx.registered_event_time_timers())


def test_without_states_the_keys_with_timers_are_read_and_results_may_be_yielded(location):
    assert dict(read(location, KeyedReading.of(ReadTimers()))) == {
        key: len(values) for key, values in expected().items()
    }


class Many(ReadAll):
    def read_key(self, key, ctx, out):
        yield from range(3000)


def test_no_more_than_some_results_are_held_at_a_time(location):
    shares = keyed_shares(opened(location).find("counts"))
    sizes = [len(part) for share in shares for part in KeyedReading.of(Many()).chunks(share)]
    assert sum(sizes) == 40 * 3000
    assert max(sizes) < CHUNK + 3000


def test_a_dataframe_needs_types(tmp_path):
    steps = Steps(tmp_path).feed(RECORDS)
    reader = SavepointReader(opened(steps.store()), Place(None))
    steps.close()
    with pytest.raises(TypeError, match=r"state 'count': the columns key and value need types"):
        reader.read_keyed_state("counts", COUNT)
    with pytest.raises(TypeError, match=r"read_keyed_state: operator .*: ReadAll: a DataFrame needs the type"):
        reader.read_keyed_state("counts", ReadAll())
    with pytest.raises(TypeError, match="expected a type such as Types.LONG"):
        reader.read_keyed_state("counts", COUNT, int)
    with pytest.raises(TypeError, match="expected a KeyedStateReaderFunction or a state descriptor, got 'count'"):
        reader.read_keyed_state("counts", "count")


class Failing(ReadAll):
    def read_key(self, key, ctx, out):
        raise ValueError("no such luck")


def test_a_failure_names_operator_and_key(location):
    with pytest.raises(UserCodeError, match=r"(?s)the counts.*k\d+.*no such luck"):
        read(location, KeyedReading.of(Failing()))


AN_HOUR, FOR_EVER = (StateTtlConfig.new_builder(time).build() for time in (Time.hours(1), Time.days(1_000_000)))


def test_expired_entries_are_left_out_and_times_are_not_shown(tmp_path):
    descriptor = MapStateDescriptor("last", Types.STRING(), Types.INT())
    descriptor.enable_time_to_live(FOR_EVER)
    short = ReducingStateDescriptor("sum", lambda one, other: one + other, Types.INT())
    short.enable_time_to_live(AN_HOUR)

    class Expiring(KeyedProcessFunction):
        def open(self, runtime_context):
            self.last = runtime_context.get_map_state(descriptor)
            self.sum = runtime_context.get_reducing_state(short)

        def process_element(self, value, ctx):
            self.last.put("last", value)
            self.sum.add(value)

    steps = Steps(tmp_path, lambda: ProcessOperator(Expiring(), keyed=True), clock=lambda: 0).feed(RECORDS)
    location = steps.store()
    steps.close()
    assert dict(read(location, EntryReading("last", descriptor)))["k1"] == {"last": 81}
    assert dict(read(location, EntryReading("last")))["k1"] == {"last": 81}
    assert read(location, EntryReading("sum", short)) == []
    assert len(read(location, EntryReading("sum"))) == 40
