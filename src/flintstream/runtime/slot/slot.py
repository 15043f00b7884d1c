"""Slot: the long-lived process that hosts one subtask of each vertex, with operators, state and timers.

Three threads: one listens to the driver, and tells it at any time what the slot does; one accepts the connections of Spark
tasks; and the main one, the processing thread, does everything else, one thing after the other.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import queue
import shutil
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from flintstream.common.owned_directories import owned_directory
from flintstream.common.processes import Process
from flintstream.common.time import earliest
from flintstream.runtime.checkpoint.pieces import CheckpointTarget, RestoredOperators
from flintstream.runtime.checkpoint.uploads import SlotSnapshot, Uploads
from flintstream.runtime.context import JobInfo
from flintstream.runtime.deployment import VertexDeployment
from flintstream.runtime.detach import set_object_reuse
from flintstream.runtime.faults import Fault, UserCodeError, engine_fault
from flintstream.runtime.operators.source import SourceHead
from flintstream.runtime.services import SlotServices
from flintstream.runtime.slot.activity import ActivityMonitor
from flintstream.runtime.slot.connections import (
    Address,
    ConnectionListener,
    Credentials,
    connect,
    notice_silence,
    received,
)
from flintstream.runtime.slot.garbage import GarbageCollection, resident_bytes
from flintstream.runtime.slot.protocol import (
    ASKING_SOURCES,
    DONE,
    END,
    FAILED,
    INPUT,
    LOOK,
    OUTPUT,
    PASS_ON,
    ROW_HEADER,
    DataReady,
    EpochReport,
    Hello,
    ReadSpool,
    Registration,
    Reply,
    Request,
    SlotFailed,
    SourceWork,
    VertexReport,
)
from flintstream.runtime.slot.task import Task
from flintstream.runtime.slot.user_code import UserCode

POLL_SECONDS = 0.05
"""How often a source that cannot tell when it has data is asked while the job is idle."""
_FIRST_PAGE_BYTES = 1 << 20
_GRACE_SECONDS = 10.0
_HELLO_SECONDS = 60.0


@dataclass(frozen=True)
class SlotSpec:
    """What a slot is told when it is started."""

    slot: int
    job_id: str
    attempt: int
    driver: Address
    credentials: Credentials
    directory: str | None
    """Where the slot may put its socket and files; None where the driver is on another machine."""
    connect_seconds: float = 300.0
    """For the driver to answer the slot's first call: one that is stopped for a while, by Control-Z say, loses no slot."""
    heartbeat_timeout: float = 600.0
    """A slot that has heard nothing of a driver on another machine for so long ends."""


class TaskConnectionLost(BaseException):
    """The Spark task on the other side has gone. Not an Exception: no user code may catch it."""


