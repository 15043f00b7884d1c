"""Writers: how each partitioner spreads records over channels."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.common import Types
from flintstream.common.canonical_keys import canonical_key
from flintstream.common.keys import key_group, subtask_for_group
from flintstream.graph.partitioners import (
    BroadcastPartitioner,
    CustomPartitioner,
    ForwardPartitioner,
    GlobalPartitioner,
    KeyGroupPartitioner,
    RebalancePartitioner,
    RescalePartitioner,
    ShufflePartitioner,
    StreamPartitioner,
)
from flintstream.runtime import block as block_module
from flintstream.runtime.batch import MAX_WATERMARK, Batch
from flintstream.runtime.block import EndOfInput, Idleness, LatencyMarker, Watermark, decode_block
from flintstream.runtime.faults import UserCodeError
from flintstream.runtime.slot.writers import Routes, Writer, make_writer


class Channels:
    """A writer and what arrives in each of its channels."""

    def __init__(
        self,
        partitioner: StreamPartitioner,
        targets: int | list[int],
        subtask: int = 0,
        max_parallelism: int = 128,
    ) -> None:
        indexes = list(range(targets)) if isinstance(targets, int) else targets
        self.blocks: dict[int, list[bytes]] = {target: [] for target in indexes}
        self.writer: Writer = make_writer(
            partitioner,
            indexes,
            max_parallelism,
            lambda target, data: self.blocks[target].append(data),
            ("Sender", subtask),
        )

    def send(self, values: list[Any], timestamps: list[int] | None = None) -> Channels:
        self.writer.process(Batch(values, timestamps))
        return self

    def received(self) -> dict[int, list[Any]]:
        """Values and control elements in the order of arrival."""
        self.writer.flush()
        result: dict[int, list[Any]] = {}
        for target, blocks in self.blocks.items():
            result[target] = []
            for batch, controls in map(decode_block, blocks):
                values: list[Any] = list(batch.values)
                for offset, (place, element) in enumerate(controls or []):
                    values.insert(place + offset, element)
                result[target] += values
        return result

    def column(self, name: str) -> dict[int, list[Any]]:
        self.writer.flush()
        return {
            target: [item for data in blocks for item in getattr(decode_block(data)[0], name) or []]
            for target, blocks in self.blocks.items()
        }


def first(value: Any) -> Any:
    return value[0]


def identity(value: Any) -> Any:
    return value


class TestRoundRobin:
    @pytest.mark.parametrize("partitioner", [RebalancePartitioner(), RescalePartitioner()])
    def test_in_turn_across_batches(self, partitioner: StreamPartitioner) -> None:
        channels = Channels(partitioner, 3)
        for batch in ([0, 1], [2], [], [3, 4, 5, 6, 7, 8]):
            channels.send(batch)
        assert channels.received() == {0: [0, 3, 6], 1: [1, 4, 7], 2: [2, 5, 8]}

    def test_the_subtask_decides_who_is_first(self) -> None:
        assert Channels(RebalancePartitioner(), 3, subtask=1).send([0, 1, 2]).received() == {
            0: [2],
            1: [0],
            2: [1],
        }
        assert Channels(RebalancePartitioner(), 3, subtask=4).send([0]).received()[1] == [0]

    def test_rescale_writes_to_its_own_targets_only(self) -> None:
        assert Channels(RescalePartitioner(), [2, 3]).send([0, 1, 2]).received() == {2: [0, 2], 3: [1]}

    @given(st.lists(st.lists(st.integers(-99, 99), max_size=10), max_size=10), st.integers(2, 5))
    def test_batching_does_not_matter(self, batches: list[list[int]], targets: int) -> None:
        channels = Channels(RebalancePartitioner(), targets)
        for batch in batches:
            channels.send(batch, batch)
        everything = [value for batch in batches for value in batch]
        expected = {target: everything[target::targets] for target in range(targets)}
        assert channels.received() == expected
        assert channels.column("timestamps") == expected


def test_forward_has_one_channel() -> None:
    assert Channels(ForwardPartitioner(), [4]).send([1, 2]).send([3], [9]).received() == {4: [1, 2, 3]}


def test_global_writes_to_the_first_only() -> None:
    channels = Channels(GlobalPartitioner(), 3).send([1, 2])
    channels.writer.process_watermark(5)
    assert channels.received() == {0: [1, 2, Watermark(5)], 1: [Watermark(5)], 2: [Watermark(5)]}


def test_shuffle_reaches_all_and_loses_none() -> None:
    channels = Channels(ShufflePartitioner(), 4).send(list(range(4000)), list(range(4000)))
    received = channels.received()
    assert sorted(value for values in received.values() for value in values) == list(range(4000))
    assert all(values == sorted(values) for values in received.values()), "order within a channel is kept"
    assert all(800 < len(values) < 1200 for values in received.values())
    assert channels.column("timestamps") == received


class TestBroadcast:
    def test_everything_to_everyone(self) -> None:
        channels = Channels(BroadcastPartitioner(), 3).send([1, 2], [8, 9])
        channels.writer.process_watermark(9)
        assert channels.received() == {i: [1, 2, Watermark(9)] for i in range(3)}
        assert channels.column("timestamps") == {i: [8, 9] for i in range(3)}

    def test_each_block_is_encoded_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        encoded: list[int] = []
        encode = block_module.encode_block

        def counting(batch: Batch, controls: Any = None) -> bytes:
            encoded.append(len(batch))
            return encode(batch, controls)

        monkeypatch.setattr(block_module, "encode_block", counting)
        channels = Channels(BroadcastPartitioner(), 5).send([1, 2, 3])
        channels.received()
        assert encoded == [3]
        assert all(blocks == channels.blocks[0] for blocks in channels.blocks.values())


class TestKeyGroups:
    def test_a_key_goes_to_the_owner_of_its_group(self) -> None:
        records = [(f"user-{i % 50}", i) for i in range(500)]
        channels = Channels(KeyGroupPartitioner(first), 3).send(records)
        received = channels.received()
        for target, values in received.items():
            assert values, "50 keys reach all of 3 subtasks"
            for value in values:
                assert subtask_for_group(key_group(value[0], 128), 128, 3) == target
        assert Counter(value for values in received.values() for value in values) == Counter(records)

    def test_keys_and_timestamps_travel_along_in_order(self) -> None:
        records = [(i % 7, i) for i in range(100)]
        channels = Channels(KeyGroupPartitioner(first), 2).send(records, list(range(1000, 1100)))
        values, keys, times = channels.received(), channels.column("keys"), channels.column("timestamps")
        for target in values:
            assert keys[target] == [value[0] for value in values[target]]
            assert times[target] == [1000 + value[1] for value in values[target]]
            assert times[target] == sorted(times[target])

    def test_one_target_gets_keys_too(self) -> None:
        channels = Channels(KeyGroupPartitioner(first), 1).send([("a", 1), ("b", 2)])
        assert channels.column("keys") == {0: ["a", "b"]}

    def test_the_targets_max_parallelism_counts(self) -> None:
        channels = Channels(KeyGroupPartitioner(identity), 3, max_parallelism=3).send(list(range(50)))
        assert all(key_group(value, 3) == target for target, vs in channels.received().items() for value in vs)

    def test_equal_keys_of_different_types_meet(self) -> None:
        channels = Channels(KeyGroupPartitioner(identity), 4).send([1, True, 1.0])
        assert sorted(map(len, channels.received().values())) == [0, 0, 0, 3]

    @pytest.mark.parametrize("limit", [1 << 17, 1])
    @pytest.mark.parametrize("make", [lambda: float("nan"), lambda: ("a", float("nan")), lambda: [1]])
    def test_keys_that_are_known_by_their_value_meet(self, make: Any, limit: int, monkeypatch: Any) -> None:
        """Also among others, when these are known already, and when there are too many to be known."""
        from flintstream.runtime.slot import writers

        monkeypatch.setattr(writers, "_ROUTES_LIMIT", limit)
        channels = Channels(KeyGroupPartitioner(identity), 3)
        for _ in range(3):
            channels.send([*range(300), make(), 2.5, "a"])
        found = [key for keys in channels.column("keys").values() for key in keys]
        assert len(found) == 909
        assert Counter(found)[canonical_key(make())] == 3

    def test_a_key_selector_object_and_a_declared_key_type(self) -> None:
        class Selector:
            def get_key(self, value: Any) -> Any:
                return value[0], value[1]

        partitioner = KeyGroupPartitioner(Selector(), Types.ROW([Types.INT(), Types.STRING()]))
        keys = Channels(partitioner, 1).send([(1, "a", 9)]).column("keys")[0]
        assert type(keys[0]).__name__ == "Row"

    def test_the_memory_of_routes_is_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from flintstream.runtime.slot import writers

        monkeypatch.setattr(writers, "_ROUTES_LIMIT", 10)
        channels = Channels(KeyGroupPartitioner(identity), 2)
        expected: dict[int, list[int]] = {0: [], 1: []}
        for _ in range(2):
            channels.send(list(range(100)))
            for key in range(100):
                expected[subtask_for_group(key_group(key, 128), 128, 2)].append(key)
        assert len(channels.writer._routes._known) <= 10  # type: ignore[attr-defined]
        assert channels.received() == expected

    def test_routes_are_the_same_known_or_not(self) -> None:
        routes = Routes(128, 3)
        for keys in (
            [5],
            list(range(20)),
            list(range(100)),
            [5, "a"],
            [("x", 1), 2.0, 5, "a"] * 100,
            list(range(1000)),
        ):
            expected = [subtask_for_group(key_group(key, 128), 128, 3) for key in keys]
            assert routes.targets(keys) == routes.targets(keys) == expected

    def test_a_failing_selector_names_operator_and_record(self) -> None:
        with pytest.raises(UserCodeError) as error:
            Channels(KeyGroupPartitioner(first), 2, subtask=1).send([(1, 2), (), (3, 4)])
        fault = error.value.fault
        assert (fault.operator, fault.subtask, fault.record) == ("key_by", 1, "()")
        assert "IndexError" in fault.summary

    @pytest.mark.parametrize("targets", [1, 2])
    @pytest.mark.parametrize(("key", "complaint"), [(None, "cannot be None"), (range(1), "use a tuple instead")])
    def test_a_key_that_cannot_be_one_names_its_record(self, targets: int, key: Any, complaint: str) -> None:
        records = [(1, "fine"), (key, "bad"), (2, "fine")]
        with pytest.raises(UserCodeError, match=complaint) as error:
            Channels(KeyGroupPartitioner(first), targets).send(records)
        assert error.value.fault.record == repr(records[1])

    def test_a_key_that_does_not_fit_its_declared_type(self) -> None:
        with pytest.raises(UserCodeError, match="'x'"):
            Channels(KeyGroupPartitioner(identity, Types.INT()), 2).send([1, "x", 2])


class TestCustom:
    def test_the_partitioner_decides(self) -> None:
        partitioner = CustomPartitioner(lambda key, count: key % count, first)
        channels = Channels(partitioner, 3).send([(5, "a"), (3, "b"), (8, "c")], [1, 2, 3])
        assert channels.received() == {0: [(3, "b")], 1: [], 2: [(5, "a"), (8, "c")]}
        assert channels.column("timestamps") == {0: [2], 1: [], 2: [1, 3]}

    def test_objects_with_methods(self) -> None:
        class ByLength:
            def partition(self, key: str, num_partitions: int) -> int:
                return len(key) % num_partitions

        channels = Channels(CustomPartitioner(ByLength(), identity), 2).send(["a", "bb"])  # type: ignore[arg-type]
        assert channels.received() == {0: ["bb"], 1: ["a"]}

    def test_also_with_a_single_target_its_answer_is_checked(self) -> None:
        with pytest.raises(UserCodeError, match="from 0 to 0"):
            Channels(CustomPartitioner(lambda key, count: 1, identity), 1).send([1])

    @pytest.mark.parametrize("answer", [-1, 3, None, 1.0, "1"])
    def test_an_answer_out_of_range_names_answer_and_record(self, answer: Any) -> None:
        partitioner = CustomPartitioner(lambda key, count: answer if key == "bad" else 0, identity)
        with pytest.raises(UserCodeError, match="it must return an integer from 0 to 2") as error:
            Channels(partitioner, 3).send(["fine", "bad", "fine"])
        fault = error.value.fault
        assert (fault.operator, fault.record) == ("Sender", "'bad'")
        assert repr(answer) in fault.summary

    def test_an_index_of_another_integer_type_is_fine(self) -> None:
        numpy = pytest.importorskip("numpy")
        channels = Channels(CustomPartitioner(lambda key, count: numpy.int64(1), identity), 2).send(["a"])
        assert channels.received() == {0: [], 1: ["a"]}

    def test_an_exception_of_the_partitioner(self) -> None:
        with pytest.raises(UserCodeError, match="ZeroDivisionError") as error:
            Channels(CustomPartitioner(lambda key, count: 1 // key, identity), 2).send([1, 0, 1])
        assert error.value.fault.record == "0"


@pytest.mark.parametrize(
    "partitioner",
    [
        ForwardPartitioner(),
        RebalancePartitioner(),
        RescalePartitioner(),
        ShufflePartitioner(),
        BroadcastPartitioner(),
        GlobalPartitioner(),
        KeyGroupPartitioner(identity),
        CustomPartitioner(lambda key, count: key % count, identity),
    ],
    ids=str,
)
class TestEveryWriter:
    def test_control_elements_go_to_every_channel_behind_the_records(self, partitioner: StreamPartitioner) -> None:
        targets = [0] if isinstance(partitioner, ForwardPartitioner) else [0, 1]
        channels = Channels(partitioner, targets).send(list(range(40)))
        channels.writer.process_watermark(5)
        channels.writer.process_idleness(True)
        channels.writer.finish()
        tail = [Watermark(5), Idleness(True), Watermark(MAX_WATERMARK), EndOfInput()]
        assert all(received[-4:] == tail for received in channels.received().values())

    def test_a_latency_marker_goes_to_one_channel_behind_the_records(self, partitioner: StreamPartitioner) -> None:
        targets = [0] if isinstance(partitioner, ForwardPartitioner) else [0, 1]
        channels = Channels(partitioner, targets).send(list(range(40)))
        markers = [LatencyMarker(number, "a" * 32, 0) for number in range(60)]
        for marker in markers:
            channels.writer.process_latency_marker(marker)
        assert channels.writer.buffered != isinstance(partitioner, BroadcastPartitioner)
        channels.send([40, 41])
        received = channels.received()
        assert not channels.writer.buffered
        found = {
            target: [each for each in all_ if isinstance(each, LatencyMarker)] for target, all_ in received.items()
        }
        assert sorted(each for some in found.values() for each in some) == markers
        assert all(some for some in found.values()), "by chance"
        for all_ in received.values():
            records = [each for each in all_ if not isinstance(each, LatencyMarker)]
            first = next(place for place, each in enumerate(all_) if isinstance(each, LatencyMarker))
            assert all_[:first] == [each for each in records if each < 40]

    def test_records_with_and_without_timestamps(self, partitioner: StreamPartitioner) -> None:
        targets = [0] if isinstance(partitioner, ForwardPartitioner) else [0, 1]
        channels = Channels(partitioner, targets)
        channels.send(list(range(10))).send(list(range(10, 20)), list(range(10, 20))).send([20, 21])
        values = channels.received()
        copies = 2 if isinstance(partitioner, BroadcastPartitioner) else 1
        assert sorted(v for vs in values.values() for v in vs) == sorted(list(range(22)) * copies)
        assert all(vs == sorted(vs) for vs in values.values())
        times = channels.column("timestamps")
        assert sorted(t for ts in times.values() for t in ts) == sorted(list(range(10, 20)) * copies)

    def test_the_batch_is_left_as_it_is(self, partitioner: StreamPartitioner) -> None:
        targets = [0] if isinstance(partitioner, ForwardPartitioner) else [0, 1]
        channels = Channels(partitioner, targets)
        batch = Batch([1, 2, 3], [1, 2, 3])
        channels.writer.process(batch)
        channels.send([4], [4]).received()
        assert (batch.values, batch.timestamps, batch.keys) == ([1, 2, 3], [1, 2, 3], None)
