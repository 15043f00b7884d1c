"""Slot: tasks fed by a transport and called by a driver, both played by the test."""

from __future__ import annotations

import pickle
import queue
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from flintstream.common import Types, WatermarkStrategy
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.connectors.number_seq import NumberSequenceSource
from flintstream.datastream.functions import KeyedProcessFunction, MapFunction, SourceFunction
from flintstream.datastream.state import ValueStateDescriptor
from flintstream.graph.execution_graph import ExecutionGraph
from flintstream.graph.job_graph import build_job_graph
from flintstream.jobmaster.sources import SplitCoordinator
from flintstream.metrics import MetricValue
from flintstream.runtime.batch import MAX_WATERMARK, Batch
from flintstream.runtime.block import decode_block, encode_block
from flintstream.runtime.checkpoint.pieces import CheckpointTarget
from flintstream.runtime.checkpoint.uploads import SnapshotDone
from flintstream.runtime.context import JobInfo
from flintstream.runtime.deployment import JobDeployment
from flintstream.runtime.faults import UserCodeError, engine_fault
from flintstream.runtime.operators.sinks import PRINT_SPOOL
from flintstream.runtime.slot import slot as slot_module
from flintstream.runtime.slot.fence import EnteredTwice, Refused
from flintstream.runtime.slot.messages import DataReady, SlotFailed, TakeSnapshot
from flintstream.runtime.slot.protocol import EpochReport, Hello, SourceWork
from flintstream.runtime.slot.slot import Slot
from flintstream.runtime.slot.transport import Inlet
from flintstream.runtime.slot.user_code import pickle_operators

JOB = "f" * 32