class Slot:
    """See the module."""

    def __init__(self, spec: SlotSpec, control: Connection, directory: str) -> None:
        self._spec = spec
        self._control = control
        self._control_lock = threading.Lock()
        self._directory = directory
        self._work: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._services = SlotServices(self._notify_data, directory=directory)
        self._notified = False
        self._tasks: list[Task] = []
        self._sources: list[tuple[Task, SourceHead]] = []
        self._epoch = -1
        self._accepted: set[int] = set()
        self._completed: set[int] = set()
        self._busy: dict[int, float] = {}
        self._source_work: dict[int, SourceWork] = {}
        self._broken = False
        self._incremental = True
        self._uploads = Uploads(spec.slot, self._tell)
        self._activity = ActivityMonitor()
        self._garbage = GarbageCollection()
        self._send: Callable[[bytes], None] = _nobody
        self._calls: dict[str, Callable[..., Any]] = {
            "deploy": self._deploy,
            "begin_epoch": self._begin_epoch,
            "end_epoch": self._end_epoch,
            "snapshot": self._snapshot,
            "checkpoint_complete": self._checkpoint_complete,
            "checkpoint_aborted": self._checkpoint_aborted,
            "staged": self._staged,
            "fetch": self._fetch,
            "release": self._release,
            "close": self._close,
        }

    # --- threads ---

    def take(self, connection: Connection) -> None:
        """Takes in a Spark task; the processing thread serves it when its turn comes."""
        try:
            # Nobody else waits for a task that says nothing: this thread is its own.
            if not connection.poll(_HELLO_SECONDS):
                raise TimeoutError(f"a Spark task has not said within {_HELLO_SECONDS:g} s what it wants")
            hello = connection.recv()
        except (EOFError, OSError):
            connection.close()  # Spark knows, and tells the driver.
        else:
            self._work.put((hello, connection))

    def run(self) -> None:
        """The processing thread: works until the driver hangs up, at which the process ends."""
        threading.Thread(target=self._listen_to_driver, name="control", daemon=True).start()
        try:
            while True:
                self._do_next()
        except BaseException as error:
            self._fail(engine_fault(error))
            raise

    def _do_next(self) -> None:
        # In a frame of its own, which ends with it: before Python 3.13 whoever looks at the variables of a frame leaves a
        # copy of them there, and what a slot was told to restore would stay for good.
        item = self._next_item()
        if isinstance(item, Request):
            self._activity.begin(item.call)
            self._answer(item)
        else:
            self._activity.begin(f"processing epoch {self._epoch}")
            self._serve(*item)
        self._activity.end()

    def _next_item(self) -> Any:
        while True:
            pollable = self._pollable()
            try:
                return self._work.get(timeout=POLL_SECONDS if pollable else None)
            except queue.Empty:
                self._activity.begin(ASKING_SOURCES)
                try:
                    if any([head.poll() for head in pollable]):
                        self._notify_data()
                except Exception as error:
                    self._fail(engine_fault(error))
                self._activity.end()

    def _pollable(self) -> list[SourceHead]:
        """The sources to look at while nothing runs: those that still read and have not told that they have data."""
        if self._notified or self._broken or self._epoch < 0:
            return []
        return [head for task, head in self._sources if not task.finished and head.wants_polling]

    def _listen_to_driver(self) -> None:
        try:
            while self._driver_is_there():
                for message in received(self._control):
                    if isinstance(message, Request) and message.call == LOOK:
                        self._tell_activity(message)
                    else:
                        self._work.put(message)
        except (EOFError, OSError):
            pass  # The driver has hung up, or is dead.
        except BaseException as error:  # A call that cannot be unpickled here: a class of the user's is missing.
            self._fail(engine_fault(error))
        finally:
            # Nothing here may outlive the driver's word, least of all threads of user code; one of them may hold a stream.
            threading.Timer(_GRACE_SECONDS, os._exit, [0]).start()
            sys.stdout.flush()
            sys.stderr.flush()
            self._remove_files()
            os._exit(0)

    def _tell_activity(self, request: Request) -> None:
        try:
            reply = Reply(request.number, self._activity.look(self._uploads.since))
        except Exception as error:  # Whatever is on that stack: this thread must go on.
            reply = Reply(request.number, fault=engine_fault(error))
        self._tell(reply)

    def _driver_is_there(self) -> bool:
        """Waits for the next word of the driver; false if there is none for too long.

        On this machine a connection ends with its process; one from another machine may fall silent without an end.
        """
        if isinstance(self._spec.driver, str):
            return True
        # Should native code hold the interpreter until then, this thread cannot act; the one behind this call can.
        faulthandler.dump_traceback_later(self._spec.heartbeat_timeout + _GRACE_SECONDS, exit=True)
        return self._control.poll(self._spec.heartbeat_timeout)

    def _remove_files(self) -> None:
        """Removes this slot's files; the last slot of a driver that was killed removes what is left of the driver's."""
        shutil.rmtree(self._directory, ignore_errors=True)
        if isinstance(self._spec.driver, str) and self._spec.directory is not None:
            left = os.listdir(self._spec.directory) if os.path.isdir(self._spec.directory) else []
            # Beside the driver's socket, the shells of slots that have ended before leave their exit status.
            if all(name == os.path.basename(self._spec.driver) or name.startswith("exit-") for name in left):
                shutil.rmtree(self._spec.directory, ignore_errors=True)

    def _tell(self, message: Any) -> None:
        with self._control_lock:
            self._control.send(message)

    def _notify_data(self) -> None:
        if not self._notified:
            self._notified = True
            self._tell(DataReady(self._spec.slot))

    def _answer(self, request: Request) -> None:
        """Carries out a call of the driver."""
        try:
            reply = Reply(request.number, self._calls[request.call](**request.arguments))
        except Exception as error:
            reply = Reply(request.number, fault=engine_fault(error))
        self._tell(reply)

    def _fail(self, fault: Fault) -> None:
        self._broken = True
        self._tell(SlotFailed(self._spec.slot, fault))

    # --- calls of the driver ---

    def _deploy(
        self, job: JobInfo, user_code: UserCode, operators: bytes, restored: RestoredOperators | None = None
    ) -> None:
        user_code.install(self._directory)
        job = user_code.localised(job, self._directory)
        hosted: list[tuple[VertexDeployment, int]] = pickle.loads(operators)
        self._tasks = [Task(vertex, subtask, job, self._services, self._emit_row) for vertex, subtask in hosted]
        self._incremental = job.incremental_checkpoints
        set_object_reuse(job.object_reuse)
        if restored is not None:
            for task in self._tasks:
                task.restore(partial(restored.chains, directory=self._directory))
        for task in reversed(self._tasks):
            task.open()
        self._sources = [(task, task.head) for task in self._tasks if isinstance(task.head, SourceHead)]
        self._garbage.begin()

    def _begin_epoch(self, epoch: int, sources: dict[int, SourceWork]) -> None:
        self._epoch = epoch
        self._accepted = set()
        self._completed = set()
        self._busy = {}
        self._source_work = sources
        self._notified = False

    def _end_epoch(self) -> EpochReport:
        self._garbage.epoch_done()
        reports = [self._report(task) for task in self._tasks]
        accumulators: dict[str, Any] = {}
        for task in self._tasks:
            for name, accumulator in task.accumulators.items():
                if name in accumulators:
                    accumulators[name].merge(accumulator)
                else:
                    accumulators[name] = accumulator.clone()
        spools = {
            name: spool.pages for name, spool in self._services.spools.items() if spool.pages and not spool.staged
        }
        first_pages = {}
        for name, pages in spools.items():
            if self._services.spools[name].kept:
                continue
            page = self._services.spools[name].page(0)
            if len(page) <= _FIRST_PAGE_BYTES:
                first_pages[name] = page
                if pages == 1:
                    self._services.spools[name].clear()
        dues = [task.next_due() for task in self._tasks if not task.finished]
        if any(head.has_data() for task, head in self._sources if not task.finished):
            dues.append(0.0)
        return EpochReport(
            levels=frozenset(self._completed),
            vertices=reports,
            spools=spools,
            first_pages=first_pages,
            accumulators=accumulators,
            next_due=earliest(dues),
            busy=self._busy,
            memory=resident_bytes(),
            late_records=self._late_records(),
        )

    def _late_records(self) -> dict[str, int]:
        found: Counter[str] = Counter()
        for task in self._tasks:
            found.update(task.late_records())
        return dict(found)

    def _report(self, task: Task) -> VertexReport:
        head = task.head
        source = isinstance(head, SourceHead)
        return VertexReport(
            vertex_id=task.vertex.vertex_id,
            subtask=task.subtask,
            records_in=task.records_in if not source else head.output.records,
            records_out=task.records_out,
            finished=task.finished,
            records_left=task.records_left,
            positions=head.positions if isinstance(head, SourceHead) else {},
            progress=head.progress() if isinstance(head, SourceHead) else None,
        )

    def _snapshot(self, checkpoint_id: int, timestamp: int, target: CheckpointTarget, savepoint: bool = False) -> None:
        """Takes the state of all operators as it is now; it is stored while the next epochs run."""
        snapshots = [
            (operator_id, names[operator_id], task.subtask, taken)
            for task in self._tasks
            for names in [{each.operator_id: each.name for each in task.vertex.operators}]
            for operator_id, taken in task.snapshot(checkpoint_id, timestamp, savepoint).items()
        ]
        self._uploads.add(SlotSnapshot(checkpoint_id, target, self._incremental and not savepoint, snapshots))

    def _checkpoint_complete(self, checkpoint_id: int) -> None:
        self._uploads.completed(checkpoint_id)
        for task in self._tasks:
            task.notify_checkpoint_complete(checkpoint_id)

    def _checkpoint_aborted(self, checkpoint_id: int) -> None:
        for task in self._tasks:
            task.notify_checkpoint_aborted(checkpoint_id)

    def _staged(self) -> dict[str, int]:
        """The spools whose records wait for a checkpoint, with their pages."""
        return {name: spool.pages for name, spool in self._services.spools.items() if spool.staged and spool.pages}

    def _fetch(self, spool: str, page: int) -> bytes:
        return self._services.spools[spool].page(page)

    def _release(self, spools: list[str]) -> None:
        for name in spools:
            self._services.spools.pop(name).clear()

    def _close(self) -> EpochReport:
        """Closes all operators; the first failure is the driver's to know."""
        errors = [error for task in self._tasks for error in task.close()]
        if errors:
            raise errors[0]
        return self._end_epoch()

    # --- levels ---

    def _serve(self, hello: Any, connection: Connection) -> None:
        """Processes a level of the epoch for the Spark task on the other side."""
        with connection:
            try:
                if isinstance(hello, ReadSpool):
                    self._give_spool(hello.spool, connection)
                    return
                refusal = self._refusal(hello)
                if refusal is not None:
                    connection.send_bytes(FAILED + refusal.encode())
                    return
                self._accepted.add(hello.level)
                self._process_level(hello.level, connection)
                self._completed.add(hello.level)
                connection.send_bytes(DONE)
            except UserCodeError as error:
                self._fail(error.fault)
                _try_send(connection, FAILED + error.fault.summary.encode())
            except (EOFError, OSError, TaskConnectionLost) as error:
                self._fail(Fault(None, None, None, repr(error), f"the Spark task of epoch {self._epoch} went away"))
            except Exception as error:
                self._fail(engine_fault(error))
                _try_send(connection, FAILED + repr(error).encode())
            finally:
                self._send = _nobody

    def _give_spool(self, name: str, connection: Connection) -> None:
        """Streams the pages of a spool to a Spark task; they stay, so that it may come again."""
        spool = self._services.spools.get(name)
        for page in range(spool.pages if spool is not None else 0):
            assert spool is not None
            connection.send_bytes(OUTPUT + spool.page(page))
        connection.send_bytes(DONE)

    def _refusal(self, hello: Hello) -> str | None:
        """Why a task may not enter; None if it may. Each level of each epoch is entered once, in order."""
        if not isinstance(hello, Hello) or (hello.job_id, hello.slot) != (self._spec.job_id, self._spec.slot):
            return f"this is slot {self._spec.slot} of job {self._spec.job_id}"
        if hello.attempt != self._spec.attempt:
            return f"attempt {hello.attempt} has ended, this is attempt {self._spec.attempt}"
        if hello.epoch != self._epoch:
            return f"epoch {hello.epoch} is not the one that runs, {self._epoch}"
        if self._broken:
            return f"epoch {hello.epoch} has failed in this slot"
        if self._accepted and hello.level <= max(self._accepted):
            refusal = (
                f"level {hello.level} of epoch {hello.epoch} was processed here before: Spark ran a task twice, "
                "and records must not be counted twice"
            )
            self._fail(Fault(None, None, None, refusal, refusal))
            return refusal
        return None

    def _process_level(self, level: int, connection: Connection) -> None:
        started = time.perf_counter()
        self._send = connection.send_bytes
        connection.send_bytes(DONE)  # Welcome: the hello is accepted.
        tasks = {task.vertex.vertex_id: task for task in self._tasks if task.vertex.level == level}
        for task in tasks.values():
            if work := self._work_of(task):
                # Before any row: a split that is known holds the watermark even if its rows come last.
                task.assign_splits(work)
        waited = self._take_input(tasks, connection)
        for task in tasks.values():
            if work := self._work_of(task):
                task.read_source(work)
            task.end_epoch()
        self._busy[level] = time.perf_counter() - started - waited

    def _work_of(self, task: Task) -> SourceWork | None:
        """What the source of a task has to do in this epoch; None for a task without one, or one that has ended."""
        if not isinstance(task.head, SourceHead) or task.finished:
            return None
        return self._source_work.get(task.vertex.vertex_id)

    def _take_input(self, tasks: dict[int, Task], connection: Connection) -> float:
        """Processes blocks until the task says that there are no more; returns the seconds spent waiting."""
        waited = 0.0
        header_size = ROW_HEADER.size
        clock = time.perf_counter
        while True:
            before = clock()
            frame = connection.recv_bytes()
            waited += clock() - before
            kind = frame[:1]
            if kind == INPUT:
                _, _, vertex, input_index, channel, _ = ROW_HEADER.unpack_from(frame)
                tasks[vertex].receive(input_index, channel, memoryview(frame)[header_size:])
            elif kind == PASS_ON:
                self._forward(OUTPUT + frame[1:])
            elif kind == END:
                return waited

    def _emit_row(self, slot: int, vertex: int, input_index: int, channel: int, number: int, data: bytes) -> None:
        self._forward(ROW_HEADER.pack(OUTPUT, slot, vertex, input_index, channel, number) + data)

    def _forward(self, frame: bytes) -> None:
        try:
            self._send(frame)
        except OSError as error:
            raise TaskConnectionLost(str(error)) from error


