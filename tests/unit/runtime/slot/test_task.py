"""Task: channels in, a chain of operators, edges out."""

from __future__ import annotations

from typing import Any

import pytest

from flintstream.graph.partitioners import (
    BroadcastPartitioner,
    ForwardPartitioner,
    RebalancePartitioner,
    StreamPartitioner,
)
from flintstream.runtime.batch import MAX_WATERMARK, Batch
from flintstream.runtime.block import EndOfInput, Idleness, Watermark, decode_block, encode_block
from flintstream.runtime.context import JobInfo
from flintstream.runtime.deployment import EdgeDeployment, OperatorDeployment, VertexDeployment
from flintstream.runtime.operators.base import Operator
from flintstream.runtime.operators.process import ProcessOperator
from flintstream.runtime.operators.stateless import MapOperator
from flintstream.runtime.services import SlotServices
from flintstream.runtime.slot.task import Task


class Spy(Operator):
    """Writes down what it is told, and passes it on."""

    def __init__(self, name: str, log: list[Any], two_inputs: bool = False) -> None:
        self.name = name
        self.log = log
        self.two_inputs = two_inputs
        self.fails_on_close = False

    def open(self) -> None:
        self.log.append((self.name, "open"))

    def process(self, batch: Batch) -> None:
        self.log.append((self.name, list(batch.values)))
        self.output.emit(batch)

    def process2(self, batch: Batch) -> None:
        self.log.append((self.name, "second", list(batch.values)))
        self.output.emit(batch)

    def process_watermark(self, timestamp: int) -> None:
        self.log.append((self.name, "watermark", timestamp))
        super().process_watermark(timestamp)

    def process_idleness(self, idle: bool) -> None:
        self.log.append((self.name, "idle", idle))
        super().process_idleness(idle)

    def end_epoch(self) -> None:
        self.log.append((self.name, "end_epoch"))

    def end_input(self, input_index: int) -> None:
        self.log.append((self.name, "end_input", input_index))

    def finish(self) -> None:
        self.log.append((self.name, "finish"))
        super().finish()

    def close(self) -> None:
        self.log.append((self.name, "close"))
        if self.fails_on_close:
            raise ValueError(self.name)


def edge(
    node_id: int,
    partitioner: StreamPartitioner,
    slots: list[int],
    base: int = 50,
    side_tag: str | None = None,
) -> EdgeDeployment:
    targets = [list(range(len(slots)))]
    return EdgeDeployment(node_id, side_tag, partitioner, 9, 1, base, slots, 128, targets)


def make_task(
    operators: list[Operator],
    inputs: list[list[int]],
    edges: list[EdgeDeployment] | None = None,
    chained: dict[int, list[tuple[int, str | None]]] | None = None,
) -> tuple[Task, list[tuple[Any, ...]]]:
    """A task whose operators stand in line, unless `chained` says otherwise; and the rows it emits."""
    if chained is None:
        chained = {i: [(i + 1, None)] for i in range(len(operators) - 1)}
    deployed = [
        OperatorDeployment(i, "0" * 32, f"op {i}", operator, None, {}, chained.get(i, []))
        for i, operator in enumerate(operators)
    ]
    vertex = VertexDeployment(3, "chain", 1, 1, 128, deployed, edges or [], [inputs], [0])
    rows: list[tuple[Any, ...]] = []
    task = Task(vertex, 0, JobInfo("0" * 32, "test"), SlotServices(), lambda *row: rows.append(row))
    return task, rows


def block(values: list[Any], *controls: tuple[int, Any]) -> bytes:
    return encode_block(Batch(values), list(controls))


