"""The Spark task of a level: streams its blocks to the slot that owns them, and the slot's output onward."""

from __future__ import annotations

import gc
import itertools
import os
import select
import socket
import sys
import threading
from array import array
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any

import pyarrow as pa

from flintstream.runtime.slot.handshake import SlotAccess
from flintstream.runtime.slot.protocol import (
    DONE,
    END,
    FAILED,
    INPUT,
    PASS_ON,
    ROW_HEADER,
    Hello,
)

EPOCH_PROPERTY = "flint.epoch"
"""The local property of a Spark job with its epoch, so that the plan is the same for all epochs."""

ROW_SCHEMA = "slot INT, vertex INT, input INT, channel INT, seq INT, block BINARY"
_ARROW_SCHEMA = pa.schema(
    [(name, pa.int32()) for name in ("slot", "vertex", "input", "channel", "seq")] + [("block", pa.binary())]
)
_YIELD_BYTES = 4 * 1024 * 1024
_YIELD_ROWS = 64


class LevelFailed(RuntimeError):
    """The slot has refused the task or failed; the driver knows the reason."""


class InputFailed(LevelFailed):
    """The input of the task failed before its end."""


@dataclass(frozen=True)
class LevelTask:
    """The function of a level's `mapInArrow`. Small: it is shipped with each job."""

    job_id: str
    attempt: int
    level: int
    vertices: Mapping[int, str]
    """The vertices of this level, with their names; rows for others are passed on."""
    slots: SlotAccess

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._run(batches)
        finally:
            end_if_hung_up()

    def _run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        settle_worker()
        context: Any = TaskContext.get()
        slot = context.partitionId()
        epoch = int(context.getLocalProperty(EPOCH_PROPERTY))
        with self.slots.connect(slot) as connection:
            connection.send(Hello(self.job_id, self.attempt, epoch, self.level, slot))
            work = f"level {self.level} ({', '.join(self.vertices.values())}) of epoch {epoch}"
            sender = _Sender(connection, batches, self.vertices, f"{work} in slot {slot}")
            try:
                expect_done(connection.recv_bytes())
                sender.start()
                yield from _rows(connection)
            except (LevelFailed, EOFError, OSError) as error:
                if isinstance(sender.error, InputFailed):
                    raise sender.error from sender.error.__cause__  # What the slot says is only its consequence.
                if isinstance(error, LevelFailed):
                    raise
                raise LevelFailed(f"slot {slot} closed the connection while it processed {work}: {error!r}") from error
            sender.join()
            if sender.error is not None:
                raise sender.error


_settled = False


def settle_worker() -> None:
    """Prepares a Python worker of Spark for many tasks; once per worker, in its first task."""
    global _settled
    if _settled:
        return
    _settled = True
    _end_quietly()
    # PySpark's daemon collects everything after each task. With the modules of a worker that costs 30 ms and more.
    gc.collect()
    gc.freeze()


def _end_quietly() -> None:
    """Ends a worker when the JVM hangs up, as it does with tasks that it cancels; PySpark would try to report that to the
    JVM, and print an error.
    """
    from pyspark import worker

    main = worker.main

    def main_unless_hung_up(infile: Any, outfile: Any) -> None:
        try:
            if not infile.peek(1):
                os._exit(0)
            main(infile, outfile)
            outfile.flush()
        except (BrokenPipeError, ConnectionResetError):
            os._exit(0)

    worker.main = main_unless_hung_up


