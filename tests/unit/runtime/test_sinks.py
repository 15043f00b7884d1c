"""print, collect, sink functions; and the spools in which results wait."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from flintstream.common import Row, Types
from flintstream.runtime import services
from flintstream.runtime.batch import MIN_WATERMARK, Batch
from flintstream.runtime.operators.base import OperatorContext
from flintstream.runtime.operators.sinks import CollectOperator, PrintOperator, SparkWriterOperator
from flintstream.runtime.services import SlotServices, Spool
from flintstream.runtime.state.operator_state import OperatorStateBackend, OperatorStateSnapshot
from flintstream.testing import OneInputOperatorHarness


class TestPrint:
    @pytest.mark.parametrize(
        ("identifier", "parallelism", "subtask", "line"),
        [
            (None, 1, 0, "5"),
            (None, 2, 0, "1> 5"),
            (None, 12, 10, "11> 5"),
            ("out", 1, 0, "out> 5"),
            ("out", 2, 1, "out:2> 5"),
            ("", 1, 0, "5"),
        ],
    )
    def test_prefixes(self, identifier: str | None, parallelism: int, subtask: int, line: str) -> None:
        with OneInputOperatorHarness(
            PrintOperator(identifier, None), parallelism=parallelism, subtask=subtask
        ) as harness:
            harness.process_element(5)
            assert harness.printed == [line]

    def test_the_type_decides_how_a_value_looks(self) -> None:
        declared = Types.ROW([Types.INT(), Types.STRING()])
        with OneInputOperatorHarness(PrintOperator(None, declared)) as harness:
            harness.process_elements([Row(1, "a"), Row(2, None)])
            assert harness.printed == ["+I[1,a]", "+I[2,None]"]

    def test_order_and_batches(self) -> None:
        with OneInputOperatorHarness(PrintOperator(None, None)) as harness:
            harness.process_elements(["a", "b"])
            harness.process_element("c")
            harness.process_watermark(5)
            harness.end_input()
            assert harness.printed == ["a", "b", "c"]
            assert harness.output == []
            assert not harness.finished, "nothing comes behind a sink"


def test_collect_puts_values_aside_under_its_id() -> None:
    with OneInputOperatorHarness(CollectOperator("mine")) as harness:
        harness.process_elements([1, None, (2, "x")], timestamps=[1, 2, 3])
        assert harness.spooled("mine") == [1, None, (2, "x")]
        assert harness.spooled("other") == []


class TestSinkFunction:
    def test_with_the_value_only(self) -> None:
        taken: list[Any] = []

        class Sink:
            def invoke(self, value: Any) -> None:
                taken.append(value)

        with OneInputOperatorHarness(Sink()) as harness:
            harness.process_elements([1, 2])
            harness.process_element(3, timestamp=5)
        assert taken == [1, 2, 3]

    @pytest.mark.parametrize("optional", [False, True])
    def test_with_a_context(self, optional: bool) -> None:
        taken: list[Any] = []

        class Sink:
            def invoke(self, value: Any, context: Any) -> None:
                taken.append((value, context.timestamp(), context.current_watermark()))
                assert context.current_processing_time() > 1_600_000_000_000

        class Optional(Sink):
            def invoke(self, value: Any, context: Any = None) -> None:
                super().invoke(value, context)

        with OneInputOperatorHarness(Optional() if optional else Sink()) as harness:
            harness.process_element("a")
            harness.process_elements("bc", timestamps=[1, 2])
            harness.process_watermark(9)
            harness.process_element("d")
        assert taken == [
            ("a", None, MIN_WATERMARK),
            ("b", 1, MIN_WATERMARK),
            ("c", 2, MIN_WATERMARK),
            ("d", None, 9),
        ]

    @pytest.mark.parametrize("parameters", [1, 2])
    def test_plain_callables(self, parameters: int) -> None:
        taken: list[Any] = []
        functions = {1: lambda value: taken.append((value,)), 2: lambda *args: taken.append(args)}
        with OneInputOperatorHarness(functions[parameters], kind="sink") as harness:
            harness.process_elements([1, 2])
        assert [(args[0], len(args)) for args in taken] == [(1, parameters), (2, parameters)]

    def test_finish_comes_before_close_and_only_at_the_end_of_input(self) -> None:
        calls: list[str] = []

        class Sink:
            def invoke(self, value: Any) -> None: ...

            def finish(self) -> None:
                calls.append("finish")

            def close(self) -> None:
                calls.append("close")

        with OneInputOperatorHarness(Sink()) as harness:
            harness.end_input()
        assert calls == ["finish", "close"]
        calls.clear()
        with OneInputOperatorHarness(Sink()):
            pass
        assert calls == ["close"]


class TestSparkWriter:
    def opened(self, services: SlotServices, restored: OperatorStateSnapshot | None = None) -> SparkWriterOperator:
        state, nowhere = OperatorStateBackend("table"), None
        if restored is not None:
            state.restore(restored)
        writer = SparkWriterOperator(None, None)
        writer.setup(
            OperatorContext(
                *("table", "0" * 32, 0, 1, nowhere, nowhere, services),  # type: ignore[arg-type]
                operator_state=state,
                checkpointing=True,
            ),
            nowhere,  # type: ignore[arg-type]
        )
        writer.open()
        return writer

    def staged(self, services: SlotServices, writer: SparkWriterOperator) -> dict[int | None, list[Any]]:
        return {
            writer.staged_checkpoint(name): [pickle.loads(spool.page(page)) for page in range(spool.pages)]
            for name, spool in services.spools.items()
            if spool.staged
        }

    def snapshot(self, writer: SparkWriterOperator, checkpoint_id: int) -> OperatorStateSnapshot:
        writer.snapshot_state(checkpoint_id, 0)
        return writer.context.operator_state.snapshot()

    def test_records_are_staged_for_their_checkpoint_and_part_of_it_until_they_are_handed_over(self) -> None:
        writer = self.opened(slot := SlotServices())
        writer.process(Batch(["a"]))
        self.snapshot(writer, 1)
        writer.process(Batch(["b"]))
        writer.process(Batch(["c"]))
        kept = self.snapshot(writer, 2)
        self.snapshot(writer, 3)
        assert self.staged(slot, writer) == {1: [["a"]], 2: [["b"], ["c"]]}, "no records, nothing staged"
        again = self.opened(slot_again := SlotServices(), kept)
        assert self.staged(slot_again, again) == {1: [["a"]], 2: [["b"], ["c"]]}
        (_, _, left) = self.snapshot(again, 4).states["staged"]
        assert left == [], "the driver writes what was restored before the next checkpoint"
        writer.notify_checkpoint_complete(1)
        (_, _, left) = self.snapshot(writer, 5).states["staged"]
        assert [(number, pickle.loads(page)) for number, page in left] == [(2, ["b"]), (2, ["c"])]
        for spool in [*slot.spools.values(), *slot_again.spools.values()]:
            spool.clear()


@pytest.fixture
def spool() -> Iterator[Spool]:
    made = Spool()
    yield made
    made.clear()


class TestSpool:
    def test_pages(self, spool: Spool) -> None:
        assert spool.pages == 0
        spool.append(list(range(services.PAGE_RECORDS + 1)))
        spool.append([])
        spool.append(["last"])
        assert (spool.pages, spool.records) == (3, services.PAGE_RECORDS + 2)
        pages = [pickle.loads(spool.page(number)) for number in range(3)]
        assert [len(page) for page in pages] == [services.PAGE_RECORDS, 1, 1]
        assert [record for page in pages for record in page] == [*range(services.PAGE_RECORDS + 1), "last"]

    def test_pages_can_be_read_again_in_any_order_and_between_writes(self, spool: Spool) -> None:
        spool.append([1])
        assert pickle.loads(spool.page(0)) == [1]
        spool.append([2])
        assert [pickle.loads(spool.page(number)) for number in (1, 0, 1)] == [[2], [1], [2]]

    def test_large_ones_wait_on_disk(self, spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(services, "_MEMORY_BYTES", 1000)
        for number in range(10):
            spool.append([f"{number}" * 1000])
        assert spool._file is not None
        assert spool._file._rolled  # type: ignore[attr-defined]
        assert pickle.loads(spool.page(3)) == ["3" * 1000]

    def test_clear(self, spool: Spool) -> None:
        spool.append([1])
        spool.clear()
        assert (spool.pages, spool.records) == (0, 0)
        spool.clear()
        spool.append([2])
        assert pickle.loads(spool.page(0)) == [2]

    def test_local_classes(self, spool: Spool) -> None:
        class Local:
            pass

        spool.append([Local()])
        assert type(pickle.loads(spool.page(0))[0]) is Local

    def test_a_slot_has_one_spool_a_name(self) -> None:
        slot = SlotServices()
        assert slot.spool("a") is slot.spool("a")
        assert slot.spool("a") is not slot.spool("b")
        assert list(slot.spools) == ["a", "b"]
