"""Slots as the driver sees them, played by threads of the test."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from tests.waiting import wait_until

from flintstream.common.processes import Process
from flintstream.runtime.faults import Fault
from flintstream.runtime.slot.handshake import connect
from flintstream.runtime.slot.messages import VERSION, Close, FetchPages, Look, Message, Registration, Reply
from flintstream.runtime.slot.process import SlotSpec
from flintstream.runtime.slot.protocol import ASKING_SOURCES, Activity
from flintstream.spark import slots as module
from flintstream.spark.slots import SlotError, SlotPool
from flintstream.spark.timeouts import SlotTimeouts

COUNT = 2


@dataclass(frozen=True)
class Hello(Message[str]):
    """Slots answer with its name."""

    name = "hello"


@dataclass(frozen=True)
class Silent(Message[str]):
    """Only slot 0 answers."""

    name = "silent"


@dataclass(frozen=True)
class Endless(Silent):
    """The same, in user code."""

    runs_user_code = True


@dataclass(frozen=True)
class Held(Message[str]):
    """Answered when the test says so."""

    name = "held"


@dataclass(frozen=True)
class Deaf(Message[str]):
    """Nobody listens after this."""

    name = "deaf"


class PlayedPool(SlotPool):
    """A pool whose slots are threads, which answer each call with its name."""

    def __init__(self, timeouts: SlotTimeouts | None = None) -> None:
        spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(master="local[2]"))
        self.faults: list[Fault] = []
        self.answers_looks = True
        self.activity = Activity("snapshot", 70.0, None, None, 0.0, "  in a library\n")
        self.heard_enough = threading.Event()
        self.heard: list[Message[Any]] = []
        self.answers = threading.Event()
        """Held is answered from then on."""
        self.specs: list[SlotSpec] = []
        super().__init__(spark, "f" * 32, 0, COUNT, lambda: None, self.faults.append, timeouts=timeouts)

    def _launch(self) -> dict[int, Process]:
        for slot in range(self._count):
            self.specs.append(self._spec(slot))
            threading.Thread(target=self._play, args=(slot, self.specs[slot]), daemon=True).start()
        return {slot: Process.of(os.getpid()) for slot in range(self._count)}

    def _play(self, slot: int, spec: SlotSpec) -> None:
        with connect(spec.driver, spec.credentials) as connection, suppress(EOFError, OSError):
            connection.send(self.registration(slot))
            while True:
                request = connection.recv()
                message = request.message
                self.heard.append(message)
                if isinstance(message, Held):
                    self.answers.wait(60)
                if isinstance(message, Look) and self.answers_looks:
                    connection.send(Reply(request.number, self.activity))
                elif not isinstance(message, Look) and (slot == 0 or not isinstance(message, Silent)):
                    connection.send(Reply(request.number, message.name))
                if isinstance(message, Deaf):
                    self.heard_enough.wait(60)

    def registration(self, slot: int) -> Any:
        return Registration(VERSION, slot, Process.of(os.getpid()), "here", "nowhere")


@pytest.fixture
def make_pool(monkeypatch):
    """Starts pools. Their slots have no process of their own that could be waited for, or killed."""
    monkeypatch.setattr(module, "ship_package", lambda spark: None)
    monkeypatch.setattr(SlotPool, "_wait_for_exit", lambda pool: None)
    pools = []

    def make(timeouts: SlotTimeouts | None = None) -> PlayedPool:
        pools.append(PlayedPool(timeouts))
        pools[-1].start()
        return pools[-1]

    yield make
    for pool in pools:
        pool.heard_enough.set()
        pool.close()


def threads() -> set[threading.Thread]:
    return set(threading.enumerate())


def test_all_slots_are_called_at_once_and_answer_in_their_order(make_pool):
    assert make_pool().call_all(Hello()) == ["hello"] * COUNT


def test_a_slot_of_another_version_ends_the_start_and_both_versions_are_told(make_pool, monkeypatch):
    ours = PlayedPool.registration
    monkeypatch.setattr(PlayedPool, "registration", lambda pool, slot: replace(ours(pool, slot), version=VERSION + 7))
    told = rf"slot \d \(process \d+ on here\) speaks version {VERSION + 7} of the control messages, the driver .* {VERSION}:"
    with pytest.raises(SlotError, match=told):
        make_pool()


class Unreadable:
    """What another version may have in place of a registration."""

    def __reduce__(self) -> Any:
        return getattr, (Registration, "renamed")


def test_a_slot_whose_registration_cannot_be_read_ends_the_start(make_pool, monkeypatch):
    monkeypatch.setattr(PlayedPool, "registration", lambda pool, slot: Unreadable())
    with pytest.raises(
        SlotError, match=r"registration cannot be read \(AttributeError.*renamed.*the driver speaks version"
    ):
        make_pool()


def test_slots_and_tasks_wait_for_a_connection_as_the_settings_say(make_pool):
    timeouts = SlotTimeouts(start=77.0, heartbeat_timeout=88.0)
    pool = make_pool(timeouts)
    assert [spec.connect_seconds for spec in pool.specs] == [77.0] * COUNT
    assert pool.access.connect_seconds == 88.0


def test_a_call_that_takes_too_long_says_which_slots_are_late_and_what_they_do(make_pool):
    with pytest.raises(SlotError, match=r"slots \[1\] have not answered 'silent' within 0\.1 s") as caught:
        make_pool().call_all(Silent(), timeout=0.1)
    assert "slot 1 (process " in str(caught.value)
    assert "slot 0" not in str(caught.value)
    assert "taking a snapshot for 70 s\n  in a library" in str(caught.value)


def test_a_call_without_a_limit_has_that_of_the_settings(make_pool):
    pool = make_pool(SlotTimeouts(call=0.1))
    with pytest.raises(SlotError, match=r"slots \[1\] have not answered .* within 0\.1 s"):
        pool.call_all(Silent())
    with pytest.raises(SlotError, match=r"slots \[1\] have not answered .* within 0\.1 s"):
        pool.call(1, Silent())


def test_calls_of_user_code_take_as_long_as_they_like_and_can_be_given_up(make_pool):
    pool = make_pool(SlotTimeouts(call=0.01))
    threading.Timer(0.1, pool.give_up_calls, ["the job is cancelled"]).start()
    with pytest.raises(SlotError, match="the job is cancelled"):
        pool.call_all(Endless())


@pytest.mark.parametrize(
    "activity", [Activity(ASKING_SOURCES, 70.0), Activity("end_epoch", 70.0, "Count", 1, 69.0, "  in user code\n")]
)
def test_a_call_behind_user_code_waits_for_it_and_can_be_given_up(make_pool, activity):
    pool = make_pool(SlotTimeouts(call=0.01))
    pool.activity = activity
    looked = threading.Semaphore(0)
    look = pool.look
    pool.look = lambda: (looked.release(), look())[1]
    with ThreadPoolExecutor(1) as executor:
        called = executor.submit(pool.call_all, Silent())
        for _ in range(3):
            assert looked.acquire(timeout=60)
        assert not called.done()
        pool.give_up_calls("the job is cancelled")
        with pytest.raises(SlotError, match="the job is cancelled"):
            called.result(60)


def test_a_call_that_is_answered_while_slots_are_asked_what_they_do_is_answered(make_pool):
    pool = make_pool(SlotTimeouts(call=0.01))
    asked = pool.handles[0].heard

    def look() -> dict[int, Activity | None]:
        pool.answers.set()
        wait_for(lambda: pool.handles[0].heard > asked)
        return dict.fromkeys(range(COUNT))

    pool.look = look
    assert pool.call(0, Held()) == "held"


def test_the_time_for_which_the_driver_was_stopped_itself_does_not_count(make_pool, monkeypatch):
    pool = make_pool(SlotTimeouts(call=2.0))
    waits: list[float] = []

    def stopped(futures: Any, timeout: float, until: str) -> Any:
        """The first wait ends long after its time; what has come meanwhile is read after that."""
        waits.append(timeout)
        if len(waits) == 2:
            pool.answers.set()
        return wait(futures, 60 * (len(waits) - 1), until)

    monkeypatch.setattr(module, "wait", stopped)
    assert pool.call(0, Held()) == "held"
    assert waits == [1.0, 1.0]


def test_nobody_waits_for_a_slot_that_does_not_read(make_pool):
    pool = make_pool()
    pool.call_all(Deaf())
    large = "x" * 10_000_000
    with pytest.raises(SlotError, match=r"slots \[0, 1\] have not answered 'fetch' within 0\.1 s"):
        monkeypatched_look(pool).call_all(FetchPages(large, 0), timeout=0.1)


def monkeypatched_look(pool: PlayedPool) -> PlayedPool:
    pool.look = lambda: dict.fromkeys(range(COUNT))  # type: ignore[method-assign]
    return pool


def test_a_slot_that_does_not_even_say_what_it_does_is_told(make_pool, monkeypatch):
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.1)
    pool = make_pool()
    pool.answers_looks = False
    assert pool.look() == {0: None, 1: None}
    assert "does not answer: native code holds its interpreter" in pool.describe((1, None))


def test_slots_that_give_no_sign_of_life_are_lost(make_pool):
    pool = make_pool(SlotTimeouts(heartbeat_timeout=0.05))
    pool.answers_looks = False
    wait_for(lambda: (pool.beat(), pool.faults)[1])
    assert "has not been heard of for 0.05 s (heartbeat.timeout)" in pool.faults[0].summary
    with pytest.raises(SlotError, match="has not been heard of"):
        pool.call_all(Hello())


def test_slots_that_give_signs_of_life_are_not_lost(make_pool):
    pool = make_pool(SlotTimeouts(heartbeat_timeout=60))
    for handle in pool.handles:
        handle.heard -= 59.9
    pool.beat()
    wait_for(lambda: all(handle.heard > time.monotonic() - 59 for handle in pool.handles))
    assert pool.faults == []


def test_a_driver_that_was_stopped_itself_loses_no_slot(make_pool, monkeypatch):
    pool = make_pool(SlotTimeouts(heartbeat_interval=1.0, heartbeat_timeout=5.0))
    pool.answers_looks = False
    pool.beat()
    later = SimpleNamespace(monotonic=lambda: time.monotonic() + 1000.0, sleep=time.sleep)
    monkeypatch.setattr(module, "time", later)
    pool.beat()
    assert pool.faults == []


class TestAStartThatHangs:
    """The barrier stage waits for cores that it never gets, until somebody cancels it."""

    @pytest.fixture
    def hanging(self, monkeypatch):
        cancelled = threading.Event()

        def launch(pool):
            if not cancelled.wait(60):
                raise AssertionError("nobody has cancelled the barrier stage")
            raise RuntimeError("the job group was cancelled")

        monkeypatch.setattr(PlayedPool, "_launch", launch)
        monkeypatch.setattr(PlayedPool, "_cancel_start", lambda pool: cancelled.set())

    def test_is_told_with_the_setting(self, hanging, make_pool):
        with pytest.raises(SlotError, match=r"has not started 2 slots within 0\.05 s \(slot\.request\.timeout\)"):
            make_pool(SlotTimeouts(start=0.05))

    def test_ends_when_it_is_interrupted(self, hanging, make_pool, monkeypatch):
        start = SlotPool.start

        def interrupted(pool):
            threading.Timer(0.05, pool.interrupt).start()
            start(pool)

        monkeypatch.setattr(PlayedPool, "start", interrupted)
        with pytest.raises(SlotError, match="not needed any more"):
            make_pool()

    def test_slots_that_never_call_back_are_told_and_an_interrupt_ends_the_wait(self, make_pool, monkeypatch):
        monkeypatch.setattr(PlayedPool, "_launch", lambda pool: dict.fromkeys(range(COUNT), Process.of(os.getpid())))
        monkeypatch.setattr(PlayedPool, "_cancel_start", lambda pool: None)
        with pytest.raises(SlotError, match=r"slots \[0, 1\] have not called back within 0\.05 s"):
            make_pool(SlotTimeouts(start=0.05))
        monkeypatch.setattr(PlayedPool, "_launch", lambda pool: pool.interrupt() or {0: Process.of(os.getpid())})
        with pytest.raises(SlotError, match=r"slots \[0\] are not needed any more"):
            make_pool()


wait_for = partial(wait_until, seconds=60.0)


def test_a_pool_leaves_no_thread_socket_or_directory_behind(make_pool):
    threads_before, files_before = threads(), len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        pool = make_pool()
        pool.close()
        assert not os.path.exists(pool.directory)
    deadline = time.monotonic() + 60
    while threads() - threads_before and time.monotonic() < deadline:
        time.sleep(0.02)
    assert threads() - threads_before == set()
    assert len(os.listdir("/proc/self/fd")) <= files_before


def test_a_slot_that_cannot_be_killed_does_not_keep_the_job_from_its_end(monkeypatch, caplog):
    killed = []
    monkeypatch.setattr(Process, "runs", lambda process: True)
    monkeypatch.setattr(os, "kill", lambda pid, number: killed.append(pid))
    close_a_pool_of(Process(77, None), monkeypatch)
    assert killed == [77]
    assert "were killed, and have not ended: processes [77]" in caplog.text


def close_a_pool_of(process: Process, monkeypatch) -> None:
    """Closes a pool with a slot that does not end by itself."""
    monkeypatch.setattr(module, "CLOSE_SECONDS", 0.05)
    pool = PlayedPool()
    pool._slots[0] = SimpleNamespace(  # type: ignore[assignment]
        process=process, connection=SimpleNamespace(fileno=lambda: -1), outbox=SimpleNamespace(close=lambda: None)
    )
    pool.close()


def test_a_slot_that_does_not_end_is_killed_and_nobody_who_has_its_number_later(monkeypatch):
    with subprocess.Popen(["sleep", "300"]) as other:
        started = Process.of(other.pid).started
        assert started is not None
        close_a_pool_of(Process(other.pid, started - 1), monkeypatch)
        assert other.poll() is None
        close_a_pool_of(Process(other.pid, started), monkeypatch)
        assert other.wait(60) == -9


@pytest.mark.parametrize("timeout", [60.0, None])
def test_nobody_waits_for_slots_that_have_been_ended(make_pool, timeout):
    pool = make_pool()
    pool.close()
    done = threading.Event()
    threading.Thread(target=lambda: (pool.tell_all(Close(), timeout), done.set()), daemon=True).start()
    assert done.wait(30)
    assert pool.look() == {0: None, 1: None}
    with pytest.raises(SlotError, match="the slots of this attempt have been ended"):
        pool.call_all(Hello())


def test_the_end_of_the_slots_ends_the_waiting_for_them(make_pool):
    pool = make_pool()
    with ThreadPoolExecutor(1) as executor:
        called = executor.submit(pool.call_all, Silent(), timeout=300.0)
        wait_for(lambda: len(pool.heard) == COUNT)
        pool.close()
        with pytest.raises(SlotError, match="the slots of this attempt have been ended"):
            called.result(60)
