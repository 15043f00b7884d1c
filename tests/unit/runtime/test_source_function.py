"""Source functions: a thread of user code, drained by epochs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from tests.waiting import wait_until

from flintstream.common import WatermarkStrategy
from flintstream.datastream.functions import SourceFunction
from flintstream.runtime.batch import MAX_WATERMARK
from flintstream.runtime.context import JobInfo
from flintstream.runtime.deployment import OperatorDeployment, VertexDeployment
from flintstream.runtime.faults import UserCodeError
from flintstream.runtime.operators import source_context as module
from flintstream.runtime.operators.source_function import SourceFunctionOperator
from flintstream.runtime.services import SlotServices
from flintstream.runtime.slot.task import Task
from flintstream.runtime.state.checkpointed import ListCheckpointed
from flintstream.runtime.state.operator_state import ListDescriptor
from flintstream.testing import Idleness, Record, Watermark
from flintstream.testing.recording import RecordingOutput


class Source:
    """A task with a source function, driven epoch by epoch."""

    def __init__(self, function: Any, strategy: WatermarkStrategy | None = None) -> None:
        self.notified = threading.Event()
        self.head = SourceFunctionOperator(function, strategy)
        deployed = OperatorDeployment(0, "0" * 32, "Source: F", self.head, None, {}, [])
        vertex = VertexDeployment(0, "Source: F", 0, 1, 128, [deployed], [], [[[]]], [0])
        self.task = Task(vertex, 0, JobInfo("0" * 32, "test"), SlotServices(self.notified.set), lambda *row: None)
        self.output = RecordingOutput("Source: F", 0, None, through_blocks=False)
        self.head.setup(self.head.context, self.output)
        self.task.open()

    def epoch(self, limit: int = 100) -> list[Any]:
        self.output.clear()
        self.head.read_epoch(limit)
        if self.head.exhausted:
            self.task.finish_source()
        self.task.end_epoch()
        return list(self.output.main.elements)

    def join(self) -> Source:
        self.head._thread.join(60)
        assert not self.head._thread.is_alive()
        return self


wait_for = partial(wait_until, seconds=60.0)


class Running:
    """A function made of a plain callable."""

    def __init__(self, run: Callable[[Any], None]) -> None:
        self.run = run


def test_a_strategy_in_the_place_of_the_functions_own_watermarks_and_idleness() -> None:
    def run(ctx: Any) -> None:
        ctx.collect(7)
        ctx.emit_watermark(1_000)
        ctx.collect_with_timestamp(9, 5)
        ctx.mark_as_temporarily_idle()

    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda n, before: n * 10)
    source = Source(Running(run), strategy).join()
    assert source.epoch(1) == [Record(7, 70), Watermark(69)]
    assert source.epoch(1) == []
    assert source.epoch(1) == [Record(9, 90), Watermark(89)]
    assert source.epoch() == [Watermark(MAX_WATERMARK)]


def test_records_watermarks_and_idleness_in_order() -> None:
    def run(ctx: Any) -> None:
        ctx.collect("a")
        ctx.collect_with_timestamp("b", 5)
        ctx.emit_watermark(5)
        ctx.mark_as_temporarily_idle()
        with ctx.get_checkpoint_lock(), ctx.get_checkpoint_lock():
            ctx.collect_with_timestamp("c", 7)
        ctx.emit_watermark(Watermark(8))

    source = Source(run).join()
    assert source.epoch() == [
        Record("a", None),
        Record("b", 5),
        Watermark(5),
        Idleness(True),
        Idleness(False),
        Record("c", 7),
        Watermark(8),
        Watermark(MAX_WATERMARK),
    ]
    assert source.task.finished


def test_tuples_and_named_tuples_are_records() -> None:
    def run(ctx: Any) -> None:
        ctx.collect((1, 2))
        ctx.collect(Watermark(3))

    assert [record.value for record in Source(run).join().epoch()[:2]] == [(1, 2), Watermark(3)]


def test_the_limit_of_an_epoch() -> None:
    def run(ctx: Any) -> None:
        for i in range(5):
            ctx.collect(i)

    source = Source(run).join()
    assert [record.value for record in source.epoch(2)] == [0, 1]
    assert not source.head.exhausted
    assert source.head.has_data()
    assert [record.value for record in source.epoch(2)] == [2, 3]
    assert source.epoch(2) == [Record(4), Watermark(MAX_WATERMARK)]


def test_the_slot_is_told_of_the_first_record_and_of_the_end() -> None:
    go = threading.Event()
    ended = threading.Event()

    def run(ctx: Any) -> None:
        go.wait(60)
        ctx.collect(1)
        ended.wait(60)

    source = _shared(run)
    assert not source.head.has_data()
    assert source.epoch() == []
    go.set()
    assert source.notified.wait(60)
    assert source.epoch() == [Record(1)]
    source.notified.clear()
    ended.set()
    assert source.notified.wait(60)
    assert source.head.has_data()
    assert source.epoch() == [Watermark(MAX_WATERMARK)]


def _shared(run: Callable[[Any], None] | None, function: Any = None, opened: bool = True) -> Source:
    """A source whose function shares events with the test, which a captured function cannot."""
    operator = SourceFunctionOperator.__new__(SourceFunctionOperator)
    operator.function = function if run is None else Running(run)
    source = Source.__new__(Source)
    source.notified = threading.Event()
    source.head = operator
    deployed = OperatorDeployment(0, "0" * 32, "Source: F", operator, None, {}, [])
    vertex = VertexDeployment(0, "Source: F", 0, 1, 128, [deployed], [], [[[]]], [0])
    source.task = Task(vertex, 0, JobInfo("0" * 32, "test"), SlotServices(source.notified.set), lambda *row: None)
    source.output = RecordingOutput("Source: F", 0, None, through_blocks=False)
    operator.setup(operator.context, source.output)
    if opened:
        source.task.open()
    return source


class TestEnds:
    @pytest.mark.parametrize("failure", [ValueError("broken"), SystemExit(3), KeyboardInterrupt()])
    def test_an_exception_comes_after_the_records_before_it(self, failure: BaseException) -> None:
        def run(ctx: Any) -> None:
            ctx.collect(1)
            raise failure

        source = Source(run).join()
        assert not source.head.exhausted
        assert source.head.has_data()
        with pytest.raises(UserCodeError) as caught:
            source.epoch()
        assert source.output.main.elements == [Record(1)]
        fault = caught.value.fault
        assert (fault.operator, fault.subtask, fault.record) == ("Source: F", 0, None)
        assert "in run" in fault.traceback
        assert "source_function.py" not in fault.traceback.replace("test_source_function.py", "")

    def test_cancel_while_blocked_in_collect(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "BUFFER_RECORDS", 10)
        after: list[str] = []

        def run(ctx: Any) -> None:
            try:
                for i in range(100):
                    ctx.collect(i)
            finally:
                after.append("finally")
            after.append("never")

        source = _shared(run)
        wait_for(lambda: len(source.head._source_context._elements) == 10)
        assert source.task.close() == []
        source.join()
        assert after == ["finally"]

    def test_draining_lets_a_blocked_function_go_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "BUFFER_RECORDS", 10)
        source = Source(lambda ctx: [ctx.collect(i) for i in range(25)])
        seen: list[Any] = []
        deadline = time.monotonic() + 60
        while not source.task.finished and time.monotonic() < deadline:
            seen += [e.value for e in source.epoch(7) if isinstance(e, Record)]
        assert seen == list(range(25))

    def test_cancel_is_called_and_close_afterwards(self) -> None:
        calls: list[str] = []
        running = threading.Event()

        class Loop(SourceFunction):
            active = True

            def run(self, ctx: Any) -> None:
                running.set()
                while self.active:
                    time.sleep(0.001)
                calls.append("returned")

            def cancel(self) -> None:
                calls.append("cancel")
                self.active = False

            def close(self) -> None:
                calls.append("close")

        source = _shared(lambda ctx: None)
        source.task.close()
        function = Loop()
        operator = SourceFunctionOperator.__new__(SourceFunctionOperator)
        operator.function = function
        operator.setup(source.head.context, source.output)
        operator.open()
        assert running.wait(60)
        operator.close()
        assert calls == ["cancel", "returned", "close"]

    def test_a_failing_cancel_still_frees_the_thread(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "BUFFER_RECORDS", 1)
        source = _shared(lambda ctx: [ctx.collect(i) for i in range(5)])

        def cancel() -> None:
            raise ValueError("cannot")

        source.head.function.cancel = cancel
        wait_for(lambda: source.head._source_context._elements)
        errors = source.task.close()
        assert [type(error) for error in errors] == [UserCodeError]
        source.join()

    def test_a_function_that_is_done_is_not_cancelled(self) -> None:
        calls: list[str] = []
        source = _shared(lambda ctx: None)
        source.head.function.cancel = lambda: calls.append("cancel")
        source.join().task.close()
        assert calls == []

    def test_a_failing_open_is_told_and_close_works(self) -> None:
        class Failing(SourceFunction):
            def open(self, runtime_context: Any) -> None:
                raise OSError("no connection")

            def run(self, ctx: Any) -> None: ...

        with pytest.raises(UserCodeError, match="no connection"):
            Source(Failing())


class TestTheCheckpointLock:
    """Who emits under the lock waits for room in the buffer, which the thread of the snapshot drains."""

    def test_a_snapshot_gets_the_lock_from_a_function_that_waits_for_room(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "BUFFER_RECORDS", 10)
        source = _shared(None, Numbers())
        wait_for(lambda: len(source.head._source_context._elements) == 10)
        _in_time(lambda: source.head.snapshot_state(1, 0))
        source.task.close()
        assert _stored(source, "list-checkpointed") == [len(_stored(source, "waiting-elements"))]

    def test_what_is_emitted_and_the_state_stay_together_however_often_it_is_taken(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "BUFFER_RECORDS", 100)
        source = _shared(None, Numbers())
        seen = 0
        for checkpoint in range(50):
            seen += len(source.epoch(checkpoint))
            _in_time(lambda: source.head.snapshot_state(1, 0))
            waiting = _stored(source, "waiting-elements")
            assert _stored(source, "list-checkpointed") == [seen + len(waiting)]
            assert len(waiting) <= 101 + checkpoint  # One hold of the lock beyond the buffer's size, for each snapshot.
        source.task.close()

    def test_a_function_that_never_releases_the_lock_is_told_with_its_stack(self) -> None:
        held, done = threading.Event(), threading.Event()

        def run(ctx: Any) -> None:
            with ctx.get_checkpoint_lock():
                held.set()
                done.wait()

        source = _shared(run)
        held.wait()
        source.head.context.checkpoint_timeout = 0.01
        with pytest.raises(UserCodeError, match="'Source: F'.* has not released the checkpoint lock") as caught:
            source.head.snapshot_state(1, 0)
        assert "done.wait()" in caught.value.fault.summary
        done.set()
        source.join().head.snapshot_state(2, 0)

    def test_a_cancel_may_take_the_lock_that_a_waiting_function_holds(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "BUFFER_RECORDS", 10)

        class Locking(Numbers):
            def run(self, ctx: Any) -> None:
                self.lock = ctx.get_checkpoint_lock()
                super().run(ctx)

            def cancel(self) -> None:
                with self.lock:
                    super().cancel()

        source = _shared(None, Locking())
        wait_for(lambda: len(source.head._source_context._elements) == 10)
        _in_time(source.task.close)
        source.join()

    def test_a_restored_source_takes_more_elements_than_its_buffer_holds(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "BUFFER_RECORDS", 10)
        source = _shared(lambda ctx: ctx.collect("new"), opened=False)
        waiting = source.head.context.operator_state.get_list_state(ListDescriptor("waiting-elements"))
        waiting.update([(number, 0) for number in range(25)])
        _in_time(source.task.open)
        seen: list[Any] = []
        while not source.task.finished:
            seen += [element.value for element in source.epoch(7) if isinstance(element, Record)]
        assert seen == [*range(25), "new"]

    def test_it_is_a_reentrant_lock(self) -> None:
        lock = module.CheckpointLock()
        with lock, lock:
            assert not _in_another_thread(lambda: lock.acquire(blocking=False))
            assert not _in_another_thread(lambda: lock.acquire(timeout=0.001))
        assert _in_another_thread(lambda: lock.acquire(timeout=60) and not lock.release())
        with pytest.raises(RuntimeError, match="un-acquired"):
            lock.release()

    def test_a_condition_can_be_made_of_it(self) -> None:
        condition = threading.Condition(module.CheckpointLock())
        told: list[str] = []

        def tell() -> None:
            with condition:
                told.append("now")
                condition.notify()

        with condition, condition:
            threading.Thread(target=tell, daemon=True).start()
            assert condition.wait_for(lambda: told, 60)


class Numbers(SourceFunction, ListCheckpointed):
    """Counts what it has emitted, under the lock."""

    def __init__(self) -> None:
        self.count = 0
        self.active = True

    def run(self, ctx: Any) -> None:
        while self.active:
            with ctx.get_checkpoint_lock():
                ctx.collect(self.count)
                self.count += 1

    def cancel(self) -> None:
        self.active = False

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[int]:
        return [self.count]

    def restore_state(self, state: list[int]) -> None:
        [self.count] = state


def _stored(source: Source, name: str) -> list[Any]:
    return list(source.head.context.operator_state.get_list_state(ListDescriptor(name)))


def _in_time(call: Callable[[], Any]) -> None:
    """Makes a call that must not hang."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()


def _in_another_thread(call: Callable[[], Any]) -> Any:
    results: list[Any] = []
    _in_time(lambda: results.append(call()))
    return results[0]
