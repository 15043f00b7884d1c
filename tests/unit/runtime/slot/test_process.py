"""SlotProcess: its processing thread, with Spark tasks and a driver that are the test. It hosts nothing: what it is sent for
later levels it passes on."""

from __future__ import annotations

import os
import queue
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from flintstream.runtime.slot import process
from flintstream.runtime.slot.connections import JobConnection, connection_over
from flintstream.runtime.slot.handshake import ConnectionListener, Credentials, connect
from flintstream.runtime.slot.messages import BeginEpoch, ListStaged, Look, Message, Request, SlotFailed
from flintstream.runtime.slot.process import SlotProcess, SlotSpec
from flintstream.runtime.slot.protocol import DONE, END, FAILED, INPUT, OUTPUT, PASS_ON, ROW_HEADER, Hello, ReadSpool
from flintstream.spark.encryption import new_credentials

JOB = "f" * 32
LIMIT = 60


def pair() -> tuple[JobConnection, JobConnection]:
    """The two ends of a connection."""
    ends = socket.socketpair()
    with ends[0], ends[1]:
        return connection_over(ends[0]), connection_over(ends[1])


class Running:
    """A slot whose processing thread is one of the test's."""

    def __init__(self, directory: str, heartbeat_timeout: float = 600.0) -> None:
        self.told: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._connections: list[JobConnection] = []
        control: Any = SimpleNamespace(send=self.told.put)
        spec = SlotSpec(
            0, JOB, 0, f"{directory}/driver", Credentials(b"a key"), None, heartbeat_timeout=heartbeat_timeout
        )
        made: queue.SimpleQueue[SlotProcess] = queue.SimpleQueue()

        def run() -> None:
            slot = SlotProcess(spec, control, directory)
            made.put(slot)
            with suppress(AttributeError):
                slot.run()

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()
        self.slot = made.get(timeout=LIMIT)

    def request(self, number: int, message: Message[Any]) -> None:
        self.slot.put(Request(number, message))

    def call(self, number: int, message: Message[Any]) -> Any:
        self.request(number, message)
        reply = self.told.get(timeout=LIMIT)
        assert reply.number == number and reply.fault is None
        return reply.result

    def connect(self, hello: Any) -> JobConnection:
        """The end of a Spark task that has said hello."""
        mine, its = pair()
        self._connections.append(mine)
        mine.send(hello)
        self.slot.take(its)
        return mine

    def close(self) -> None:
        with suppress(OSError):  # The thread may end before it is woken.
            self.slot.put(Request(99, None))  # type: ignore[arg-type]  # Nothing that a slot can do: its thread ends.
        self._thread.join(LIMIT)
        for connection in self._connections:
            connection.close()


@pytest.fixture
def running(tmp_path) -> Iterator[Running]:
    running = Running(str(tmp_path))
    running.call(1, BeginEpoch(1, {}))
    yield running
    running.close()


@pytest.fixture
def impatient(tmp_path) -> Iterator[Running]:
    """One that gives up at once whoever stops."""
    running = Running(str(tmp_path), heartbeat_timeout=0.05)
    running.call(1, BeginEpoch(1, {}))
    yield running
    running.close()


def received(connection: JobConnection) -> bytes:
    assert connection.poll(LIMIT)
    return connection.recv_bytes()


def entered(running: Running, level: int) -> JobConnection:
    connection = running.connect(Hello(JOB, 0, 1, level, 0))
    assert received(connection) == DONE
    return connection


def row(kind: bytes, number: int, block: bytes = b"block") -> bytes:
    return ROW_HEADER.pack(kind, 0, 7, 0, 3, number) + block


def test_several_tasks_are_served_at_once(running):
    first, second = entered(running, 0), entered(running, 1)
    for number, connection in enumerate([second, first, first, second]):
        connection.send_bytes(row(PASS_ON, number))
        assert received(connection) == row(OUTPUT, number)
    for connection in (second, first):
        connection.send_bytes(END)
        assert received(connection) == DONE
    assert running.call(2, ListStaged()) == {}


def test_frames_that_come_together_over_tls_are_all_taken(running):
    """The socket holds nothing then that could be waited for: what is left has been received already."""
    credentials = new_credentials(True)
    listener = ConnectionListener(("127.0.0.1", 0), credentials, running.slot.take)
    threading.Thread(target=listener.serve, daemon=True).start()
    try:
        with connect(listener.address, credentials.for_tasks, LIMIT) as connection:
            connection.send(Hello(JOB, 0, 1, 0, 0))
            assert received(connection) == DONE
            for number in range(100):
                connection.send_bytes(row(PASS_ON, number))
            connection.send_bytes(END)
            assert [received(connection) for _ in range(101)] == [*(row(OUTPUT, number) for number in range(100)), DONE]
    finally:
        listener.close()


def test_a_task_that_stops_within_a_frame_keeps_nobody_waiting(running):
    first, second = entered(running, 0), entered(running, 1)
    frame = row(PASS_ON, 0, bytes(1000))
    sent = struct.pack("!i", len(frame)) + frame
    for begin, end in ((0, 1), (1, 4), (4, 5), (5, 500)):
        os.write(first.fileno(), sent[begin:end])
        second.send_bytes(row(PASS_ON, begin))
        assert received(second) == row(OUTPUT, begin)
    os.write(first.fileno(), sent[500:])
    assert received(first) == OUTPUT + frame[1:]
    for connection in (first, second):
        connection.send_bytes(END)
        assert received(connection) == DONE


