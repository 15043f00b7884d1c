"""What the tasks of Spark do to write a savepoint: route records by key, make state from them, copy stored state."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from flintstream.common.keys import key_group_range
from flintstream.common.types import make_rows
from flintstream.graph.partitioners import KeyGroupPartitioner
from flintstream.runtime.batch import NO_TIMESTAMP, Batch
from flintstream.runtime.block import BlockAssembler, decode_block
from flintstream.runtime.checkpoint.metadata import DatabaseHandle, SubtaskState
from flintstream.runtime.checkpoint.pieces import CheckpointTarget, PieceWriter
from flintstream.runtime.faults import UserCodeError, record_at_fault, user_fault
from flintstream.runtime.operators.base import Operator
from flintstream.runtime.services import system_clock
from flintstream.runtime.slot.writers import make_writer
from flintstream.spark.dataframe_source import row_chunks
from flintstream.state_processor.bootstrap_operators import CarryingOperator
from flintstream.state_processor.frames import install
from flintstream.state_processor.shares import Share
from flintstream.state_processor.state_task import HASHMAP, StateTask

KEYED_BLOCKS = pa.schema(
    [("subtask", pa.int32()), ("channel", pa.int32()), ("seq", pa.int64()), ("block", pa.binary())]
)
STORED = pa.schema([("subtask", pa.int32()), ("state", pa.binary())])
_YIELD_BYTES = 4 << 20
_FAILURE = -1
"""In the place of a block's number: the row is a failure."""


@dataclass(frozen=True)
class Records:
    """Converts the rows of a DataFrame to records with timestamps."""

    fields: tuple[str, ...] | None
    """The columns; None if the only column has blocks of pickled records."""
    timestamps: bytes | None
    """The pickled TimestampAssigner."""

    def batches(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Batch]:
        """Yields the records of Arrow batches."""
        assigner = None if self.timestamps is None else pickle.loads(self.timestamps)
        for values in self._values(batches):
            times = None
            if assigner is not None:
                times = _timestamps(assigner, values)
            yield Batch(values, times)

    def _values(self, batches: Iterator[pa.RecordBatch]) -> Iterator[list[Any]]:
        if self.fields is not None:
            for rows in row_chunks(batches):
                yield make_rows(rows, self.fields)
            return
        for batch in batches:
            for block in batch.column(0):
                yield pickle.loads(block.as_buffer())


def _timestamps(assigner: Any, values: list[Any]) -> list[int]:
    records = iter(values)
    try:
        return [assigner.extract_timestamp(value, NO_TIMESTAMP) for value in records]
    except Exception as error:
        raise user_fault(error, type(assigner).__name__, None, record_at_fault(values, records)) from error


@dataclass(frozen=True)
class RouteByKey:
    """The function of a `mapInArrow`: records as blocks, each for the subtask that owns the key groups of its keys."""

    code: bytes
    records: Records
    partitioner: bytes
    name: str
    parallelism: int
    max_parallelism: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        install(self.code)
        context: Any = TaskContext.get()
        channel = context.partitionId()
        partitioner: KeyGroupPartitioner = pickle.loads(self.partitioner)
        blocks = _Blocks(channel)
        writer = make_writer(
            partitioner, range(self.parallelism), self.max_parallelism, blocks.add, (self.name, channel)
        )
        writer.open(None)
        try:
            for batch in self.records.batches(batches):
                writer.process(batch)
                if blocks.size >= _YIELD_BYTES:
                    yield blocks.take()
            writer.flush()
        except UserCodeError as error:
            blocks.fail(error)
        finally:
            writer.close()
        if blocks.size:
            yield blocks.take()


class _Blocks:
    """Collects blocks as rows."""

    def __init__(self, channel: int) -> None:
        self._channel = channel
        self._rows: list[tuple[int, int, bytes]] = []
        self._count = 0
        self.size = 0

    def add(self, subtask: int, data: bytes) -> None:
        """Adds a block."""
        self._rows.append((subtask, self._count, data))
        self._count += 1
        self.size += len(data)

    def fail(self, error: UserCodeError) -> None:
        """Adds a failure of the user's code, which reaches the driver with its operator and record."""
        data = pickle.dumps(error, 5)
        self._rows.append((0, _FAILURE, data))
        self.size += len(data)

    def take(self) -> pa.RecordBatch:
        """Returns the blocks so far, and forgets them."""
        subtasks, numbers, blocks = zip(*self._rows)
        channels = [self._channel] * len(blocks)
        self._rows, self.size = [], 0
        arrays = [
            pa.array(column, field.type) for column, field in zip((subtasks, channels, numbers, blocks), KEYED_BLOCKS)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=KEYED_BLOCKS)


