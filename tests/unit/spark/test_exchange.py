"""LevelTask: what a Spark task of a level does. The slot at the other end is the test."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyspark
import pytest

from flintstream.runtime.slot.handshake import ConnectionListener, Credentials, SlotAccess
from flintstream.runtime.slot.protocol import DONE, END, FAILED, INPUT, OUTPUT, PASS_ON, ROW_HEADER, Hello
from flintstream.spark import exchange
from flintstream.spark.exchange import EPOCH_PROPERTY, InputFailed, LevelFailed, LevelTask, row_batch
from flintstream.spark.spool_frame import _ReadSlots

JOB = "f" * 32
LIMIT = 60


class TaskContext:
    """What Spark tells a task: it is the one for slot 0, in epoch 7."""

    def partitionId(self) -> int:
        return 0

    def getLocalProperty(self, name: str) -> str:
        assert name == EPOCH_PROPERTY
        return "7"


@pytest.fixture(autouse=True)
def task_of_spark(monkeypatch):
    monkeypatch.setattr(pyspark.TaskContext, "get", TaskContext)
    monkeypatch.setattr(exchange, "settle_worker", lambda: None)


class FakeSlot:
    """Serves one task by a function of the test, on a thread of its own; `said` has what the function returns or raises."""

    def __init__(self, address: str) -> None:
        self._serve: Callable[[Any], Any] = lambda connection: None
        self.said: queue.SimpleQueue[Any] = queue.SimpleQueue()
        credentials = Credentials(b"a key")
        self._listener = ConnectionListener(address, credentials, self._take)
        threading.Thread(target=self._listener.serve, daemon=True).start()
        self.access = SlotAccess((address,), credentials, float(LIMIT))

    def serve(self, function: Callable[[Any], Any]) -> LevelTask:
        """The task that the function is to serve: of level 1, whose vertices are 3 and 4."""
        self._serve = function
        return LevelTask(JOB, 2, 1, {3: "count", 4: "sink"}, self.access)

    def close(self) -> None:
        self._listener.close()

    def _take(self, connection: Any) -> None:
        with connection:
            try:
                self.said.put(self._serve(connection))
            except BaseException as error:
                self.said.put(error)


@pytest.fixture
def slot(tmp_path) -> Iterator[FakeSlot]:
    slot = FakeSlot(str(tmp_path / "slot"))
    yield slot
    slot.close()


def welcome(connection: Any) -> Hello:
    hello: Hello = connection.recv()
    connection.send_bytes(DONE)
    return hello


def frames(connection: Any) -> Iterator[tuple[bytes, tuple[int, ...], bytes]]:
    """Kind, address and block of what comes until the end."""
    while (frame := connection.recv_bytes()) != END:
        kind, *address = ROW_HEADER.unpack_from(frame)
        yield kind, tuple(address), frame[ROW_HEADER.size :]


def rows(*rows: tuple[int, int, int, int, int, bytes]) -> pa.RecordBatch:
    return row_batch([list(column) for column in zip(*rows)] or [[]] * 6)


def received(batches: Iterator[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def test_it_says_for_whom_it_speaks_and_sends_blocks_with_their_addresses(slot):
    def serve(connection):
        hello = welcome(connection)
        taken = list(frames(connection))
        connection.send_bytes(DONE)
        return hello, taken

    task = slot.serve(serve)
    batches = [rows((0, 3, 0, 5, 0, b"one"), (0, 9, 1, 6, 0, b"later")), rows((0, 4, 1, 7, 2, b"two"))]
    assert received(task(iter(batches))) == []
    hello, taken = slot.said.get(timeout=LIMIT)
    assert hello == Hello(JOB, 2, 7, 1, 0)
    assert taken == [
        (INPUT, (0, 3, 0, 5, 0), b"one"),
        (PASS_ON, (0, 9, 1, 6, 0), b"later"),
        (INPUT, (0, 4, 1, 7, 2), b"two"),
    ]


def test_at_level_0_there_are_rows_that_hold_no_blocks(slot):
    def serve(connection):
        welcome(connection)
        taken = list(frames(connection))
        connection.send_bytes(DONE)
        return taken

    task = slot.serve(serve)
    assert received(task(iter([pa.RecordBatch.from_pydict({"id": [0]})]))) == []
    assert slot.said.get(timeout=LIMIT) == []


def test_what_the_slot_sends_becomes_rows_in_order(slot):
    sent = [(number % 2, 9, 0, 5, number, bytes([number % 251]) * 100) for number in range(200)]

    def serve(connection):
        welcome(connection)
        for *address, block in sent:
            connection.send_bytes(ROW_HEADER.pack(OUTPUT, *address) + block)
        list(frames(connection))
        connection.send_bytes(DONE)

    batches = list(slot.serve(serve)(iter(())))
    assert received(iter(batches)) == sent
    assert len(batches) > 1, "not all in one: rows go on while others come"


def test_more_than_the_sockets_hold_goes_both_ways_at_once(slot):
    block = bytes(1 << 20)

    def serve(connection):
        welcome(connection)
        for _, address, data in frames(connection):
            for _ in range(2):
                connection.send_bytes(ROW_HEADER.pack(OUTPUT, *address) + data)
        connection.send_bytes(DONE)

    batches = (rows((0, 3, 0, 5, number, block)) for number in range(16))
    assert [row[4] for row in received(slot.serve(serve)(batches))] == [
        n for number in range(16) for n in (number, number)
    ]


@pytest.mark.parametrize("welcomed", [False, True])
def test_why_a_slot_has_refused_it_or_failed(slot, welcomed):
    def serve(connection):
        connection.recv()
        if welcomed:
            connection.send_bytes(DONE)
            connection.recv_bytes()
        connection.send_bytes(FAILED + b"Spark ran a task twice")

    with pytest.raises(LevelFailed, match="Spark ran a task twice"):
        list(slot.serve(serve)(iter([rows((0, 3, 0, 5, 0, b"one"))])))


@pytest.mark.parametrize("serve", [lambda connection: connection.recv(), welcome], ids=["refused", "welcomed"])
def test_a_slot_that_dies(slot, serve):
    told = r"slot 0 closed the connection while it processed level 1 \(count, sink\) of epoch 7"
    with pytest.raises(LevelFailed, match=told):
        list(slot.serve(serve)(iter(())))


def failing(*batches: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    yield from batches
    raise ValueError("the shuffle is gone")


@pytest.mark.parametrize(
    ("batches", "last"),
    [
        ([], "no block was received before"),
        (
            [rows((0, 3, 0, 5, 0, b"one"), (0, 4, 1, 6, 2, b"two"))],
            r"number 2 of channel 6, for input 1 of vertex 4 \(sink\)",
        ),
        (
            [rows((0, 9, 0, 5, 0, b"later")), rows()],
            r"number 0 of channel 5, for input 0 of vertex 9 \(a later level\)",
        ),
    ],
    ids=["at once", "within this level", "before a later level"],
)
def test_when_its_input_fails_the_error_says_where_and_so_it_tells_the_slot(slot, batches, last):
    def serve(connection):
        welcome(connection)
        while (frame := connection.recv_bytes())[:1] in (INPUT, PASS_ON):
            pass
        return frame

    told = r"the input of level 1 \(count, sink\) of epoch 7 in slot 0 failed: .*the shuffle is gone.*"
    with pytest.raises(InputFailed, match=told + last) as caught:
        list(slot.serve(serve)(failing(*batches)))
    assert isinstance(caught.value.__cause__, ValueError)
    assert slot.said.get(timeout=LIMIT) == FAILED + str(caught.value).encode()


def test_an_input_that_fails_counts_more_than_what_the_slot_says_of_it(slot):
    def serve(connection):
        welcome(connection)
        with pytest.raises((EOFError, OSError)):
            while True:
                connection.recv_bytes()
        with suppress(OSError):
            connection.send_bytes(FAILED + b"the Spark task went away")

    with pytest.raises(InputFailed, match="the shuffle is gone"):
        list(slot.serve(serve)(failing()))


@pytest.fixture
def stopped(tmp_path):
    """A slot whose process is stopped: the system still accepts for it."""
    with socket.socket(socket.AF_UNIX) as slot:
        slot.bind(str(tmp_path / "stopped"))
        slot.listen()
        yield SlotAccess((str(tmp_path / "stopped"),), Credentials(b"a key"), 0.2)


def test_a_task_of_a_level_waits_as_long_as_it_is_told(stopped):
    with pytest.raises(TimeoutError, match=r"stopped did not answer within 0\.2 s"):
        list(LevelTask(JOB, 0, 0, {}, stopped)(iter(())))


def test_a_task_that_reads_a_spool_waits_as_long_as_it_is_told(stopped):
    read = _ReadSlots(stopped, "spool", pa.schema([]))
    with pytest.raises(TimeoutError, match=r"stopped did not answer within 0\.2 s"):
        list(read(iter([pa.RecordBatch.from_pydict({"id": [0]})])))
