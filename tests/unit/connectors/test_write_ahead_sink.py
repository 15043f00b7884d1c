"""GenericWriteAheadSink: values wait for their checkpoint, and are sent once if the committer writes its mark with them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest

from flintstream.common import Row, Types
from flintstream.datastream import GenericWriteAheadSink, StreamExecutionEnvironment
from flintstream.datastream.functions import CheckpointCommitter
from flintstream.runtime.faults import UserCodeError
from flintstream.runtime.operators import write_ahead
from flintstream.testing import OneInputOperatorHarness

from .drill import RECORDS, Drill, killed_everywhere


class Table:
    """Where values go: what is inserted is seen when it is committed."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self.inserted: list[Any] = []
        self.marks: set[Any] = set()
        self.drill: Drill | None = None

    def point(self) -> None:
        if self.drill is not None:
            self.drill.point()

    def commit(self) -> None:
        self.rows += self.inserted
        self.inserted = []


class Marks(CheckpointCommitter):
    """Leaves its mark and commits both together, or by itself after the values are committed."""

    def __init__(self, table: Table, together: bool) -> None:
        self.table = table
        self.together = together
        self.calls: list[str] = []

    def __reduce__(self) -> Any:
        return Marks, (None, self.together)

    def open(self) -> None:
        self.calls.append(f"open {self.job_id} {self.operator_id}")
        self.table.inserted = []

    def commit_checkpoint(self, subtask_idx: int, checkpoint_id: int) -> None:
        self.table.point()
        self.table.marks.add((self.job_id, self.operator_id, subtask_idx, checkpoint_id))
        self.table.commit()
        self.table.point()

    def is_checkpoint_committed(self, subtask_idx: int, checkpoint_id: int) -> bool:
        return (self.job_id, self.operator_id, subtask_idx, checkpoint_id) in self.table.marks

    def close(self) -> None:
        self.calls.append("close")


class TableSink(GenericWriteAheadSink):
    def __init__(self, table: Table, committer: Marks | None = None, **options: Any) -> None:
        super().__init__(committer, **options)
        self.table = table
        self.sent: list[Any] = []

    def __reduce__(self) -> Any:
        return TableSink, (None, self.committer)

    def send_values(self, values: Iterable[Any], checkpoint_id: int, timestamp: int) -> bool:
        self.table.point()
        taken = list(values)
        self.table.inserted += taken
        if self.committer is None or not self.committer.together:  # type: ignore[attr-defined]
            self.table.commit()
        self.sent.append((checkpoint_id, timestamp, taken))
        return True


def test_values_are_sent_when_their_checkpoint_is_complete() -> None:
    sink = TableSink(Table())
    with OneInputOperatorHarness(sink) as harness:
        harness.process_elements(["a", "b"])
        harness.snapshot(1, 1_000)
        harness.process_element("c")
        assert sink.sent == []
        harness.notify_checkpoint_complete(1)
        assert sink.sent == [(1, 1_000, ["a", "b"])]
        harness.snapshot(2, 2_000)
        harness.notify_checkpoint_aborted(2)
        harness.snapshot(3, 3_000)
        harness.process_element("d")
        harness.notify_checkpoint_complete(3)
        assert sink.sent[1:] == [(2, 2_000, ["c"])], "no values, nothing sent"
        harness.end_input()
        assert len(sink.sent) == 2, "nothing is sent before a checkpoint"
        harness.snapshot(4, 4_000)
        harness.notify_checkpoint_complete(4)
        assert sink.sent[2:] == [(4, 4_000, ["d"])]


def test_a_restore_sends_what_the_checkpoint_holds() -> None:
    with OneInputOperatorHarness(TableSink(Table())) as harness:
        harness.process_element("a")
        kept = harness.snapshot(1, 1_000)
        harness.process_element("lost")
    sink = TableSink(Table())
    again = OneInputOperatorHarness(sink)
    again.restore(kept)
    with again:
        assert sink.sent == [(1, 1_000, ["a"])]
        again.snapshot(2)
        again.notify_checkpoint_complete(2)
        assert len(sink.sent) == 1