def end_if_hung_up() -> None:
    """Ends this worker, in the first of its tasks too, if the JVM has hung up: PySpark would print an error."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and "infile" not in frame.f_locals:
        frame = frame.f_back
    if frame is None:
        return  # Another version of PySpark.
    poll = select.poll()
    poll.register(frame.f_locals["infile"].fileno(), select.POLLHUP)
    if any(event & select.POLLHUP for _, event in poll.poll(0)):
        os._exit(0)


class _Sender(threading.Thread):
    """Sends the input while the main thread receives the output: sending everything first would deadlock on full sockets."""

    def __init__(
        self, connection: Connection, batches: Iterator[pa.RecordBatch], vertices: Mapping[int, str], work: str
    ) -> None:
        super().__init__(name="sender", daemon=True)
        self._connection = connection
        self._batches = batches
        self._vertices = vertices
        self._work = work
        self._batch: pa.RecordBatch | None = None
        """The last one with blocks."""
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            for batch in self._input():
                if batch.num_columns == 6 and batch.num_rows:
                    self._batch = batch
                    self._send(batch)
            self._connection.send_bytes(END)
        except BaseException as error:
            self.error = error
            if isinstance(error, InputFailed):
                with suppress(OSError):
                    self._connection.send_bytes(FAILED + str(error).encode(errors="replace"))
            # The slot is waiting for input: hanging up tells it that there will be none.
            self._hang_up()

    def _input(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._batches
        except Exception as error:
            raise InputFailed(f"the input of {self._work} failed: {error!r}; {self._last_block()}") from error

    def _last_block(self) -> str:
        if self._batch is None:
            return "no block was received before"
        _, vertex, input_index, channel, number = (column[-1].as_py() for column in self._batch.columns[:5])
        name = self._vertices.get(vertex, "a later level")
        place = f"input {input_index} of vertex {vertex} ({name})"
        return f"the last block received was number {number} of channel {channel}, for {place}"

    def _hang_up(self) -> None:
        """Shuts the connection down without closing it: the main thread reads from it, and may have closed it."""
        with suppress(OSError), socket.socket(fileno=os.dup(self._connection.fileno())) as duplicate:
            duplicate.shutdown(socket.SHUT_RDWR)

    def _send(self, batch: pa.RecordBatch) -> None:
        slots, vertices, inputs, channels, numbers = (batch.column(i).to_pylist() for i in range(5))
        for row, block in enumerate(batch.column(5)):
            kind = INPUT if vertices[row] in self._vertices else PASS_ON
            header = ROW_HEADER.pack(kind, slots[row], vertices[row], inputs[row], channels[row], numbers[row])
            self._connection.send_bytes(b"".join((header, block.as_buffer())))


def _rows(connection: Connection) -> Iterator[pa.RecordBatch]:
    """Yields the slot's output as Arrow batches, until the level is done."""
    columns: list[list[Any]] = [[] for _ in range(6)]
    gathered = 0
    while True:
        frame = connection.recv_bytes()
        kind = frame[:1]
        if kind in (DONE, FAILED):
            break
        for column, value in zip(columns, ROW_HEADER.unpack_from(frame)[1:]):
            column.append(value)
        columns[5].append(memoryview(frame)[ROW_HEADER.size :])
        gathered += len(frame)
        if gathered >= _YIELD_BYTES or len(columns[5]) >= _YIELD_ROWS:
            yield row_batch(columns)
            columns = [[] for _ in range(6)]
            gathered = 0
    expect_done(frame)
    if columns[5]:
        yield row_batch(columns)


def row_batch(columns: list[list[Any]]) -> pa.RecordBatch:
    """Returns rows of the exchange, given one list per column."""
    arrays = [pa.array(column, pa.int32()) for column in columns[:5]]
    return pa.RecordBatch.from_arrays([*arrays, binary_array(columns[5])], schema=_ARROW_SCHEMA)


def binary_array(blocks: list[Any]) -> pa.Array:
    """Returns an array of byte strings or memoryviews."""
    # pa.array() never releases a memoryview that it was given, nor the bytes behind it (seen with pyarrow 26.0).
    offsets = array("i", itertools.accumulate(map(len, blocks), initial=0))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(blocks))]
    return pa.Array.from_buffers(pa.binary(), len(blocks), buffers)


def expect_done(frame: bytes) -> None:
    """Raises the reason if a slot has refused the task."""
    if frame[:1] == FAILED:
        raise LevelFailed(frame[1:].decode(errors="replace"))
