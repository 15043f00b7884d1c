"""PipelinedRunner: one Spark job that stands for a whole attempt, and moves blocks as they come.

    slot i ──► sender task i ──► Spark's pipelined shuffle ──► receiver task j ──► slot j

One exchange serves all levels: a pack that a slot sends arrives at another, which sends what comes of it into the same
exchange. The job has twice as many tasks as slots, which all run at the same time.

Spark uses its pipelined shuffle for queries in real-time mode. A plain batch job uses it too if its exchange is marked as
pipelined before it runs. That rests on internals of Spark: `missing` says what is not there, and such a job then runs in
epochs. Some settings belong to the application, and are those of a Spark that Flintstream has started.
"""

from __future__ import annotations

import logging
import queue
import resource
import struct
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from flintstream.runtime.slot.handshake import SlotAccess
from flintstream.runtime.slot.protocol import Join
from flintstream.runtime.slot.transport import Transport
from flintstream.spark.exchange import binary_array, end_if_hung_up, expect_done, settle_worker
from flintstream.spark.jvm import cancel_jobs
from flintstream.spark.session import PIPELINED_DEFAULTS, is_local, job_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SESSION_SETTINGS = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    "spark.sql.execution.pandas.udf.buffer.size": "64",
}
_ROW_SCHEMA = "slot INT, pack BINARY"
_ARROW_SCHEMA = pa.schema([("slot", pa.int32()), ("pack", pa.binary())])
_TARGET = struct.Struct("<i")
_ROW_BYTES = 1 << 20
_END_SECONDS = 10.0
_ENCRYPTING = ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled")
_DEFAULT_PROFILE = 0
_REGISTERING = ("spark.scheduler.maxRegisteredResourcesWaitingTime", "30s")
"""The setting for how long to wait for executors, and its default."""
_SETTLE_SECONDS = 2.0
"""How long no executor must have registered until those of a new application are considered complete."""
_POLL_SECONDS = 0.1
_OPEN_FILES, _OPEN_FILES_A_SLOT, _OPEN_FILES_A_PAIR = 500, 15, 5
"""The open files of Spark's JVM: in any case, for each slot, and for each pair of slots (counted with 8 and 24 slots). Each
receiver has a client of its own, with its own event loop, for each sender.
"""
_seen: dict[str, int] = {}
"""How many tasks have run at the same time, by Spark application."""
_log = logging.getLogger(__name__)


def missing(spark: SparkSession, slots: int, check: Callable[[], None] = lambda: None) -> str | None:
    """Returns why a pipelined job with that many slots cannot run on this Spark; None if it can.

    On a cluster it waits for executors that have not registered yet, and calls `check` meanwhile, which may raise.
    """
    configuration = spark.sparkContext.getConf()
    for key in _ENCRYPTING:
        if not is_local(spark) and configuration.get(key, "false").lower() == "true":
            return f"Spark's pipelined shuffle encrypts nothing, and {key} is true"
    for key, value in PIPELINED_DEFAULTS.items():
        if configuration.get(key) != value:
            return f"its Spark session was started without {key}={value}"
    try:
        exchange = _exchange_of(_standing(job_session(spark), 1, _nothing, _nothing))
        exchange.getClass().getDeclaredField("pipelined")
        _task_slots(spark)
    except Exception as error:
        return f"this version of Spark has no pipelined shuffle that a batch job can use ({type(error).__name__})"
    if is_local(spark) and (reason := _too_many_files(slots)) is not None:
        return reason
    tasks = _task_slots(spark) if is_local(spark) else _task_slots_of_executors(spark, 2 * slots, check)
    if tasks < 2 * slots:
        return (
            f"it needs {2 * slots} tasks at the same time, and Spark runs {tasks}: more cores would do, or a lower "
            "spark.task.cpus, which may be a fraction"
        )
    return None


