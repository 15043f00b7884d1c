"""Positions of sources: a run that goes on from one reads what the run before has not, and nothing twice."""

from __future__ import annotations

import pickle
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.waiting import ENOUGH_SECONDS, wait_until

from flintstream.common.pickling import dumps
from flintstream.jobmaster import enumeration, spark_sources
from flintstream.jobmaster.source_factory import SourceFactory
from flintstream.jobmaster.sources import SourceCoordinator, SplitCoordinator
from flintstream.jobmaster.spark_sources import DataFrameCoordinator, FrameBlocks, StreamingCoordinator
from flintstream.runtime.faults import UserCodeError
from flintstream.runtime.slot.protocol import VertexReport
from flintstream.runtime.source import Split, SplitEnumerator, SplitSource
from flintstream.spark.dataframe_source import BLOCK_RECORDS


class Files(SplitSource):
    """A directory: its files have so many records each."""

    def __init__(self, records: dict[str, int], watched: bool = False) -> None:
        self.records = records
        self.bounded = not watched
        self.discovery_interval = 0.01 if watched else None
        self.looks = 0

    def discover(self, parallelism: int, known: frozenset[str]) -> Iterable[Split]:
        self.looks += 1
        return [Split(name, f"content of {name}") for name in list(self.records) if name not in known]


class Reading:
    """The subtasks of a source, and what they have read."""

    def __init__(self, source: Files, parallelism: int, position: bytes | None = None) -> None:
        self.source = source
        self.coordinator = SplitCoordinator(0, "Files", parallelism, source)
        if position is not None:
            self.coordinator.resume(pickle.loads(position))
        self.coordinator.start()
        self.splits: list[dict[str, int]] = [{} for _ in range(parallelism)]
        self.read: list[tuple[str, int]] = []
        self.complete = False

    def epoch(self, records: int = 1) -> None:
        """Each subtask reads so many records of each of its files."""
        work = self.coordinator.work(100)
        self.complete = work.complete
        for subtask, dealt in work.splits.items():
            for split, place in dealt:
                assert split.content == f"content of {split.split_id}"
                self.splits[subtask][split.split_id] = place or 0
        for places in self.splits:
            for name, place in list(places.items()):
                end = min(place + records, self.source.records[name])
                self.read += [(name, number) for number in range(place, end)]
                places[name] = end
                if end == self.source.records[name]:
                    del places[name]
        self.coordinator.epoch_done(
            [VertexReport(0, index, 0, 0, False, positions=dict(places)) for index, places in enumerate(self.splits)]
        )

    def position(self) -> bytes:
        return dumps(self.coordinator.position())

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, *_: Any) -> None:
        self.coordinator.close()

    def wait_for_split(self) -> None:
        wait_until(lambda: self.coordinator.next_due() == 0.0, what="a new split")


def everything(records: dict[str, int]) -> list[tuple[str, int]]:
    return sorted((name, number) for name, count in records.items() for number in range(count))


@given(
    counts=st.lists(st.integers(1, 5), max_size=6),
    parallelism=st.lists(st.integers(1, 4), min_size=1, max_size=4),
    epochs=st.lists(st.integers(0, 3), min_size=4, max_size=4),
    records=st.integers(1, 3),
)
def test_each_record_of_a_bounded_source_is_read_once_over_all_runs(counts, parallelism, epochs, records):
    source = Files({f"file {number}": count for number, count in enumerate(counts)})
    position, read = None, []
    for run, (subtasks, length) in enumerate(zip(parallelism, epochs)):
        with Reading(source, subtasks, position) as reading:
            for _ in range(20 if run == len(parallelism) - 1 else length):
                reading.epoch(records)
            position = reading.position()
        read += reading.read
    assert sorted(read) == everything(source.records)
    assert reading.complete
    assert source.looks == 1


def test_a_position_is_the_same_before_and_after_it_was_resumed():
    source = Files({"a": 3, "b": 5})
    with Reading(source, 2) as reading:
        first = reading.position()
        with Reading(source, 1, first) as again:
            assert pickle.loads(again.position()) == pickle.loads(first)
        reading.epoch(2)
        with Reading(source, 3, reading.position()) as again:
            assert pickle.loads(again.position()) == pickle.loads(reading.position())


