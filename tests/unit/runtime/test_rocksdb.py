"""What only the RocksDB backend has: options, checkpoints by file, its own clean-up."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from weakref import WeakSet

import pytest
from tests.waiting import wait_until

from flintstream.common import Row, Types
from flintstream.common.keys import key_group, key_group_range
from flintstream.common.serializer import TypeSerializer
from flintstream.common.time import Time
from flintstream.datastream import KeyedProcessFunction
from flintstream.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from flintstream.runtime.state.backend import StateMigrationException
from flintstream.runtime.state.rocksdb.backend import RocksDBKeyedStateBackend
from flintstream.runtime.state.rocksdb.checkpoint import RocksDBCheckpoint
from flintstream.runtime.state.rocksdb.codec import group_prefix
from flintstream.runtime.state.rocksdb.options import RocksDBOptions
from flintstream.runtime.state.rocksdb.store import Store, slot_memory
from flintstream.runtime.state.rocksdb.table import CachedTable
from flintstream.testing import OneInputOperatorHarness

GROUPS = 32
COUNT = ValueStateDescriptor("count", Types.LONG())
SEEN = ListStateDescriptor("seen", Types.STRING())
Make = Callable[..., RocksDBKeyedStateBackend]


@pytest.fixture
def make(tmp_path: Path) -> Any:
    """Makes backends that are closed behind the test."""
    made: list[RocksDBKeyedStateBackend] = []

    def make(key_groups: range | None = None, clock: Callable[[], int] = lambda: 0) -> RocksDBKeyedStateBackend:
        directory = str(tmp_path / f"db-{len(made)}")
        made.append(
            RocksDBKeyedStateBackend(
                "my operator", GROUPS, clock, key_groups, directory, RocksDBOptions(memory=1 << 20)
            )
        )
        return made[-1]

    yield make
    for backend in made:
        backend.close()


def count_up(backend: RocksDBKeyedStateBackend, keys: Any) -> None:
    keys = list(keys)
    state = backend.value_state(COUNT)
    backend.touch(keys)
    for key in keys:
        backend.current_key = key
        state.update((state.value() or 0) + 1)


def counts(backend: RocksDBKeyedStateBackend) -> dict[Any, Any]:
    backend.value_state(COUNT)
    return dict(backend.table("count").items())


def evict(backend: RocksDBKeyedStateBackend) -> None:
    for table in backend._tables.values():
        table.evict(1.0, set())


def touch_until_clean(backend: RocksDBKeyedStateBackend) -> None:
    """Processes blocks of another key until no round of the cleanup is due."""
    while any(rounds.due_in() <= 0 for rounds in backend._cleanup._rounds):
        backend._cleanup._not_before = 0.0
        backend.touch(["other"] * 10)


class TestOptions:
    def test_of_flink(self) -> None:
        options = RocksDBOptions.from_configuration(
            {
                "state.backend.rocksdb.memory.fixed-per-slot": "100mb",
                "state.backend.rocksdb.memory.write-buffer-ratio": "0.2",
                "state.backend.rocksdb.writebuffer.size": "8 mb",
                "state.backend.rocksdb.writebuffer.count": "3",
                "state.backend.rocksdb.block.blocksize": "16kb",
                "state.backend.rocksdb.thread.num": "1",
                "state.backend.rocksdb.compaction.style": "universal",
                "state.backend.rocksdb.use-bloom-filter": "false",
                "state.backend.rocksdb.localdir": "/disk1,file:///disk2",
                "state.backend.rocksdb.metrics.block-cache-usage": "true",
                "state.backend.type": "rocksdb",
            }
        )
        assert options == RocksDBOptions(
            memory=100 << 20,
            write_buffer_ratio=0.2,
            write_buffer_size=8 << 20,
            write_buffers=3,
            block_size=16 << 10,
            threads=1,
            compaction_style="UNIVERSAL",
            bloom_bits=0,
            storage_paths=("/disk1", "/disk2"),
        )
        assert options.entry_cache_bytes == 50 << 20
        assert options.write_buffer_bytes == 10 << 20
        assert options.block_cache_bytes == 40 << 20

    def test_the_paths_are_taken_in_turn(self) -> None:
        options = RocksDBOptions(storage_paths=("/a", "/b"))
        assert [options.storage_path(subtask, "/tmp") for subtask in range(3)] == ["/a", "/b", "/a"]
        assert RocksDBOptions().storage_path(0, "/tmp") == "/tmp"

    @pytest.mark.parametrize(
        "name", ["DEFAULT", "SPINNING_DISK_OPTIMIZED", "SPINNING_DISK_OPTIMIZED_HIGH_MEM", "FLASH_SSD_OPTIMIZED"]
    )
    def test_predefined_ones_can_be_changed(self, name: str, tmp_path: Path) -> None:
        given = {"state.backend.rocksdb.predefined-options": name, "state.backend.rocksdb.block.cache-size": "1mb"}
        options = RocksDBOptions.from_configuration(given)
        assert options == replace(RocksDBOptions.predefined(name), block_cache=1 << 20)
        backend = RocksDBKeyedStateBackend("my operator", GROUPS, lambda: 0, None, str(tmp_path / "db"), options)
        count_up(backend, [1, 1])
        evict(backend)
        assert counts(backend) == {1: 2}
        backend.close()

    @pytest.mark.parametrize(
        ("key", "value", "message"),
        [
            ("memory.fixed-per-slot", "much", "'much' of 'state.backend.rocksdb.memory.fixed-per-slot'"),
            ("memory.fixed-per-slot", "10 kb", "'state.backend.rocksdb.memory.fixed-per-slot' must be at least 1 mb"),
            ("memory.write-buffer-ratio", "1.5", "between 0 and 1, got 1.5"),
            ("compaction.style", "FIFO", "'state.backend.rocksdb.compaction.style' must be one of LEVEL, UNIVERSAL"),
            ("predefined-options", "FAST", "'state.backend.rocksdb.predefined-options' must be one of DEFAULT"),
            ("localdir", "here", "absolute local directories, got 'here'"),
            ("thread.num", "0", "'state.backend.rocksdb.thread.num' must be at least 1, got 0"),
            (
                "blok.cache-size",
                "1mb",
                "did you mean 'state.backend.rocksdb.block.cache-size'",
            ),
        ],
    )
    def test_mistakes_are_told(self, key: str, value: str, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            RocksDBOptions.from_configuration({f"state.backend.rocksdb.{key}": value})

    def test_backends_of_a_slot_share_the_memory(self, make: Make) -> None:
        first = make()
        memory = slot_memory(RocksDBOptions(memory=1 << 20))
        memory.users = WeakSet([first])  # Backends of other tests may not have been collected yet.
        whole = memory.entry_bytes
        second = make()
        assert memory.entry_bytes * 2 == whole
        second.close()
        assert memory.entry_bytes == whole
        count_up(first, [1])


class TestCheckpoints:
    def take(self, backend: RocksDBKeyedStateBackend, place: Path) -> RocksDBCheckpoint:
        return backend.checkpoint(str(place))

    def test_files_that_never_change_have_an_identity(self, make: Make, tmp_path: Path) -> None:
        backend = make()
        count_up(backend, range(100))
        first = self.take(backend, tmp_path / "chk-1")
        count_up(backend, range(5))
        second = self.take(backend, tmp_path / "chk-2")
        kept, new = ({file.identity for file in each.files} - {None} for each in (first, second))
        assert len(kept) == 1
        assert kept < new, "the file of the first checkpoint is in the second one too"
        assert {file.name for file in first.files} == set(os.listdir(tmp_path / "chk-1"))
        assert all((file.identity is not None) == file.name.endswith(".sst") for file in second.files)

    def test_a_restored_backend_goes_on_with_the_same_files(self, make: Make, tmp_path: Path) -> None:
        backend = make()
        count_up(backend, range(100))
        taken = self.take(backend, tmp_path / "chk-1")
        after = make()
        after.restore([taken])
        count_up(after, range(5))
        again = self.take(after, tmp_path / "chk-2")
        identities = [{file.identity for file in each.files} - {None} for each in (taken, again)]
        assert identities[0] < identities[1]
        other = make()
        other.restore([taken])
        count_up(other, range(5))
        elsewhere = self.take(other, tmp_path / "chk-3")
        assert {file.identity for file in elsewhere.files} & (identities[1] - identities[0]) == set(), (
            "files of one name in two databases are not the same"
        )

    def test_is_not_changed_by_what_follows(self, make: Make, tmp_path: Path) -> None:
        backend = make()
        count_up(backend, range(100))
        taken = self.take(backend, tmp_path / "chk-1")
        for _ in range(3):
            count_up(backend, range(100))
            evict(backend)
        backend.close()
        for _ in range(2):
            after = make()
            after.restore([taken])
            count_up(after, [0])
            assert counts(after) == {0: 2, **dict.fromkeys(range(1, 100), 1)}

    @pytest.mark.parametrize(("before", "now"), [(1, 1), (1, 3), (3, 1), (2, 3), (3, 2), (4, 4)])
    def test_restored_in_any_parallelism(self, before: int, now: int, make: Make, tmp_path: Path) -> None:
        keys = [*range(200), *(f"key {number}" for number in range(200))]
        taken = []
        for subtask in range(before):
            groups = key_group_range(GROUPS, before, subtask)
            backend = make(groups)
            if subtask % 2:
                backend.list_state(SEEN)  # So that subtasks have different numbers for their states.
            count_up(backend, [key for key in keys if key_group(key, GROUPS) in groups])
            seen = backend.list_state(SEEN)
            backend.current_key = next(key for key in keys if key_group(key, GROUPS) in groups)
            seen.add(f"subtask {subtask}")
            taken.append(self.take(backend, tmp_path / f"chk-{subtask}"))
        found: dict[Any, Any] = {}
        texts: list[Any] = []
        for subtask in range(now):
            groups = key_group_range(GROUPS, now, subtask)
            backend = make(groups)
            backend.restore(taken)
            mine = counts(backend)
            assert all(key_group(key, GROUPS) in groups for key in mine)
            assert not mine.keys() & found.keys()
            found.update(mine)
            backend.list_state(SEEN)
            texts += backend.table("seen").values()
            count_up(backend, mine)
            assert counts(backend) == dict.fromkeys(mine, 2)
        assert found == dict.fromkeys(keys, 1)
        assert sorted(texts) == [[f"subtask {subtask}"] for subtask in range(before)]

    def test_what_moved_away_and_was_removed_there_does_not_come_back(self, make: Make, tmp_path: Path) -> None:
        whole = make()
        count_up(whole, range(100))
        taken = [self.take(whole, tmp_path / "chk-1")]
        halves = []
        for subtask in range(2):
            groups = key_group_range(GROUPS, 2, subtask)
            backend = make(groups)
            backend.restore(taken)
            if subtask:
                backend.value_state(COUNT)
                backend.table("count").clear()
            else:
                count_up(backend, [key for key in range(100) if key_group(key, GROUPS) in groups])
            halves.append(self.take(backend, tmp_path / f"chk-2-{subtask}"))
        after = make()
        after.restore(halves)
        first = key_group_range(GROUPS, 2, 0)
        assert counts(after) == {key: 2 for key in range(100) if key_group(key, GROUPS) in first}

    def test_state_that_nobody_asks_for_is_kept(self, make: Make, tmp_path: Path) -> None:
        backend = make()
        count_up(backend, range(10))
        between = make()
        between.restore([self.take(backend, tmp_path / "chk-1")])
        after = make()
        after.restore([self.take(between, tmp_path / "chk-2")])
        assert counts(after) == dict.fromkeys(range(10), 1)

    def test_an_empty_one(self, make: Make, tmp_path: Path) -> None:
        taken = self.take(make(), tmp_path / "chk-1")
        after = make()
        after.restore([taken])
        count_up(after, [1])
        assert counts(after) == {1: 1}

    def test_restoring_too_late_is_refused(self, make: Make, tmp_path: Path) -> None:
        backend = make()
        count_up(backend, range(10))
        taken = self.take(backend, tmp_path / "chk-1")
        with pytest.raises(RuntimeError, match="operator 'my operator': state was used before"):
            backend.restore([taken])


class TestTypes:
    def restored(self, make: Make, tmp_path: Path) -> RocksDBKeyedStateBackend:
        backend = make()
        count_up(backend, [1, 2, 2])
        after = make()
        after.restore([backend.checkpoint(str(tmp_path / "chk-1"))])
        return after

    @pytest.mark.parametrize(
        ("type_info", "value"),
        [
            (Types.LONG(), 1),
            (Types.PICKLED_BYTE_ARRAY(), {1}),
            (Types.TUPLE([Types.LONG(), Types.STRING()]), (1, "a")),
            (Types.LIST(Types.DOUBLE()), [1.5]),
            (Types.MAP(Types.STRING(), Types.BIG_DEC()), {"a": Decimal("1.50")}),
            (Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.STRING()]), Row(a=1, b="x")),
        ],
        ids=str,
    )
    def test_entries_of_the_same_type_stay_as_they_are(
        self, type_info: Any, value: Any, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        backend = make()
        backend.value_state(ValueStateDescriptor("state", type_info))
        backend.table("state")["key"] = value
        after = make()
        after.restore([backend.checkpoint(str(tmp_path / "chk-1"))])
        monkeypatch.setattr(CachedTable, "_put", lambda *arguments: pytest.fail("it was written again"))
        state = after.value_state(ValueStateDescriptor("state", type_info))
        after.current_key = "key"
        assert state.value() == value

    def test_entries_are_written_anew_for_another_type(self, make: Make, tmp_path: Path) -> None:
        after = self.restored(make, tmp_path)
        state = after.value_state(ValueStateDescriptor("count", Types.PICKLED_BYTE_ARRAY()))
        after.current_key = 2
        assert state.value() == 2
        state.update("two")
        evict(after)
        assert dict(after.table("count").items()) == {1: 1, 2: "two"}

    def test_another_kind_is_refused(self, make: Make, tmp_path: Path) -> None:
        after = self.restored(make, tmp_path)
        with pytest.raises(StateMigrationException, match="state 'count' was a value state, and is declared as a list"):
            after.list_state(ListStateDescriptor("count", Types.LONG()))

    def test_a_type_that_does_not_fit_is_refused(self, make: Make, tmp_path: Path) -> None:
        after = self.restored(make, tmp_path)
        with pytest.raises(StateMigrationException, match="operator 'my operator': state 'count'"):
            after.value_state(ValueStateDescriptor("count", Types.STRING()))

    def test_a_serialiser_of_the_user_gets_exactly_its_bytes(self, make: Make) -> None:
        class Text(TypeSerializer[str]):
            def serialize(self, element: str, stream: Any) -> None:
                stream.write(element.encode())

            def deserialize(self, stream: Any) -> str:
                return str(stream.read().decode())

        class TextType:
            def create_serializer(self) -> Text:
                return Text()

        backend = make()
        for key in (1, (1, 2.5)):
            described = ValueStateDescriptor("text", Types.STRING())
            described.type_info = TextType()  # type: ignore[assignment]
            state = backend.value_state(described)
            backend.current_key = key
            state.update("hello")
            evict(backend)
            assert state.value() == "hello"

    def test_a_value_that_cannot_be_written_is_told_with_its_key(self, make: Make) -> None:
        backend = make()
        state = backend.value_state(COUNT)
        for key, value in (("a", 1), ("b", "no number")):
            backend.current_key = key
            state.update(value)
        with pytest.raises(ValueError, match="operator 'my operator': state 'count' cannot be written for the key 'b'"):
            backend.table("count").flush()


class TestTimeToLive:
    def config(self, filtered: bool = True) -> StateTtlConfig:
        builder = StateTtlConfig.new_builder(Time.milliseconds(100)).return_expired_if_not_cleaned_up()
        builder.disable_cleanup_in_background()
        return (builder.cleanup_in_rocksdb_compact_filter(1000) if filtered else builder).build()

    def states(self, backend: RocksDBKeyedStateBackend, filtered: bool) -> dict[str, Any]:
        descriptors: list[Any] = [
            ValueStateDescriptor("value", Types.LONG()),
            ListStateDescriptor("list", Types.LONG()),
            MapStateDescriptor("map", Types.LONG(), Types.LONG()),
        ]
        for descriptor in descriptors:
            descriptor.enable_time_to_live(self.config(filtered))
        return {descriptor.name: backend.state_of(descriptor) for descriptor in descriptors}

    @pytest.mark.parametrize("filtered", [True, False])
    def test_what_has_expired_goes_while_blocks_are_processed(
        self, filtered: bool, make: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("flintstream.runtime.state.rocksdb.cleanup.LEAST_INTERVAL_MS", 0)
        now = 0
        backend = make(clock=lambda: now)
        states = self.states(backend, filtered)
        for now in (0, 60):
            for key in range(200):
                backend.current_key = key
                if key >= 100 or now == 0:
                    states["value"].update(key)
                    states["list"].add(key)
                    states["map"].put(key, now)
        evict(backend)
        now = 120
        touch_until_clean(backend)
        left = set(range(100, 200) if filtered else range(200))
        assert [set(backend.keys(name)) for name in states] == [left] * 3
        now = 1000
        backend.current_key = 150
        assert (states["value"].value(), list(states["list"])) == (150, [150, 150]), (
            "it is there as long as nobody cleans"
        )

    def test_times_are_stored(self, make: Make, tmp_path: Path) -> None:
        now = 7
        backend = make(clock=lambda: now)
        states = self.states(backend, True)
        backend.current_key = "a"
        states["value"].update(1)
        states["list"].add(1)
        now = 8
        states["list"].add(2)
        states["map"].put(1, 2)
        after = make(clock=lambda: now)
        after.restore([backend.checkpoint(str(tmp_path / "chk-1"))])
        self.states(after, True)
        assert after.table("value") == {"a": (1, 7)}
        assert after.table("list") == {"a": [(1, 7), (2, 8)]}
        assert after.table("map") == {"a": {1: (2, 8)}}


LARGE = MapStateDescriptor("large", Types.LONG(), Types.LONG())
NUMBERS = ListStateDescriptor("numbers", Types.LONG())


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many keys were read or written at once, each time."""
    sizes: list[int] = []
    get, write = Store.get, Store.write

    def counted_get(self: Store, keys: list[bytes]) -> Any:
        sizes.append(len(keys))
        return get(self, keys)

    def counted_write(self: Store, entries: dict[bytes, bytes], removed: Iterable[bytes] = ()) -> None:
        sizes.append(len(entries) + len(list(removed)))
        write(self, entries, removed)

    monkeypatch.setattr(Store, "get", counted_get)
    monkeypatch.setattr(Store, "write", counted_write)
    return sizes