def _too_many_files(slots: int) -> str | None:
    """Returns why so many slots would be too many for one JVM; None if they are not."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)  # Java raises its own limit to the hard one.
    needed = _OPEN_FILES + _OPEN_FILES_A_SLOT * slots + _OPEN_FILES_A_PAIR * slots**2
    if most == resource.RLIM_INFINITY or needed <= most:
        return None
    return (
        f"for {slots} slots, Spark's pipelined shuffle needs about {needed} open files in one JVM, and {most} are allowed "
        "(ulimit -Hn): fewer slots would do, or a higher limit, or a cluster"
    )


def _task_slots(spark: SparkSession) -> int:
    """Returns how many tasks run at the same time on the executors that are registered now, by Spark's own count."""
    return int(_jvm_context(spark).dagScheduler().maxConcurrentTasksForProfile(_DEFAULT_PROFILE))


def _jvm_context(spark: SparkSession) -> Any:
    context: Any = spark.sparkContext._jsc
    return context.sc()


def _task_slots_of_executors(spark: SparkSession, wanted: int, check: Callable[[], None]) -> int:
    """Returns the same after the executors have registered.

    How many will come is unknown. At first, waits until there are enough and no more come; later, for a replacement of those
    that have been lost.
    """
    application = str(spark.sparkContext.applicationId)
    before = _seen.get(application)
    enough, settle = (wanted, _SETTLE_SECONDS) if before is None else (before, 0.0)
    changed = time.monotonic()
    deadline = changed + _jvm_context(spark).conf().getTimeAsMs(*_REGISTERING) / 1000
    tasks = _task_slots(spark)
    while (now := time.monotonic()) < deadline and (tasks < enough or now < changed + settle):
        check()
        time.sleep(_POLL_SECONDS)
        if (counted := _task_slots(spark)) != tasks:
            tasks, changed = counted, time.monotonic()
    _seen[application] = tasks
    return tasks