@pytest.mark.parametrize("watched", [False, True])
def test_a_position_stored_before_there_were_enumerators_is_read(watched):
    source = Files({"done": 2, "begun": 3, "waiting": 1}, watched)
    left = {
        "begun": (Split("begun", "content of begun"), 2),
        "waiting": (Split("waiting", "content of waiting"), None),
    }
    position = dumps({"left": left, "known": ["done", "begun", "waiting"]})
    source.records["came since"] = 1
    with Reading(source, 2, position) as reading:
        for _ in range(3):
            reading.epoch()
    assert sorted(reading.read) == [("begun", 2), *[("came since", 0)] * watched, ("waiting", 0)]
    assert reading.complete != watched


def test_a_split_that_a_discovery_names_twice_is_dealt_once():
    class Twice(Files):
        def discover(self, parallelism: int, known: frozenset[str]) -> Iterable[Split]:
            return [*super().discover(parallelism, known)] * 2

    with Reading(Twice({"a": 2}), 2) as reading:
        for _ in range(3):
            reading.epoch()
    assert reading.read == [("a", 0), ("a", 1)]


def test_files_left_are_dealt_to_all_subtasks_of_the_next_run():
    source = Files(dict.fromkeys("abcdef", 10))
    with Reading(source, 1) as reading:
        reading.epoch()
    with Reading(source, 3, reading.position()) as again:
        again.epoch()
    assert [len(places) for places in again.splits] == [2, 2, 2]
    assert {place for places in again.splits for place in places.values()} == {2}


def test_files_that_came_while_nothing_ran_are_found_and_those_read_are_not_read_again():
    source = Files({"read": 1, "begun": 3}, watched=True)
    with Reading(source, 2) as reading:
        reading.epoch(2)
        position = reading.position()
    source.records["new"] = 2
    with Reading(source, 1, position) as again:
        assert not again.complete
        for _ in range(3):
            again.epoch()
        assert sorted(again.read) == [("begun", 2), ("new", 0), ("new", 1)]
        source.records["newer"] = 1
        again.wait_for_split()
        again.epoch()
        assert again.read[-1] == ("newer", 0)
        assert pickle.loads(again.position())["left"] == {}


def test_a_file_found_and_not_dealt_yet_is_in_the_position():
    source = Files({"first": 1}, watched=True)
    with Reading(source, 1) as reading:
        reading.epoch()
        source.records["second"] = 2
        reading.wait_for_split()
        position = reading.position()
    with Reading(source, 1, position) as again:
        again.epoch(2)
    assert again.read == [("second", 0), ("second", 1)]


# --- enumerators ---


class Days(SplitEnumerator):
    """Finds a day at a time, and remembers no more than which comes next."""

    def __init__(self) -> None:
        self.next_day = 0
        self.heard: list[Any] = []
        self.go = threading.Event()
        self.go.set()
        self.hangs = threading.Event()

    def start(self) -> None:
        self.heard.append("start")

    def discover(self) -> list[Split]:
        if not self.go.is_set():
            self.hangs.set()
        assert self.go.wait(ENOUGH_SECONDS)
        self.next_day += 1
        return [Split(f"day {self.next_day}", f"content of day {self.next_day}")]

    def snapshot(self) -> int:
        return self.next_day

    def restore(self, state: int) -> None:
        self.next_day = state
        self.heard.append(("restore", state))

    def checkpoint_complete(self, state: int) -> None:
        self.heard.append(("complete", state))

    def close(self) -> None:
        self.heard.append("close")


class Calendar(SplitSource):
    """Each day has three records."""

    bounded = False
    discovery_interval = 0.001
    records: dict[str, int] = defaultdict(lambda: 3)

    def create_enumerator(self, parallelism: int) -> SplitEnumerator:
        self.days = Days()
        return self.days


def read_days(reading: Reading, count: int) -> None:
    """Epochs until so many records were read."""
    wait_until(lambda: reading.epoch(2) or len(reading.read) >= count, what=f"{count} records")


