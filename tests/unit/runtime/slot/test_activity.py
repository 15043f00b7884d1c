"""What a slot says of its processing thread, which a thread of the test plays."""

from __future__ import annotations

import queue
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from tests.waiting import wait_until

from flintstream.runtime.checkpoint.pieces import CheckpointTarget, PieceWriter
from flintstream.runtime.checkpoint.snapshot import OperatorSnapshot
from flintstream.runtime.checkpoint.uploads import SlotSnapshot, SnapshotFailed, Uploads
from flintstream.runtime.context import JobInfo
from flintstream.runtime.operators.stateless import MapOperator
from flintstream.runtime.slot import activity as module
from flintstream.runtime.slot.activity import ActivityMonitor
from flintstream.runtime.slot.handshake import Credentials
from flintstream.runtime.slot.messages import Deploy, ListStaged, Look, Reply, Request
from flintstream.runtime.slot.process import SlotProcess, SlotSpec
from flintstream.testing import OneInputOperatorHarness


class Steps:
    """A function that stops at each record until it is told to go on."""

    def __init__(self) -> None:
        self.at: list[Any] = []
        self.go_on = threading.Semaphore(0)

    def __call__(self, value: Any) -> Any:
        self.at.append(value)
        self.go_on.acquire(timeout=60)
        return value


class Thread:
    """Processes records in a map operator, as a slot does."""

    def __init__(self, harness: Any, values: list[Any]) -> None:
        self.monitor: ActivityMonitor | None = None
        self.begun = threading.Event()
        self.thread = threading.Thread(target=self._run, args=(harness, values), daemon=True)
        self.thread.start()
        assert self.begun.wait(60)

    def _run(self, harness: Any, values: list[Any]) -> None:
        self.monitor = ActivityMonitor()
        self.monitor.begin("processing epoch 1")
        self.begun.set()
        for value in values:
            harness.process_element(value)
        self.monitor.end()


wait_for = partial(wait_until, seconds=60.0)


@pytest.fixture
def steps() -> Iterator[Steps]:
    steps = Steps()
    yield steps
    steps.go_on.release(100)


def test_the_operator_the_call_and_the_stack(steps, monkeypatch):
    monkeypatch.setattr(module, "_SHORT_SECONDS", 0.0)
    operator = MapOperator.__new__(MapOperator)
    operator.function = steps
    with OneInputOperatorHarness(operator) as harness:
        running = Thread(harness, ["a", "b"])
        monitor = running.monitor
        assert monitor is not None
        wait_for(lambda: steps.at == ["a"])
        first = monitor.look()
        assert first.work == "processing epoch 1"
        assert first.operator == operator.context.name
        assert first.subtask == 0
        assert "self.go_on.acquire(timeout=60)" in first.stack
        assert "flintstream/runtime/operators" not in first.stack.split("in __call__")[1]
        time.sleep(0.01)
        assert monitor.look().call_seconds >= 0.01, "the same call as before"
        steps.go_on.release()
        wait_for(lambda: steps.at == ["a", "b"])
        second = monitor.look()
        assert second.call_seconds == 0.0, "another call, although of the same function on the same line"
        assert second.seconds > first.seconds
        steps.go_on.release()
        running.thread.join(60)
        assert monitor.look().work is None


def test_a_slot_that_waits_for_work_says_so():
    monitor = ActivityMonitor()
    assert monitor.look().describe() == "waits for work"
    monitor.begin("deploy")
    assert "opening its operators" in monitor.look().describe()
    monitor.end()
    assert monitor.look().describe() == "waits for work"


def test_a_snapshot_that_is_not_stored_is_told_with_where_it_hangs(monkeypatch):
    hanging, done = threading.Event(), threading.Event()
    told: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def hang(*arguments: Any) -> None:
        hanging.set()
        done.wait(60)

    monkeypatch.setattr(PieceWriter, "write", hang)
    uploads = Uploads(0, told.put)
    monitor = ActivityMonitor()
    assert monitor.look(uploads.since).work is None
    uploads.add(SlotSnapshot(1, CheckpointTarget(None), False, [("a" * 32, "Count", 0, OperatorSnapshot())]))
    assert hanging.wait(60)
    looked = monitor.look(uploads.since)
    assert looked.work == "storing a snapshot"
    assert "done.wait(60)" in looked.stacks()
    done.set()
    assert isinstance(told.get(timeout=60), SnapshotFailed)
    assert monitor.look(uploads.since).work is None


def test_nothing_of_a_call_stays_although_somebody_has_looked_at_it(tmp_path):
    begun, done = threading.Event(), threading.Event()

    class SlowCode:
        """User code that takes long to install."""

        def install(self, directory: str) -> None:
            begun.set()
            done.wait(60)
            raise OSError("no room")

    class State:
        """As large as what a slot restores."""

    replies: queue.SimpleQueue[Reply] = queue.SimpleQueue()
    control: Any = SimpleNamespace(send=replies.put)
    spec = SlotSpec(0, "f" * 32, 0, str(tmp_path / "driver"), Credentials(b"a key"), None)
    slots: queue.SimpleQueue[SlotProcess] = queue.SimpleQueue()

    def run() -> None:
        slot = SlotProcess(spec, control, str(tmp_path))
        slots.put(slot)
        with suppress(AttributeError):
            slot.run()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    slot, state = slots.get(timeout=60), State()
    seen = weakref.ref(state)
    slot.put(Request(1, Deploy(JobInfo("f" * 32, "my job"), SlowCode(), b"", state)))  # type: ignore[arg-type]
    del state
    assert begun.wait(60)
    slot.put(Request(2, Look()))
    looked = replies.get(timeout=60)
    assert (looked.number, looked.result.work) == (2, "deploy")
    done.set()
    failed = replies.get(timeout=60)
    assert failed.number == 1 and failed.fault is not None and "no room" in failed.fault.summary
    slot.put(Request(3, ListStaged()))
    assert replies.get(timeout=60) == Reply(3, {})
    wait_for(lambda: seen() is None)
    slot.put(Request(4, None))  # type: ignore[arg-type]  # Nothing that a slot can do: its thread ends.
    thread.join(60)


def test_threads_of_source_functions_are_shown():
    done = threading.Event()
    thread = threading.Thread(target=done.wait, args=(60,), name="source Numbers", daemon=True)
    thread.start()
    monitor = ActivityMonitor()
    monitor.begin("snapshot")
    assert "thread 'source Numbers' is at" in monitor.look().stacks()
    done.set()