@dataclass(frozen=True)
class Destination:
    """The savepoint that is written."""

    target: CheckpointTarget
    checkpoint_id: int
    timestamp: int


@dataclass(frozen=True)
class MakeState:
    """The function of a `mapInArrow`: lets an operator process the records of a partition, and stores its state."""

    code: bytes
    operator: bytes
    """The pickled operator."""
    name: str
    operator_id: str
    parallelism: int
    max_parallelism: int
    destination: Destination
    records: Records | None
    """None for blocks of keyed records."""
    state_backend: str = HASHMAP
    state_options: dict[str, str] = field(default_factory=dict)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        install(self.code)
        context: Any = TaskContext.get()
        subtask = context.partitionId()
        found = keyed_batches(batches) if self.records is None else self.records.batches(batches)
        try:
            yield stored_row(subtask, self.make(subtask, found))
        except UserCodeError as error:
            yield stored_row(subtask, error)

    def make(self, subtask: int, batches: Iterator[Batch]) -> SubtaskState:
        """Returns the stored state of a subtask."""
        operator: Operator = pickle.loads(self.operator)
        # The clock stands still: no window or timer in processing time is due before all records are there.
        now = system_clock()
        task = StateTask(
            operator,
            self.name,
            self.operator_id,
            self.max_parallelism,
            key_group_range(self.max_parallelism, self.parallelism, subtask),
            subtask=subtask,
            parallelism=self.parallelism,
            state_backend=self.state_backend,
            state_options=self.state_options,
            clock=lambda: now,
        )
        with task:
            for batch in batches:
                if batch.values:
                    operator.process(batch)
            return store(task, self.destination, self.name)


def store(task: StateTask, destination: Destination, name: str) -> SubtaskState:
    """Writes the state of a task's operator as a savepoint has it."""
    (snapshot,) = task.snapshot(destination.checkpoint_id, destination.timestamp, savepoint=True).values()
    try:
        return PieceWriter(destination.target, name, task.subtask).write(snapshot, None)
    except Exception as error:
        raise user_fault(error, name, task.subtask) from error


def keyed_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[Batch]:
    """Yields the records of rows of blocks; raises a failure of the user's code that is among them."""
    assembler = BlockAssembler()
    for batch in batches:
        for channel, number, block in zip(batch.column(1).to_pylist(), batch.column(2).to_pylist(), batch.column(3)):
            if number == _FAILURE:
                raise pickle.loads(block.as_py())
            data = assembler.add(channel, block.as_py())
            if data is not None:
                yield decode_block(data)[0]
    if assembler.incomplete:
        raise RuntimeError("a block of records is incomplete: Spark has lost or reordered its fragments")


@dataclass(frozen=True)
class CopyState:
    """The function of a `mapInArrow`: copies subtasks of an existing savepoint."""

    code: bytes
    destination: Destination

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        install(self.code)
        for batch in batches:
            for number, data in zip(batch.column(0).to_pylist(), batch.column(1)):
                yield stored_row(number, self.copy(pickle.loads(data.as_buffer())))

    def copy(self, share: Share) -> SubtaskState:
        """Returns the copied state of a share, which is one subtask. Databases become the form of savepoints."""
        ((subtask, state),) = share.operator.subtasks.items()
        writer = PieceWriter(self.destination.target, share.operator.name, subtask)
        databases = [handle for handle in state.keyed if isinstance(handle, DatabaseHandle)]
        if not databases:
            return writer.copy(state, share.restored.storage)
        others = writer.copy(replace(state, keyed=()), share.restored.storage)
        with StateTask.for_share(CarryingOperator(), share) as task:
            return replace(store(task, self.destination, share.operator.name), operator=others.operator)


def stored_row(subtask: int, state: SubtaskState | UserCodeError) -> pa.RecordBatch:
    """Returns the stored state of a subtask, or why there is none, as a row."""
    arrays = [pa.array([subtask], pa.int32()), pa.array([pickle.dumps(state, 5)], pa.binary())]
    return pa.RecordBatch.from_arrays(arrays, schema=STORED)