def test_what_is_finished_is_forgotten_and_not_read_again_whatever_the_parallelism():
    position, read = None, []
    for parallelism in (2, 3, 1):
        with Reading(Calendar(), parallelism, position) as reading:
            read_days(reading, 60)
            position = reading.position()
        read += reading.read
    assert len(set(read)) == len(read)
    finished = {name for name, number in read if number == 2}
    days = sorted(int(name.removeprefix("day ")) for name in finished)
    left = {int(name.removeprefix("day ")) for name in pickle.loads(position)["left"]}
    assert set(range(1, max(days) + 1)) <= set(days) | left, "no day was left out"
    assert not left & set(days)
    assert pickle.loads(pickle.loads(position)["enumerator"]) >= max(days)
    assert len(position) < 500 + 200 * len(left), "it grows with what is left, not with what was read"


def test_an_enumerator_is_told_what_happens_on_its_own_thread():
    calendar = Calendar()
    with Reading(calendar, 1) as reading:
        read_days(reading, 3)
        position = reading.position()
        reading.coordinator.checkpoint_complete(pickle.loads(position))
        state = pickle.loads(pickle.loads(position)["enumerator"])
        wait_until(lambda: ("complete", state) in calendar.days.heard)
    assert calendar.days.heard == ["start", ("complete", state), "close"]
    with Reading(calendar, 1, position):
        wait_until(lambda: "start" in calendar.days.heard)
        assert calendar.days.heard[:2] == [("restore", state), "start"]


def test_a_discovery_that_hangs_holds_up_neither_epochs_nor_checkpoints():
    calendar = Calendar()
    with Reading(calendar, 1) as reading:
        read_days(reading, 3)
        calendar.days.go.clear()
        assert calendar.days.hangs.wait(ENOUGH_SECONDS)
        for _ in range(3):
            reading.epoch()
        assert len(reading.read) == 3 * calendar.days.next_day
        assert pickle.loads(reading.position())["left"] == {}
        calendar.days.go.set()
        reading.wait_for_split()


def test_a_discovery_that_takes_longer_than_its_timeout_fails_the_job():
    calendar = Calendar()
    calendar.discovery_timeout = 0.05
    with Reading(calendar, 1) as reading:
        calendar.days.go.clear()
        with pytest.raises(
            UserCodeError, match=r"Days.discover\(\) has not returned for 0.05 s [^\n]*\n.*\n *assert self.go"
        ):
            wait_until(lambda: reading.coordinator.next_due() and None)
        calendar.days.go.set()


def test_a_first_discovery_that_hangs_lets_the_job_begin(monkeypatch):
    monkeypatch.setattr(enumeration, "FIRST_SECONDS", 0.01)
    source = Files({"a": 1})
    go = threading.Event()
    discover = source.discover
    source.discover = lambda *arguments: go.wait(ENOUGH_SECONDS) and discover(*arguments)
    with Reading(source, 1) as reading:
        reading.epoch()
        assert not reading.complete
        position = reading.position()
        go.set()
        reading.wait_for_split()
        reading.epoch()
        assert reading.complete
    with Reading(source, 1, position) as again:
        again.wait_for_split()
        again.epoch()
    assert reading.read == again.read == [("a", 0)], "what was stored before anything was found finds all of it"


def test_an_enumerator_that_fails_fails_the_job_by_the_name_of_its_source():
    source = Files({})
    source.discover = lambda *_: 1 // 0
    with pytest.raises(UserCodeError, match="Operator 'Files' failed: ZeroDivisionError"):
        Reading(source, 1)


def test_where_an_enumerator_sends_a_split(monkeypatch):
    calendar = Calendar()
    monkeypatch.setattr(Days, "assign", lambda self, split, loads: int(split.split_id.split()[1]) % len(loads))
    with Reading(calendar, 3) as reading:
        read_days(reading, 10)
        monkeypatch.setattr(Days, "assign", lambda self, split, loads: 3)
        with pytest.raises(
            UserCodeError, match=r"Days.assign of split 'day \d+' returned 3: expected the index of a subtask"
        ):
            read_days(reading, 1000)


def test_a_source_of_a_function_has_no_position_on_the_driver():
    coordinator = SourceCoordinator(0, "Numbers", 2)
    assert coordinator.position() is None
    assert not coordinator.waits_for_checkpoint
    factory = SourceFactory(None, False)
    made = factory.make(0, "Numbers", "a", (0, 1), object(), lambda: None, lambda error: None)
    assert type(made) is SourceCoordinator
    factory.close()


# --- DataFrames ---