def stored_keys(backend: RocksDBKeyedStateBackend) -> int:
    for table in backend._tables.values():
        table.flush()
    return sum(1 for group in range(GROUPS) for _ in backend._store().items(group_prefix(group)))


class TestLargeMapsAndLists:
    def filled(self, backend: RocksDBKeyedStateBackend, entries: int = 3000, owner: Any = "a") -> Any:
        state = backend.map_state(LARGE)
        backend.touch([owner])
        backend.current_key = owner
        state.put_all({number: -number for number in range(entries)})
        evict(backend)
        return state

    def test_one_entry_is_read_and_written_by_itself(self, make: Make, written: list[int]) -> None:
        backend = make()
        state = self.filled(backend)
        calls: list[tuple[Any, ...]] = [("get", 5), ("contains", 6), ("put", 7, 0), ("put", -1, 0), ("remove", 8)]
        for method, *arguments in calls:
            written.clear()
            backend.touch(["a"])
            getattr(state, method)(*arguments)
            evict(backend)
            assert sum(written) <= 5, "the entry, and how many there are"
        assert (state.get(5), state.get(7), state.get(8), state.get(-1)) == (-5, 0, None, 0)
        assert len(list(state.keys())) == 3000

    def test_takes_no_more_room_the_more_often_it_is_written(self, make: Make) -> None:
        backend = make()
        state = self.filled(backend)
        backend.touch(["a"])
        state.put(1, 0)
        segments = backend.table("large").get("a")
        for number in range(1000):
            state.put(number % 3, number)
        assert len(segments._dirty) == 3
        assert not segments._marked

    def test_a_map_whose_entries_take_much_room_is_large(self, make: Make, written: list[int]) -> None:
        backend = make()
        state = backend.map_state(MapStateDescriptor("texts", Types.STRING(), Types.STRING()))
        backend.current_key = "a"
        state.put_all({name: name * 3000 for name in "xyz"})
        evict(backend)
        assert stored_keys(backend) == 4
        assert dict(state.items()) == {name: name * 3000 for name in "xyz"}

    def test_is_one_key(self, make: Make) -> None:
        backend = make()
        for owner in ("a", ("b", 2.5), Decimal("1.5")):
            self.filled(backend, owner=owner)
        expected = {number: -number for number in range(3000)}
        assert len(backend.keys("large")) == len(backend.table("large")) == 3
        assert [len(chunk) for chunk in backend.key_chunks("large")] == [3]
        assert dict(backend.table("large").items()) == {
            "a": expected,
            ("b", 2.5): expected,
            Decimal("1.5"): expected,
        }
        seen: dict[Any, int] = {}
        backend.apply_to_all_keys(LARGE, lambda key, state: seen.update({key: sum(state.values())}))
        assert seen == dict.fromkeys(["a", ("b", 2.5), Decimal("1.5")], -sum(range(3000)))

    @pytest.mark.parametrize("how", ["clear", "remove"])
    def test_leaves_nothing_behind(self, how: str, make: Make) -> None:
        backend = make()
        state = self.filled(backend)
        if how == "clear":
            state.clear()
        else:
            for key in state:
                state.remove(key)
        assert state.is_empty()
        assert backend.keys("large") == []
        assert stored_keys(backend) == 0

    def test_more_than_many_entries_are_removed_as_a_range(self, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("flintstream.runtime.state.rocksdb.store._MANY", 100)
        backend = make()
        self.filled(backend, owner="b")
        state = self.filled(backend)
        state.clear()
        assert backend.keys("large") == ["b"]
        assert stored_keys(backend) == 3001

    def test_takes_bounded_memory_however_much_one_record_does(self, make: Make) -> None:
        backend = make()
        state = backend.map_state(LARGE)
        backend.touch(["a"])
        backend.current_key = "a"
        for number in range(30_000):
            state.put(number, number)
        assert backend.table("large").size < 1 << 20
        assert sum(state.values()) == sum(range(30_000))
        for number in range(0, 30_000, 2):
            state.remove(number)
        assert sum(1 for _ in state) == 15_000
        assert backend.table("large").size < 1 << 20

    def test_iterating_again_shows_the_map_as_it_is_then(self, make: Make) -> None:
        state = self.filled(make(), 6000)
        items, keys = state.items(), state.keys()
        state.put(-1, -1)
        assert len(dict(items)) == len(list(keys)) == 6000
        assert len(dict(items)) == len(list(keys)) == 6001

    def test_a_checkpoint_after_one_change_is_small(self, make: Make, tmp_path: Path) -> None:
        backend = make()
        state = self.filled(backend, 20_000)
        taken = [backend.checkpoint(str(tmp_path / "chk-0"))]

        def is_small() -> bool:
            state.put(5, len(taken))
            taken.append(backend.checkpoint(str(tmp_path / f"chk-{len(taken)}")))
            first, second = taken[-2:]
            known = {file.identity for file in first.files}
            new = [file.size for file in second.files if file.identity not in known]
            return sum(new) < sum(file.size for file in first.files if file.identity is not None) / 20

        # RocksDB may compact what was written first, and so write it once more.
        wait_until(is_small, what="a small checkpoint", pause=0.2)

    @pytest.mark.parametrize(("before", "now"), [(1, 2), (2, 1), (2, 3)])
    def test_restored_in_any_parallelism(self, before: int, now: int, make: Make, tmp_path: Path) -> None:
        taken = []
        for subtask in range(before):
            groups = key_group_range(GROUPS, before, subtask)
            backend = make(groups)
            if subtask:
                backend.value_state(COUNT)  # So that subtasks have different numbers for their states.
            numbers = backend.list_state(NUMBERS)
            for owner in (each for each in range(40) if key_group(each, GROUPS) in groups):
                self.filled(backend, 1500 + owner, owner)
                backend.current_key = owner
                numbers.add_all(range(2000 + owner))
            taken.append(backend.checkpoint(str(tmp_path / f"chk-{subtask}")))
        found: dict[Any, int] = {}
        for subtask in range(now):
            backend = make(key_group_range(GROUPS, now, subtask))
            backend.restore(taken)
            state, numbers = backend.map_state(LARGE), backend.list_state(NUMBERS)
            for owner in backend.keys("large"):
                backend.current_key = owner
                assert list(numbers) == list(range(2000 + owner))
                state.put(-1, -1)
                found[owner] = len(dict(state.items()))
        assert found == {owner: 1501 + owner for owner in range(40)}

    def test_takes_another_type(self, make: Make, tmp_path: Path) -> None:
        backend = make()
        self.filled(backend)
        backend.list_state(NUMBERS).add_all(range(2000))
        after = make()
        after.restore([backend.checkpoint(str(tmp_path / "chk-1"))])
        any_type = Types.PICKLED_BYTE_ARRAY()
        state = after.map_state(MapStateDescriptor("large", any_type, any_type))
        numbers = after.list_state(ListStateDescriptor("numbers", any_type))
        after.current_key = "a"
        state.put("text", "more")
        numbers.add("more")
        evict(after)
        expected: dict[Any, Any] = {number: -number for number in range(3000)}
        assert dict(state.items()) == {**expected, "text": "more"}
        assert list(numbers) == [*range(2000), "more"]

    def test_a_key_that_means_nothing_elsewhere_is_refused(self, make: Make) -> None:
        backend = make()
        state = backend.map_state(MapStateDescriptor("objects", Types.PICKLED_BYTE_ARRAY(), Types.LONG()))
        backend.current_key = "a"
        state.put_all({object(): number for number in range(2000)})
        with pytest.raises(TypeError, match="operator 'my operator': state 'objects' of the key 'a' is a large map"):
            backend.table("objects").flush()

    def test_adding_to_a_list_does_not_read_it(self, make: Make, written: list[int]) -> None:
        backend = make()
        state = backend.list_state(NUMBERS)
        backend.current_key = "a"
        state.add_all(range(5000))
        for number in range(5000, 5100):
            evict(backend)
            written.clear()
            backend.touch(["a"])
            state.add(number)
        evict(backend)
        assert sum(written) <= 5, "the new part, and how many there are"
        assert list(state) == list(range(5100))
        state.update([1, 2])
        assert list(state) == [1, 2]
        assert stored_keys(backend) == 1

    def test_what_has_expired_goes_while_blocks_are_processed(
        self, make: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("flintstream.runtime.state.rocksdb.cleanup.LEAST_INTERVAL_MS", 0)
        now = 0
        backend = make(clock=lambda: now)
        states = TestTimeToLive().states(backend, True)
        backend.current_key = 1
        for now in (0, 60):
            for number in range(1500):
                states["map"].put(number + 100 * now, now)
                states["list"].add(now)
        evict(backend)
        for now, left in ((120, 1500), (200, 0)):  # noqa: B007 - the clock reads it
            touch_until_clean(backend)
            assert len(backend.table("map").get(1, ())) == left
            assert backend.keys("map") == ([1] if left else [])
            assert len(backend.table("list").get(1, ())) <= left + 128
            evict(backend)
        assert stored_keys(backend) == 0


def test_closing_removes_the_files(tmp_path: Path) -> None:
    directory = tmp_path / "db"
    backend = RocksDBKeyedStateBackend("my operator", GROUPS, lambda: 0, None, str(directory))
    assert not directory.exists(), "nothing is stored yet"
    count_up(backend, [1])
    evict(backend)
    assert directory.exists()
    backend.close()
    backend.close()
    assert not directory.exists()


def test_a_directory_with_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError, match="operator 'my operator': the directory .* is not empty"):
        RocksDBKeyedStateBackend("my operator", GROUPS, lambda: 0, None, str(tmp_path))


def test_a_harness_with_it() -> None:
    class Count(KeyedProcessFunction):
        def open(self, runtime_context: Any) -> None:
            self.count = runtime_context.get_state(COUNT)

        def process_element(self, value: Any, ctx: Any) -> Any:
            self.count.update((self.count.value() or 0) + 1)
            yield value, self.count.value()

    with OneInputOperatorHarness(Count(), lambda value: value, state_backend="rocksdb") as harness:
        state = harness.operator.context.keyed_state
        assert isinstance(state, RocksDBKeyedStateBackend)
        harness.process_elements(["a", "b", "a"])
        assert harness.output == [("a", 1), ("b", 1), ("a", 2)]
        assert harness.keyed_state("count") == {"a": 2, "b": 1}
        directory = state.database
        assert os.path.exists(directory)
    assert not os.path.exists(directory)
    with pytest.raises(ValueError, match="state_backend must be 'hashmap' or 'rocksdb', got 'disk'"):
        OneInputOperatorHarness(Count(), lambda value: value, state_backend="disk")


def test_iterating_outlives_what_made_the_iterator(make: Make) -> None:
    backend = make()
    count_up(backend, range(1000))
    found = iter(backend.table("count"))
    gc.collect()
    assert sorted(found) == list(range(1000))
