"""Stacks of a slot's threads, sampled while they work."""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager
from typing import Any

import pytest
from tests.waiting import wait_until

from flintstream.datastream.functions import MapFunction
from flintstream.runtime.slot.messages import ReadStacks, SampleStacks
from flintstream.runtime.slot.sampling import WAITING, WAITING_FOR_OTHERS, sample_stacks

from .test_process import LIMIT, Running
from .test_slot import Hosted


class Hold(MapFunction):
    """Holds the first record until a file exists, busy or asleep."""

    def __init__(self, path: str, busy: bool) -> None:
        self.path = path
        self.busy = busy

    def map(self, value: Any) -> Any:
        self.hold_it()
        return value

    def hold_it(self) -> None:
        with open(f"{self.path}-begun", "w"):
            pass
        while not os.path.exists(self.path):
            if not self.busy:
                time.sleep(0.01)


@contextmanager
def held(path: str, busy: bool):
    """A slot whose processing thread, of which the id is given, is held in the map function."""
    hosted = Hosted(program=lambda stream: stream.map(Hold(path, busy)).key_by(lambda value: value))
    hosted.begin(splits=hosted.splits(), complete=True)
    thread = threading.Thread(target=lambda: hosted.enter(0).mark_all(), daemon=True)
    thread.start()
    wait_until(lambda: os.path.exists(f"{path}-begun"))
    try:
        yield hosted, thread.ident
    finally:
        with open(path, "w"):
            thread.join(LIMIT)


@pytest.mark.parametrize("busy", [True, False])
def test_samples_belong_to_the_task_on_the_stack(tmp_path, busy):
    with held(str(tmp_path / "go"), busy) as (hosted, ident):
        found = sample_stacks(ident, hosted.slot.tasks, 10, 0.05)
    first, second = (task.vertex.vertex_id for task in hosted.slot.tasks)
    own = [sample for sample in found if sample.vertex_id == first]
    assert sum(sample.times for sample in own) == 10
    for sample in own:
        assert sample.frames[0].startswith("flintstream.runtime.slot.task.Task.")
        assert any(frame.partition(":")[0].endswith("hold_it") for frame in sample.frames)
        assert all(frame.rpartition(":")[2].isdecimal() for frame in sample.frames)
    if not busy:
        assert not any(sample.on_cpu for sample in own)
    (other,) = [sample for sample in found if sample.vertex_id == second]
    assert (other.frames, other.on_cpu, other.times) == (WAITING_FOR_OTHERS, False, 10)


def test_an_idle_slot_waits(tmp_path):
    hosted = Hosted()
    over = threading.Event()
    idle = threading.Thread(target=over.wait, args=(LIMIT,), daemon=True)
    idle.start()
    found = sample_stacks(idle.ident, hosted.slot.tasks, 3, 0.01)
    over.set()
    assert {(sample.frames, sample.on_cpu, sample.times) for sample in found} == {(WAITING, False, 3)}
    assert {sample.vertex_id for sample in found} == {task.vertex.vertex_id for task in hosted.slot.tasks}


def test_samples_keep_nothing_else_waiting(tmp_path):
    running = Running(str(tmp_path))
    try:
        running.request(1, SampleStacks(20, 0.1))
        threads = dict(running.call(2, ReadStacks()))
        assert "sampler" in threads and any("_wait" in stack for stack in threads.values())
        reply = running.told.get(timeout=LIMIT)
        assert (reply.number, reply.result, reply.fault) == (1, [], None)  # It hosts nothing.
    finally:
        running.close()