class PipelinedRunner(Transport):
    """The transport of a pipelined attempt. `on_failure` is called, on the thread of the standing job, if it ends early."""

    standing = True

    def __init__(
        self,
        spark: SparkSession,
        job_id: str,
        attempt: int,
        slots: SlotAccess,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._context = spark.sparkContext
        self._session = job_session(spark)
        for key, value in _SESSION_SETTINGS.items():
            self._session.conf.set(key, value)
        self._job_id = job_id
        self._attempt = attempt
        self._slots = slots
        self._on_failure = on_failure
        self.group = f"flint-{job_id}-{attempt}-{uuid.uuid4().hex[:8]}"
        self._thread: threading.Thread | None = None
        self._ending = False
        self._joined: set[int] = set()

    @property
    def joined(self) -> bool:
        """Returns whether the tasks are connected to all slots."""
        return len(self._joined) == len(self._slots.addresses)

    def note_joined(self, slot: int) -> None:
        """Notes that the tasks are connected to a slot."""
        self._joined.add(slot)

    def start(self) -> None:
        """Starts the standing job; its tasks connect to the slots."""
        self._thread = threading.Thread(target=self._stand, name=f"standing job {self._job_id}", daemon=True)
        self._thread.start()

    def run(self, epoch: int, readers: Sequence[Any] = ()) -> None:
        """Does nothing: slots process blocks by themselves."""
        assert not readers, "a pipelined job reads no DataFrames"

    def cancel(self) -> None:
        self._ending = True
        cancel_jobs(self._context, self.group, "the job has ended")

    def close(self) -> None:
        """Ends the standing job after its slots have hung up; cancels it if it does not end."""
        self._ending = True
        if self._thread is not None:
            self._thread.join(_END_SECONDS)
            if self._thread.is_alive():
                self.cancel()
                self._thread.join(_END_SECONDS)

    def _stand(self) -> None:
        try:
            self._context.setLocalProperty("spark.scheduler.pool", self.group)
            self._context.setJobGroup(self.group, f"job {self._job_id}, pipelined", True)
            sender = _Sender(self._job_id, self._attempt, self._slots)
            receiver = _Receiver(self._job_id, self._attempt, self._slots)
            frame = _standing(self._session, len(self._slots.addresses), sender, receiver)
            exchange = _exchange_of(frame)
            field = exchange.getClass().getDeclaredField("pipelined")
            field.setAccessible(True)
            field.setBoolean(exchange, True)  # The plan is a lazy value: the action runs this very object.
            frame.collect()
            if not self._ending:
                raise RuntimeError("the standing job has ended before the slots")
        except BaseException as error:
            if not self._ending:
                self._on_failure(error)


def _standing(spark: SparkSession, width: int, sender: Any, receiver: Any) -> DataFrame:
    frame = spark.range(0, width, 1, width).mapInArrow(sender, _ROW_SCHEMA)
    return frame.repartitionById(width, "slot").mapInArrow(receiver, _ROW_SCHEMA)


def _nothing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return iter(())


def _exchange_of(frame: DataFrame) -> Any:
    """Returns the exchange in the physical plan of a standing job."""
    waiting = [frame._jdf.queryExecution().executedPlan()]
    while waiting:
        node = waiting.pop()
        if node.getClass().getSimpleName() == "ShuffleExchangeExec":
            return node
        children = node.children()
        waiting += [children.apply(index) for index in range(children.size())]
    raise RuntimeError("the plan has no exchange")


@dataclass(frozen=True)
class _Task:
    """A task of the standing job."""

    job_id: str
    attempt: int
    slots: SlotAccess

    @contextmanager
    def _joined(self, sends: bool) -> Iterator[Connection]:
        """Connects to the slot of this partition."""
        try:
            with self._join(sends) as connection:
                yield connection
        finally:
            end_if_hung_up()

    def _join(self, sends: bool) -> Connection:
        from pyspark import TaskContext

        settle_worker()
        context: Any = TaskContext.get()
        slot = context.partitionId()
        connection = self.slots.connect(slot)
        connection.send(Join(self.job_id, self.attempt, slot, sends))
        expect_done(connection.recv_bytes())
        return connection


class _Sender(_Task):
    """Takes packs from a slot. A thread receives them at any time: a slot that sends must never wait for Spark, which may
    wait for another slot that sends. What is received is bounded by the credits of the channels.
    """

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        received: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        held: dict[int, None] = {}
        """The slots whose receivers hold a row back until the next one arrives."""
        with self._joined(sends=True) as connection:
            threading.Thread(target=_receive, args=(connection, received), name="receiver", daemon=True).start()
            while (frame := received.get()) is not None:
                packs: dict[int, list[memoryview]] = {}
                size, ended = 0, False
                while frame is not None:
                    [target] = _TARGET.unpack_from(frame)
                    packs.setdefault(target, []).append(memoryview(frame)[_TARGET.size :])
                    size += len(frame)
                    if size >= _ROW_BYTES or received.empty():
                        break
                    frame = received.get()
                    ended = frame is None
                slots = list(packs)
                rows = [b"".join(parts) for parts in packs.values()]
                held.update(dict.fromkeys(packs))
                if received.empty():
                    # An empty row follows the last of each.
                    slots, rows = [*slots, *held], rows + [b""] * len(held)
                    held.clear()
                yield pa.RecordBatch.from_arrays(
                    [pa.array(slots, pa.int32()), binary_array(rows)], schema=_ARROW_SCHEMA
                )
                if ended:
                    return


def _receive(connection: Connection, received: queue.SimpleQueue[bytes | None]) -> None:
    try:
        while True:
            received.put(connection.recv_bytes())
    except (EOFError, OSError):
        received.put(None)  # The slot has hung up: the task, and then the job, ends.


class _Receiver(_Task):
    """Passes packs to a slot."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with self._joined(sends=False) as connection:
            hung_up = False
            for batch in batches:
                for pack in batch.column(1):
                    buffer = pack.as_buffer()
                    if len(buffer) and not hung_up:
                        try:
                            connection.send_bytes(buffer)
                        except OSError:
                            hung_up = True  # The job ends with its senders, which expect that all is received.
        return
        yield