class Blocks:
    """What Spark has made of a DataFrame: so many blocks in each partition."""

    def __init__(self, counts: dict[int, int]) -> None:
        self.counts = Counter(counts)

    def rows(self, first: int, end: int) -> tuple[int, int]:
        return first, end


def frame(counts: dict[int, int], parallelism: int = 2, position: Any = None) -> DataFrameCoordinator:
    coordinator = DataFrameCoordinator(0, "Orders", parallelism, lambda: Blocks(counts))  # type: ignore[arg-type, return-value]
    if position is not None:
        coordinator.resume(pickle.loads(dumps(position)))
    coordinator.start()
    return coordinator


class UnreadableBlocks:
    """Blocks that Spark keeps, until it turns out that some of them cannot be made."""

    def __init__(self) -> None:
        self.kept = False

    def persist(self, level: Any) -> None:
        self.kept = True

    def unpersist(self) -> None:
        self.kept = False

    def where(self, condition: str) -> Any:
        raise OSError("a file of the DataFrame is gone")


def test_a_frame_that_cannot_be_read_leaves_no_blocks_with_spark(monkeypatch):
    blocks = UnreadableBlocks()
    monkeypatch.setattr(spark_sources, "session_like", lambda session: SimpleNamespace(conf=SimpleNamespace(set=print)))
    monkeypatch.setattr(spark_sources, "in_session", lambda frame, session: frame)
    monkeypatch.setattr(spark_sources, "blocks_of", lambda *arguments: blocks)
    spark_frame: Any = SimpleNamespace(sparkSession=None)
    with pytest.raises(OSError, match="is gone"):
        FrameBlocks(spark_frame, 0, (0, 1))
    assert not blocks.kept


def test_a_frame_goes_on_behind_the_blocks_that_were_read():
    first = frame({0: 3, 1: 2})
    first.work(BLOCK_RECORDS)
    assert first.reader() == (0, 1)
    again = frame({0: 3, 1: 2}, 1, first.position())
    assert again.next_due() == 0.0
    work = again.work(10 * BLOCK_RECORDS)
    assert again.reader() == (1, 3)
    assert work.complete
    assert sorted(split.split_id for split, _ in work.splits[0]) == ["0", "1"]


def test_a_frame_that_was_read_to_its_end_is_complete_at_once():
    first = frame({0: 1})
    assert first.work(BLOCK_RECORDS).complete
    again = frame({0: 1}, 2, first.position())
    assert again.next_due() is None
    assert again.work(BLOCK_RECORDS).complete
    assert again.reader() is None


@pytest.mark.parametrize("changed", [{0: 3}, {0: 3, 1: 3}, {0: 3, 1: 2, 2: 1}, {}])
def test_a_frame_that_has_changed_is_refused_by_name(changed):
    position = frame({0: 3, 1: 2}).position()
    with pytest.raises(
        ValueError, match=r"source 'Orders': the partitions or row counts of the DataFrame have changed"
    ):
        frame(changed, 2, position)


class Query:
    """A streaming DataFrame and its query: the directory decides which one it is."""

    def __init__(self, queries: dict[str, str]) -> None:
        self.queries = queries
        self.isActive = True
        self.stopped = threading.Event()
        self.writeStream = self

    def option(self, key: str, directory: str) -> Query:
        assert key == "checkpointLocation"
        self.id = self.queries.setdefault(directory, f"query {len(self.queries)}")
        return self

    def foreachBatch(self, hand_over: Any) -> Query:
        self.hand_over = hand_over
        return self

    def start(self) -> Query:
        return self

    def awaitTermination(self) -> None:
        self.stopped.wait()

    def stop(self) -> None:
        self.isActive = False
        self.stopped.set()


class Bridge:
    """The coordinator of a streaming DataFrame, and Spark's side of it."""

    def __init__(
        self,
        queries: dict[str, str],
        position: Any = None,
        checkpointing: bool = True,
        directory: str = "/job/taskowned/a",
    ) -> None:
        self.query = Query(queries)
        self.coordinator = StreamingCoordinator(
            0, "Orders", (0,), self.query, lambda: None, lambda error: None, {}, directory, checkpointing
        )  # type: ignore[arg-type]
        if position is not None:
            self.coordinator.resume(pickle.loads(dumps(position)))

    def __enter__(self) -> Bridge:
        self.coordinator.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.coordinator.close()

    def hand_over(self, batch_id: int) -> threading.Thread:
        """Spark hands a batch over, and waits on a thread of its own until it is safe or the job ends."""

        def run() -> None:
            with suppress(RuntimeError):
                self.query.hand_over(f"rows of {batch_id}", batch_id)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    def epoch(self) -> Any:
        """Waits until a batch is there, and takes it in."""
        deadline = time.monotonic() + 60
        while self.coordinator._taken is None and time.monotonic() < deadline:
            self.coordinator.work(100)
        taken = self.coordinator._taken
        self.coordinator.epoch_done([])
        return None if taken is None else taken.frame