class TestControlElements:
    def test_in_the_middle_of_a_block(self) -> None:
        log: list[Any] = []
        task, _ = make_task([Spy("a", log)], [[0]])
        task.receive(0, 0, block([1, 2, 3], (0, Watermark(1)), (2, Watermark(2)), (2, Watermark(3)), (3, Watermark(4))))
        assert log == [
            ("a", "watermark", 1),
            ("a", [1, 2]),
            ("a", "watermark", 2),
            ("a", "watermark", 3),
            ("a", [3]),
            ("a", "watermark", 4),
        ]
        assert task.records_in == 3

    def test_a_block_without_them_is_one_batch(self) -> None:
        log: list[Any] = []
        task, _ = make_task([Spy("a", log)], [[0]])
        task.receive(0, 0, memoryview(block([1, 2])))
        assert log == [("a", [1, 2])]

    def test_keys_and_timestamps_are_cut_along(self) -> None:
        seen: list[Batch] = []
        spy = Spy("a", [])
        spy.process = seen.append  # type: ignore[assignment]
        task, _ = make_task([spy], [[0]])
        task.receive(0, 0, encode_block(Batch([1, 2], [10, 20], ["x", "y"]), [(1, Watermark(5))]))
        assert [(b.values, b.timestamps, b.keys) for b in seen] == [([1], [10], ["x"]), ([2], [20], ["y"])]

    def test_idleness_is_told_once_all_channels_are(self) -> None:
        log: list[Any] = []
        task, _ = make_task([Spy("a", log)], [[0, 1]])
        task.receive(0, 0, block([], (0, Watermark(5)), (0, Idleness(True))))
        assert log == []
        task.receive(0, 1, block([], (0, Idleness(True))))
        task.receive(0, 1, block([], (0, Idleness(True))))
        task.receive(0, 1, block([7], (0, Idleness(False))))
        assert log == [("a", "watermark", 5), ("a", "idle", True), ("a", "idle", False), ("a", [7])]


class TestEndOfInput:
    def test_waits_for_every_channel(self) -> None:
        log: list[Any] = []
        task, _ = make_task([Spy("a", log)], [[0, 1]])
        task.receive(0, 0, block([1], (1, Watermark(MAX_WATERMARK)), (1, EndOfInput())))
        assert not task.finished
        assert log == [("a", [1])]
        task.receive(0, 1, block([2], (1, Watermark(MAX_WATERMARK)), (1, EndOfInput())))
        assert task.finished
        assert log[1:] == [
            ("a", [2]),
            ("a", "watermark", MAX_WATERMARK),
            ("a", "end_input", 0),
            ("a", "finish"),
        ]

    def test_the_last_watermark_comes_even_if_a_channel_did_not_send_it(self) -> None:
        log: list[Any] = []
        task, _ = make_task([Spy("a", log)], [[0]])
        task.receive(0, 0, block([], (0, EndOfInput())))
        assert log[0] == ("a", "watermark", MAX_WATERMARK)

    def test_two_inputs_end_one_by_one(self) -> None:
        log: list[Any] = []
        task, _ = make_task([Spy("a", log, two_inputs=True)], [[0, 1], [5]])
        task.receive(1, 5, block(["x"]))
        task.receive(0, 0, block(["y"]))
        task.receive(1, 5, block([], (0, EndOfInput())))
        assert log == [("a", "second", ["x"]), ("a", ["y"]), ("a", "end_input", 1)]
        task.receive(0, 1, block([], (0, EndOfInput())))
        assert not task.finished
        task.receive(0, 0, block([], (0, EndOfInput())))
        assert log[3:] == [("a", "watermark", MAX_WATERMARK), ("a", "end_input", 0), ("a", "finish")]
        assert task.finished

    def test_a_chain_finishes_from_head_to_tail(self) -> None:
        log: list[Any] = []
        task, _ = make_task([Spy("a", log), Spy("b", log), Spy("c", log)], [[0]])
        task.receive(0, 0, block([], (0, EndOfInput())))
        assert [entry for entry in log if entry[1] == "finish"] == [
            ("a", "finish"),
            ("b", "finish"),
            ("c", "finish"),
        ]

    def test_no_operator_hears_of_epochs_after_its_end(self) -> None:
        log: list[Any] = []
        task, _ = make_task([Spy("a", log)], [[0]])
        task.end_epoch()
        assert log == [("a", "end_epoch")]
        task.receive(0, 0, block([], (0, EndOfInput())))
        del log[:]
        task.end_epoch()
        assert log == []

    def test_the_end_reaches_every_channel_of_every_edge(self) -> None:
        task, rows = make_task(
            [MapOperator(str)],
            [[0]],
            [edge(0, RebalancePartitioner(), [4, 5]), edge(0, ForwardPartitioner(), [6], 70)],
        )
        task.open()
        task.receive(0, 0, block([1], (1, EndOfInput())))
        assert rows == [], "sent at the end of the epoch"
        task.end_epoch()
        ends = {row[0]: decode_block(row[5])[1] for row in rows}
        assert set(ends) == {4, 5, 6}
        assert all(
            [e for _, e in controls or []][-2:] == [Watermark(MAX_WATERMARK), EndOfInput()]
            for controls in ends.values()
        )