def test_a_task_that_stops_within_a_frame_for_too_long_fails_the_job(impatient):
    first, second = entered(impatient, 0), entered(impatient, 1)
    os.write(first.fileno(), struct.pack("!i", 100) + b"a part")
    told = impatient.told.get(timeout=LIMIT)
    assert isinstance(told, SlotFailed)
    assert told.fault.summary == (
        "the Spark task of epoch 1 stopped in the middle of a block: nothing arrived for 0.05 s (heartbeat.timeout)"
    )
    for connection in (first, second):
        with pytest.raises((EOFError, OSError)):
            received(connection)
    assert impatient.call(2, ListStaged()) == {}


def test_a_task_that_takes_nothing_for_too_long_fails_the_job(impatient):
    connection = entered(impatient, 0)
    with suppress(OSError):
        for number in range(100):
            connection.send_bytes(row(PASS_ON, number, bytes(1 << 20)))
    told = impatient.told.get(timeout=LIMIT)
    assert isinstance(told, SlotFailed)
    assert told.fault.summary == "the Spark task of epoch 1 stopped reading the output of its level (heartbeat.timeout)"
    assert impatient.call(2, ListStaged()) == {}


def test_a_task_between_two_frames_may_take_its_time(impatient):
    first, second = entered(impatient, 0), entered(impatient, 1)
    first.send_bytes(row(PASS_ON, 0))
    assert received(first) == row(OUTPUT, 0)
    os.write(second.fileno(), struct.pack("!i", 100) + b"a part")
    assert "stopped in the middle of a block" in impatient.told.get(timeout=LIMIT).fault.summary, (
        "the other, in the meantime"
    )


def test_a_task_whose_input_fails_says_why(running):
    connection = entered(running, 0)
    connection.send_bytes(FAILED + b"the shuffle is gone")
    assert received(connection) == FAILED + b"the shuffle is gone"
    assert running.told.get(timeout=LIMIT).fault.summary == "the shuffle is gone"


def test_calls_of_the_driver_wait_until_no_level_is_open_but_it_may_look(running):
    connection = entered(running, 0)
    running.request(2, ListStaged())
    running.request(3, Look())
    looked = running.told.get(timeout=LIMIT)
    assert (looked.number, looked.result.work) == (3, "processing epoch 1")
    connection.send_bytes(row(PASS_ON, 0))
    assert received(connection) == row(OUTPUT, 0)
    assert running.told.empty()
    connection.send_bytes(END)
    assert running.told.get(timeout=LIMIT).number == 2
    assert running.call(4, Look()).work is None


def test_a_stranger_is_refused_and_disturbs_nobody(running):
    connection = entered(running, 0)
    answer = received(running.connect(Hello(JOB, 0, 2, 0, 0)))
    assert answer == FAILED + b"epoch 2 is not the one that runs, 1"
    connection.send_bytes(END)
    assert received(connection) == DONE
    assert running.call(2, ListStaged()) == {}


def test_a_level_entered_twice_fails_the_job(running):
    entered(running, 0)
    answer = received(running.connect(Hello(JOB, 0, 1, 0, 0)))
    assert answer.startswith(FAILED) and b"must not be counted twice" in answer
    told = running.told.get(timeout=LIMIT)
    assert isinstance(told, SlotFailed) and "Spark ran a task twice" in told.fault.summary


def test_a_task_that_goes_away_fails_the_job_and_the_other_levels(running):
    first, second = entered(running, 0), entered(running, 1)
    first.send_bytes(row(PASS_ON, 0))
    assert received(first) == row(OUTPUT, 0)
    first.close()
    told = running.told.get(timeout=LIMIT)
    assert isinstance(told, SlotFailed) and "the Spark task of epoch 1 went away" in told.fault.summary
    with pytest.raises((EOFError, OSError)):
        received(second)
    assert running.call(2, ListStaged()) == {}, "it still answers"


def test_a_block_for_nobody_here_fails_the_job(running):
    connection = entered(running, 0)
    connection.send_bytes(row(INPUT, 0))
    assert received(connection).startswith(FAILED)
    assert isinstance(running.told.get(timeout=LIMIT), SlotFailed)


def test_a_spool_that_does_not_exist_is_empty(running):
    assert received(running.connect(ReadSpool("nothing"))) == DONE


def test_a_task_that_says_nothing_and_hangs_up_is_none(running):
    mine, its = pair()
    mine.close()
    running.slot.take(its)
    assert running.call(2, ListStaged()) == {}


def test_a_slot_ends_although_the_driver_removes_its_files_at_the_same_time(tmp_path, monkeypatch) -> None:
    class Ended(BaseException):
        pass

    def exit_process(status: int) -> None:
        assert status == 0
        raise Ended

    def removed(directory: str) -> list[str]:
        assert directory == str(tmp_path)
        raise FileNotFoundError(directory)

    def hung_up() -> None:
        raise EOFError

    control: Any = SimpleNamespace(recv=hung_up, send=lambda message: None)
    spec = SlotSpec(0, JOB, 0, f"{tmp_path}/driver", Credentials(b"a key"), str(tmp_path))
    slot = SlotProcess(spec, control, str(tmp_path / "slot"))
    monkeypatch.setattr(process, "threading", SimpleNamespace(Timer=lambda *arguments: SimpleNamespace(start=int)))
    monkeypatch.setattr(process.os, "_exit", exit_process)
    monkeypatch.setattr(process.os, "listdir", removed)
    with pytest.raises(Ended) as ended:
        slot.listen_to_driver()
    assert not isinstance(ended.value.__context__, FileNotFoundError)
    slot.put(Request(99, None))  # type: ignore[arg-type]  # Its processing thread ends, and closes what it has opened.
    with suppress(AttributeError):
        slot.run()