@pytest.mark.parametrize("answer", [False, OSError("no answer")])
def test_what_cannot_be_sent_is_tried_again_and_keeps_its_order(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    class Busy(TableSink):
        asked = 0

        def send_values(self, values: Iterable[Any], checkpoint_id: int, timestamp: int) -> bool:
            self.asked += 1
            if self.asked > 1:
                return super().send_values(values, checkpoint_id, timestamp)
            if isinstance(answer, Exception):
                raise answer
            return False

    table = Table()
    sink = Busy(table, Marks(table, True))
    with OneInputOperatorHarness(sink, name="busy") as harness:
        for checkpoint in (1, 2, 3):
            harness.process_element(checkpoint)
            harness.snapshot(checkpoint)
        harness.notify_checkpoint_complete(2)
        assert sink.sent == []
        assert table.marks == set()
        if isinstance(answer, Exception):
            assert "operator 'busy': checkpoint 1 is not sent" in caplog.text
            assert "no answer" in caplog.text
        harness.notify_checkpoint_complete(2)
        assert [checkpoint for checkpoint, _, _ in sink.sent] == [1, 2]


@pytest.mark.parametrize("answer", [False, OSError("no answer")])
def test_at_the_end_of_the_input_the_job_fails_instead(answer: Any) -> None:
    class Broken(TableSink):
        def send_values(self, values: Iterable[Any], checkpoint_id: int, timestamp: int) -> bool:
            if isinstance(answer, Exception):
                raise answer
            return False

    with OneInputOperatorHarness(Broken(Table())) as harness:
        harness.process_element("a")
        harness.end_input()
        harness.snapshot(1)
        with pytest.raises((RuntimeError, UserCodeError), match=r"returned False for checkpoint 1|no answer"):
            harness.notify_checkpoint_complete(1)


def test_send_values_must_say_whether_it_has_sent() -> None:
    class Silent(TableSink):
        def send_values(self, values: Iterable[Any], checkpoint_id: int, timestamp: int) -> Any:
            return None

    with OneInputOperatorHarness(Silent(Table())) as harness:
        harness.process_element("a")
        harness.end_input()
        harness.snapshot(1)
        with pytest.raises(UserCodeError, match="must return whether the values were sent, True or False, got None"):
            harness.notify_checkpoint_complete(1)


def test_the_committer_is_asked_by_job_operator_and_the_subtask_of_then() -> None:
    table = Table()
    kept = []
    for subtask in range(2):
        sink = TableSink(table, Marks(table, True), job_id="shop")
        with OneInputOperatorHarness(sink, parallelism=2, subtask=subtask) as harness:
            harness.process_element(subtask)
            kept.append(harness.snapshot(7))
            if subtask == 1:
                harness.notify_checkpoint_complete(7)
        assert sink.committer.calls == [f"open shop {'0' * 32}", "close"]  # type: ignore[union-attr]
    assert table.marks == {("shop", "0" * 32, 1, 7)}
    sink = TableSink(table, Marks(table, True), job_id="shop")
    again = OneInputOperatorHarness(sink)
    again.restore(*kept)
    with again:
        assert [sent[2] for sent in sink.sent] == [[0]], "the other has been sent"
    assert table.rows == [1, 0]


def test_the_jobs_own_id_is_the_default() -> None:
    table = Table()
    sink = TableSink(table, Marks(table, True))
    with OneInputOperatorHarness(sink):
        assert sink.committer.job_id == "0" * 32  # type: ignore[union-attr]


@pytest.mark.parametrize("serializer", [None, Types.ROW([Types.INT(), Types.STRING()])])
def test_many_values_wait_as_bytes(serializer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_ahead, "CHUNK_RECORDS", 3)
    rows = Types.ROW([Types.INT(), Types.STRING()]).coerce([(number, "x") for number in range(10)])
    sink = TableSink(Table(), serializer=serializer)
    with OneInputOperatorHarness(sink) as harness:
        for row in rows:
            harness.process_element(row)
        kept = harness.snapshot(1)
    again = OneInputOperatorHarness(sink)
    again.restore(kept)
    with again:
        assert sink.sent == [(1, 0, [Row(f0=number, f1="x") for number in range(10)])]


OPTIONS: list[dict[str, Any]] = [
    {"late": True},
    {"parallelism": (2, 3), "gracefully": False},
    {"parallelism": (3, 1), "aborted": (1, 3)},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_killed_anywhere_with_marks_that_are_written_with_the_values(options: dict[str, Any]) -> None:
    def drill(kill_at: Collection[int]) -> Drill:
        nonlocal table
        table = Table()
        made = Drill(lambda: TableSink(table, Marks(table, True)), lambda: table.rows, kill_at, **options)
        table.drill = made
        return made

    table = Table()
    for done in killed_everywhere(drill):
        assert sorted(table.rows) == RECORDS, f"after {done.points} points"


def test_killed_anywhere_with_marks_apart_nothing_is_lost_and_few_are_sent_again() -> None:
    def drill(kill_at: Collection[int]) -> Drill:
        nonlocal table
        table = Table()
        made = Drill(lambda: TableSink(table, Marks(table, False)), lambda: sorted(set(table.rows)), kill_at)
        table.drill = made
        return made

    table = Table()
    repeated = 0
    for done in killed_everywhere(drill):
        assert sorted(set(table.rows)) == RECORDS, f"after {done.points} points"
        repeated += len(table.rows) > len(RECORDS)
    assert repeated > 0, "this is at least once"


def test_bad_arguments() -> None:
    for options, named in (
        ({"committer": "x"}, "committer must be a CheckpointCommitter"),
        ({"serializer": "x"}, "serializer must be a TypeSerializer or one of Types"),
        ({"job_id": ""}, "job_id must be a non-empty string"),
    ):

        class Sink(GenericWriteAheadSink):
            def send_values(self, values: Any, checkpoint_id: int, timestamp: int) -> bool:
                return True

        with pytest.raises(TypeError, match=named):
            Sink(**options)
    with pytest.raises(TypeError, match="abstract"):
        GenericWriteAheadSink()  # type: ignore[abstract]


def test_add_sink_takes_it() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    sink = env.from_collection([1]).add_sink(TableSink(Table()))
    assert sink._transformation.operator.commits