def test_a_query_that_spark_does_not_stop_does_not_keep_the_attempt_from_its_end(monkeypatch):
    monkeypatch.setattr(spark_sources, "STOP_SECONDS", 0.05)
    bridge = Bridge({})
    bridge.coordinator.start()
    bridge.query.stop = lambda: bridge.query.stopped.wait(60)
    with pytest.raises(TimeoutError, match="source 'Orders': Spark has not stopped its query within 0.05 s"):
        bridge.coordinator.close()
    bridge.query.stopped.set()


def test_spark_commits_a_batch_when_the_checkpoint_that_contains_it_is_complete():
    with Bridge({}) as bridge:
        thread = bridge.hand_over(0)
        assert not bridge.coordinator.waits_for_checkpoint
        before = bridge.coordinator.position()
        assert bridge.epoch() == "rows of 0"
        assert bridge.coordinator.waits_for_checkpoint
        bridge.coordinator.checkpoint_complete(before)
        thread.join(0.3)
        assert thread.is_alive()
        bridge.coordinator.checkpoint_complete(bridge.coordinator.position())
        thread.join(60)
        assert not thread.is_alive()
        assert not bridge.coordinator.waits_for_checkpoint


def test_without_checkpoints_spark_commits_a_batch_behind_its_epoch():
    with Bridge({}, checkpointing=False) as bridge:
        thread = bridge.hand_over(0)
        assert bridge.epoch() == "rows of 0"
        thread.join(60)
        assert not thread.is_alive()


def test_a_batch_that_comes_again_is_skipped_and_the_next_is_taken():
    queries: dict[str, str] = {}
    with Bridge(queries) as bridge:
        bridge.hand_over(0)
        bridge.epoch()
        position = bridge.coordinator.position()
    with Bridge(queries, position) as again:
        again.hand_over(0).join(60)
        again.hand_over(1)
        assert again.epoch() == "rows of 1"


@pytest.mark.parametrize("log", ["offsets", "commits"])
def test_what_an_interrupted_write_has_left_does_not_keep_spark_from_the_first_batch(tmp_path, log):
    left, first, metadata = (tmp_path / name for name in (f"{log}/.0.1f.tmp", f"{log}/0", "metadata"))
    left.parent.mkdir()
    for path in (left, left.with_name("..0.1f.tmp.crc"), metadata):
        path.touch()
    with Bridge({}, directory=str(tmp_path)):
        assert list(left.parent.iterdir()) == []
        assert metadata.exists()
    for path in (left, first):
        path.touch()
    with Bridge({}, directory=str(tmp_path)):
        assert first.exists(), "a batch that has begun is Spark's"


def test_batches_that_were_passed_over_are_told():
    queries: dict[str, str] = {}
    with Bridge(queries) as bridge:
        position = bridge.coordinator.position()
    with (
        Bridge(queries, position) as again,
        pytest.raises(
            RuntimeError, match=r"source 'Orders': Spark continues with batch 3, but the checkpoint ends with batch -1"
        ),
    ):
        again.query.hand_over("rows of 3", 3)


def test_a_query_that_has_begun_anew_is_refused_where_batches_would_be_skipped():
    queries: dict[str, str] = {}
    with Bridge(queries) as bridge:
        first = bridge.coordinator.position()
        bridge.hand_over(0)
        bridge.epoch()
        position = bridge.coordinator.position()
    gone = {"/elsewhere": "query 0"}
    with pytest.raises(
        ValueError, match=r"source 'Orders': /job/taskowned/a, .*was changed or removed.*cannot resume after batch 0"
    ):
        Bridge(gone, position).__enter__()
    with Bridge(dict(gone), first):
        pass  # Nothing had been read.