class TestChain:
    def test_opened_from_tail_to_head_closed_all(self) -> None:
        log: list[Any] = []
        operators = [Spy("a", log), Spy("b", log), Spy("c", log)]
        operators[0].fails_on_close = operators[1].fails_on_close = True
        task, _ = make_task(list(operators), [[0]])
        task.open()
        assert log == [("c", "open"), ("b", "open"), ("a", "open")]
        del log[:]
        errors = task.close()
        assert sorted(name for name, _ in log) == ["a", "b", "c"]
        assert [str(error) for error in errors] == ["a", "b"]

    def test_branches(self) -> None:
        log: list[Any] = []
        task, _ = make_task([Spy("a", log), Spy("b", log), Spy("c", log)], [[0]], chained={0: [(1, None), (2, None)]})
        task.receive(0, 0, block([1], (1, Watermark(5))))
        assert log == [
            ("a", [1]),
            ("b", [1]),
            ("c", [1]),
            ("a", "watermark", 5),
            ("b", "watermark", 5),
            ("c", "watermark", 5),
        ]

    def test_a_chained_operator_behind_a_side_output(self) -> None:
        from flintstream.common.output_tag import OutputTag

        tag = OutputTag("odd")

        def split(value: int, ctx: Any) -> Any:
            yield (tag, value) if value % 2 else value

        log: list[Any] = []
        task, _ = make_task(
            [ProcessOperator(split), Spy("main", log), Spy("side", log)],
            [[0]],
            chained={0: [(1, None), (2, "odd")]},
        )
        task.open()
        del log[:]
        task.receive(0, 0, block([1, 2, 3], (3, Watermark(9))))
        assert sorted(log, key=str) == [
            ("main", "watermark", 9),
            ("main", [2]),
            ("side", "watermark", 9),
            ("side", [1, 3]),
        ]

    def test_records_are_counted(self) -> None:
        task, _ = make_task([MapOperator(str)], [[0]], [edge(0, ForwardPartitioner(), [0])])
        task.open()
        task.receive(0, 0, block([1, 2]))
        task.receive(0, 0, block([3]))
        assert (task.records_in, task.records_out) == (3, 3)


class TestRows:
    def test_address_channel_and_sequence(self) -> None:
        task, rows = make_task([MapOperator(str)], [[0]], [edge(0, RebalancePartitioner(), [4, 5])])
        task.open()
        for epoch in range(2):
            task.receive(0, 0, block([1, 2]))
            task._writers[0].flush()
            task.receive(0, 0, block([3]))
            task.end_epoch()
            # Slot, vertex, input, channel, number: the numbers start anew in each epoch, for each target.
            assert [row[:5] for row in rows] == [
                (4, 9, 1, 50, 0),
                (5, 9, 1, 50, 0),
                ((4, 5)[epoch], 9, 1, 50, 1),
            ]
            del rows[:]

    def test_an_epoch_without_records_sends_nothing(self) -> None:
        task, rows = make_task([MapOperator(str)], [[0]], [edge(0, BroadcastPartitioner(), [4, 5])])
        task.open()
        task.end_epoch()
        assert rows == []

    def test_a_side_output_has_an_edge_of_its_own(self) -> None:
        from flintstream.common.output_tag import OutputTag

        tag = OutputTag("odd")

        def split(value: int, ctx: Any) -> Any:
            yield (tag, value) if value % 2 else value

        task, rows = make_task(
            [ProcessOperator(split)],
            [[0]],
            [edge(0, ForwardPartitioner(), [4]), edge(0, ForwardPartitioner(), [5], 60, "odd")],
        )
        task.open()
        task.receive(0, 0, block([1, 2, 3]))
        task.end_epoch()
        assert {row[0]: decode_block(row[5])[0].values for row in rows} == {4: [2], 5: [1, 3]}


def test_union_channels_are_one_input() -> None:
    log: list[Any] = []
    task, _ = make_task([Spy("a", log)], [[10, 20]])
    task.receive(0, 20, block([1], (1, Watermark(8))))
    task.receive(0, 10, block([2], (1, Watermark(3))))
    assert log == [("a", [1]), ("a", [2]), ("a", "watermark", 3)]


@pytest.mark.parametrize(("dues", "expected"), [([None, None], None), ([5.0, None], 5.0), ([5.0, 3.0], 3.0)])
def test_the_earliest_due_time_counts(dues: list[float | None], expected: float | None) -> None:
    spies = [Spy("a", []), Spy("b", [])]
    for spy, due in zip(spies, dues, strict=True):
        spy.next_due = lambda due=due: due  # type: ignore[method-assign,misc]
    task, _ = make_task(list(spies), [[0]])
    assert task.next_due() == expected