class Count(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.total = runtime_context.get_int_counter("total")

    def process_element(self, value: int, ctx: Any) -> Iterator[str]:
        self.total.add(1)
        self.count.update((self.count.value() or 0) + 1)
        yield f"{ctx.get_current_key()}: {self.count.value()}"


class FailsToClose(MapFunction):
    def map(self, value: Any) -> Any:
        return value

    def close(self) -> None:
        raise ValueError("it is stuck")


class Hosted:
    """A slot of a job that prints how often it has seen each of the numbers 1 to 6, by their remainder."""

    def __init__(self, number: int = 0, parallelism: int = 2, program: Any = None) -> None:
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(parallelism)
        self.numbers = NumberSequenceSource(1, 6)
        stream = env.from_source(self.numbers, WatermarkStrategy.no_watermarks(), "numbers")
        (program or (lambda stream: stream.key_by(lambda value: value % 2).process(Count())))(stream).print()
        graph = ExecutionGraph(build_job_graph(env.generate_stream_graph()))
        self.told: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.slot = Slot(number, JOB, 0, self.told.put)
        self.sent: list[tuple[Any, ...]] = []
        self.slot.deploy(JobInfo(JOB, "job"), pickle_operators(JobDeployment.of(graph).hosted_by(number)))

    def begin(self, epoch: int = 1, **work: Any) -> None:
        self.slot.begin_epoch(epoch, {0: SourceWork(**{"limit": 100, **work})})

    def enter(self, level: int, epoch: int = 1, sent: list[tuple[Any, ...]] | None = None) -> Inlet:
        sent = self.sent if sent is None else sent
        return self.slot.enter(Hello(JOB, 0, epoch, level, self.slot.number), lambda *block: sent.append(block))

    def splits(self) -> dict[int, list[Any]]:
        coordinator = SplitCoordinator(0, "numbers", 2, self.numbers)
        coordinator.start()
        return coordinator.work(100).splits

    def printed(self, report: EpochReport) -> list[str]:
        [page] = report.first_pages[PRINT_SPOOL]
        return [line.split("> ")[1] for line in pickle.loads(page)]


def keyed_block(*values: int) -> bytes:
    return encode_block(Batch(list(values), None, [value % 2 for value in values]))


@pytest.fixture
def hosted() -> Iterator[Hosted]:
    hosted = Hosted()
    yield hosted
    hosted.slot.release(list(hosted.slot.close().spools))


class TestEpochs:
    def test_what_a_source_reads_leaves_with_its_address(self, hosted):
        hosted.begin(splits=hosted.splits(), complete=True)
        inlet = hosted.enter(0)
        assert hosted.sent == []
        inlet.mark_all()
        # Slot 0 sends on channel 0, to each subtask of vertex 1, which hosts the odd and the even ones.
        assert {address[:5] for address in hosted.sent} == {(slot, 1, 0, 0, 0) for slot in (0, 1)}
        values = [value for *_, block in hosted.sent for value in decode_block(block)[0].values]
        assert sorted(values) == [1, 2, 3]
        report = hosted.slot.end_epoch()
        assert report.levels == {0}
        source = report.vertices[0]
        assert (source.records_in, source.records_out, source.finished) == (3, 3, True)

    def test_a_task_ends_the_epoch_with_the_mark_of_its_last_channel(self, hosted):
        hosted.begin()
        inlet = hosted.enter(1)
        inlet.receive(1, 0, 0, keyed_block(2, 4))
        inlet.mark(1, 0)
        inlet.receive(1, 0, 1, keyed_block(6))
        assert hosted.slot.end_epoch().levels == frozenset(), "the other channel has more"
        inlet.mark(1, 1)
        report = hosted.slot.end_epoch()
        assert report.levels == {1}
        assert report.accumulators["total"].get_local_value() == 3
        with pytest.raises(KeyError):
            inlet.mark(1, 1)

    def test_the_end_of_a_shuffle_marks_what_is_open(self, hosted):
        hosted.begin()
        inlet = hosted.enter(1)
        inlet.mark(1, 0)
        inlet.receive(1, 0, 1, keyed_block(6))
        inlet.mark_all()
        report = hosted.slot.end_epoch()
        assert report.levels == {1}
        assert hosted.printed(report) == ["0: 1"]
        assert report.busy.keys() == {1}

    def test_levels_may_be_open_at_once_and_each_sends_to_its_own_outlet(self):
        hosted = Hosted(program=lambda stream: stream.rebalance().map(lambda value: -value).rebalance())
        hosted.begin(splits=hosted.splits(), complete=True)
        by_source: list[Any] = []
        by_map: list[Any] = []
        source, negative, sink = (hosted.enter(level, sent=sent) for level, sent in enumerate((by_source, by_map, [])))
        source.mark_all()
        negative.receive(1, 0, 1, encode_block(Batch([7])))
        for slot, *_, channel, _, block in by_source:
            if slot == 0:
                negative.receive(1, 0, channel, block)
        negative.mark_all()
        sink.mark_all()
        assert {vertex for _, vertex, *_ in by_source} == {1}
        assert {vertex for _, vertex, *_ in by_map} == {2}
        values = [value for *_, block in by_map for value in decode_block(block)[0].values]
        assert sorted(values) == [-7, -3, -1]
        assert hosted.slot.end_epoch().levels == {0, 1, 2}
        hosted.slot.close()

    def test_state_stays_from_epoch_to_epoch(self, hosted):
        for epoch in (1, 2):
            hosted.begin(epoch)
            inlet = hosted.enter(1, epoch)
            inlet.receive(1, 0, 0, keyed_block(2))
            inlet.mark_all()
            assert hosted.printed(hosted.slot.end_epoch()) == [f"0: {epoch}"]

    def test_a_drained_source_ends_without_reading(self, hosted):
        hosted.begin(splits=hosted.splits(), drain=True)
        hosted.enter(0).mark_all()
        report = hosted.slot.end_epoch().vertices[0]
        assert (report.records_out, report.finished) == (0, True)


class TestFailures:
    def test_a_level_that_is_entered_twice_is_refused(self, hosted):
        hosted.begin()
        hosted.enter(0)
        with pytest.raises(EnteredTwice):
            hosted.enter(0)

    def test_after_a_failure_nobody_enters_and_the_driver_knows(self, hosted):
        hosted.begin()
        hosted.slot.fail(engine_fault(ValueError("broken")))
        told = hosted.told.get(timeout=0)
        assert isinstance(told, SlotFailed) and "broken" in told.fault.summary
        with pytest.raises(Refused, match="has failed"):
            hosted.enter(0)

    def test_a_function_that_fails_names_its_operator(self):
        hosted = Hosted(program=lambda stream: stream.rebalance().map(lambda value: 1 // (value - 2)).name("Divide"))
        hosted.begin()
        inlet = hosted.enter(1)
        with pytest.raises(UserCodeError, match="'Divide'"):
            inlet.receive(1, 0, 0, encode_block(Batch([1, 2])))
        hosted.slot.close()

    def test_nothing_is_sent_outside_of_an_epoch(self, hosted):
        hosted.begin(splits=hosted.splits(), complete=True)
        hosted.enter(0).mark_all()
        with pytest.raises(AssertionError, match="outside an epoch"):
            hosted.slot.tasks[0].outlet(0, 1, 0, 0, 0, b"")

    def test_a_function_that_cannot_be_closed(self):
        hosted = Hosted(program=lambda stream: stream.rebalance().map(FailsToClose()))
        with pytest.raises(Exception, match="it is stuck"):
            hosted.slot.close()


class TestResults:
    def test_a_small_spool_comes_with_the_report_and_is_empty_then(self, hosted):
        hosted.begin()
        inlet = hosted.enter(1)
        inlet.receive(1, 0, 0, keyed_block(2))
        inlet.mark_all()
        assert hosted.slot.end_epoch().spools == {PRINT_SPOOL: 1}
        assert hosted.slot.pages(PRINT_SPOOL) == 0
        assert hosted.slot.end_epoch().spools == {}

    def test_a_large_one_is_fetched_in_parts_and_released(self, hosted, monkeypatch):
        monkeypatch.setattr(slot_module, "_REPLY_BYTES", 150_000)
        hosted.begin()
        inlet = hosted.enter(1)
        inlet.receive(1, 0, 0, keyed_block(*([2] * 30_000)))
        inlet.mark_all()
        report = hosted.slot.end_epoch()
        parts = [report.first_pages[PRINT_SPOOL]]
        while (fetched := sum(map(len, parts))) < report.spools[PRINT_SPOOL]:
            parts.append(hosted.slot.fetch(PRINT_SPOOL, fetched))
        assert len(parts) > 1
        assert all(1 <= len(part) < report.spools[PRINT_SPOOL] and sum(map(len, part)) <= 150_000 for part in parts)
        assert [f"1> 0: {count}" for count in range(1, 30_001)] == [
            line for part in parts for page in part for line in pickle.loads(page)
        ]

    def test_a_page_that_is_larger_than_a_reply_is_fetched_alone(self, hosted, monkeypatch):
        monkeypatch.setattr(slot_module, "_REPLY_BYTES", 10)
        hosted.begin()
        inlet = hosted.enter(1)
        inlet.receive(1, 0, 0, keyed_block(*([2] * 5000)))
        inlet.mark_all()
        report = hosted.slot.end_epoch()
        assert report.first_pages == {PRINT_SPOOL: []}
        assert {len(hosted.slot.fetch(PRINT_SPOOL, page)) for page in range(report.spools[PRINT_SPOOL])} == {1}
        hosted.slot.release([PRINT_SPOOL])
        assert hosted.slot.pages(PRINT_SPOOL) == 0
        assert hosted.slot.staged() == {}

    def test_a_snapshot_is_stored_and_told_of(self, hosted):
        hosted.begin()
        inlet = hosted.enter(1)
        inlet.receive(1, 0, 0, keyed_block(2))
        inlet.mark_all()
        hosted.slot.snapshot(TakeSnapshot(3, 0, CheckpointTarget(None)))
        done = hosted.told.get(timeout=60)
        assert isinstance(done, SnapshotDone) and done.checkpoint_id == 3
        hosted.slot.checkpoint_complete(3)


class TestDataReady:
    def test_is_told_once_until_the_next_epoch(self, hosted):
        hosted.begin()
        hosted.slot.notify_data()
        hosted.slot.notify_data()
        assert hosted.told.get(timeout=0) == DataReady(0)
        assert hosted.told.empty()
        hosted.begin(2)
        hosted.slot.notify_data()
        assert hosted.told.get(timeout=0) == DataReady(0)

    def test_a_source_function_tells_that_it_has_data(self):
        class One(SourceFunction):
            def run(self, ctx: Any) -> None:
                ctx.collect(1)

        env = StreamExecutionEnvironment.get_execution_environment()
        env.add_source(One()).print()
        graph = ExecutionGraph(build_job_graph(env.generate_stream_graph()))
        told: queue.SimpleQueue[Any] = queue.SimpleQueue()
        slot = Slot(0, JOB, 0, told.put)
        slot.deploy(JobInfo(JOB, "job"), pickle_operators(JobDeployment.of(graph).hosted_by(0)))
        slot.begin_epoch(1, {0: SourceWork(10)})
        slot.enter(Hello(JOB, 0, 1, 0, 0), lambda *sent: None).mark_all()
        assert told.get(timeout=60) == DataReady(0)
        slot.close()


class TestMetrics:
    """What a slot counts for the metrics of its tasks."""

    def test_records_bytes_and_times_of_a_task(self, hosted):
        hosted.begin(splits=hosted.splits(), complete=True)
        slow = hosted.slot.enter(Hello(JOB, 0, 1, 0, 0), lambda *block: time.sleep(0.02))
        slow.mark_all()
        inlet = hosted.enter(1)
        block = keyed_block(2, 4)
        inlet.receive(1, 0, 0, block)
        inlet.mark_all()
        source, counter = hosted.slot.end_epoch().vertices
        assert source.bytes_in == 0 and source.bytes_out > 0
        assert (counter.records_in, counter.bytes_in, counter.bytes_out) == (2, len(block), 0)
        assert source.blocked >= 0.04, "two blocks could not be handed on for 0.02 s each"
        assert counter.blocked == 0 and counter.busy > 0
        assert source.busy + source.blocked == pytest.approx(
            sum(hosted.slot.end_epoch().busy.values()) - counter.busy, rel=1e-6
        )

    def test_operators_count_what_they_take_and_give(self):
        hosted = Hosted(program=lambda stream: stream.filter(lambda value: value > 2).map(lambda value: -value))
        hosted.begin(splits={0: hosted.splits()[1]}, complete=True)
        hosted.enter(0).mark_all()
        (task,) = hosted.slot.end_epoch().vertices
        counts = [(operator.records_in, operator.records_out) for operator in task.operators]
        assert counts == [(3, 3), (3, 3), (3, 3), (3, 0)], "source, filter, map and sink, of 4, 5 and 6"
        assert [operator.input_watermark for operator in task.operators] == [MAX_WATERMARK] * 4
        assert [operator.late_records for operator in task.operators] == [None] * 4
        hosted.slot.release(list(hosted.slot.close().spools))

    def test_a_source_that_must_stop_is_held_back(self, hosted):
        hosted.begin(splits=hosted.splits(), limit=2)
        hosted.enter(0).mark_all()
        assert hosted.slot.end_epoch().vertices[0].held_back, "its limit was reached"
        hosted.begin(2, limit=2)
        hosted.enter(0, 2).mark_all()
        assert not hosted.slot.end_epoch().vertices[0].held_back, "there is no more"

    def test_another_thread_sees_the_time_so_far(self, hosted):
        hosted.begin()
        (task,) = [task for task in hosted.slot.tasks if task.vertex.vertex_id == 1]
        task.start_work()
        first = task.report().busy
        time.sleep(0.01)
        assert task.report().busy >= first + 0.01
        seconds = task.stop_work()
        assert task.report().busy == seconds

    def test_metrics_of_functions_are_reported_by_operator(self):
        class Measured(MapFunction):
            def open(self, runtime_context: Any) -> None:
                self.seen = runtime_context.get_metrics_group().add_group("kind", "odd").counter("seen")
                runtime_context.get_metrics_group().gauge("open", lambda: self.is_open)
                self.is_open = True

            def map(self, value: int) -> int:
                self.seen.inc()
                return value

            def close(self) -> None:
                self.seen.inc(100)
                self.is_open = False

        hosted = Hosted(program=lambda stream: stream.map(Measured()))
        operator_id = hosted.slot.tasks[0].vertex.operators[1].operator_id
        hosted.begin(splits=hosted.splits(), complete=True)
        hosted.enter(0).mark_all()
        (task,) = hosted.slot.end_epoch().vertices
        counted = MetricValue("kind.odd.seen", "counter", 3, {"kind": "odd"}, "kind.seen")
        assert task.metrics is not None and counted in task.metrics[operator_id]
        assert hosted.slot.end_epoch().vertices[0].metrics is None, "at most once a second"
        hosted.slot.release(list(hosted.slot.end_epoch().spools))
        (task,) = hosted.slot.close().vertices
        assert task.metrics == {
            operator_id: [
                MetricValue("open", "gauge", True, {}, "open"),  # as it was before the function was closed
                counted._replace(value=103),
            ]
        }

    def test_another_thread_may_measure_while_an_epoch_runs(self, hosted):
        hosted.begin(splits=hosted.splits(), complete=True)
        hosted.enter(0)
        reports: list[Any] = []
        asker = threading.Thread(target=lambda: reports.extend(hosted.slot.measure()))
        asker.start()
        asker.join(60)
        assert [(report.vertex_id, report.positions) for report in reports] == [(0, {}), (1, {})]