def _nobody(frame: bytes) -> None:
    raise AssertionError("a block was emitted outside of an epoch")


def _try_send(connection: Connection, frame: bytes) -> None:
    try:
        connection.send_bytes(frame)
    except OSError:
        pass


def main() -> None:
    """The slot's process: reads its SlotSpec from standard input."""
    import tempfile

    spec: SlotSpec = pickle.load(sys.stdin.buffer)
    if spec.directory is not None and os.path.isdir(spec.directory):
        directory = tempfile.mkdtemp(prefix=f"slot-{spec.slot}-", dir=spec.directory)
    else:
        directory = str(owned_directory(prefix="flint-slot-"))
    try:
        try:
            control = connect(spec.driver, spec.credentials, spec.connect_seconds)
        except (FileNotFoundError, ConnectionRefusedError):
            if isinstance(spec.driver, str):
                return  # The driver has closed its socket: the attempt is over, and nobody waits for this slot.
            raise
        notice_silence(control)
        slot = Slot(spec, control, directory)
        own = os.path.join(directory, "s") if isinstance(spec.driver, str) else (_own_address(spec.driver), 0)
        listener = ConnectionListener(own, spec.credentials, slot.take)
        threading.Thread(target=listener.serve, name="accept", daemon=True).start()
        control.send(Registration(spec.slot, Process.of(os.getpid()), socket.gethostname(), listener.address))
        slot.run()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _own_address(driver: tuple[str, int]) -> str:
    """The address of this machine from which the driver is reached."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(driver)
        host: str = probe.getsockname()[0]
        return host


if __name__ == "__main__":
    main()
