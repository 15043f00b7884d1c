"""SlotProcess: the long-lived process of a slot.

One thread listens to the driver, and reports the slot's activity at any time. One accepts the connections of Spark tasks,
and receives each hello on a separate thread. The main thread, the processing thread, does everything else, one thing after
the other: calls of the driver, and frames from whichever connection has one.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import selectors
import shutil
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from flintstream.common.owned_directories import owned_directory
from flintstream.common.processes import Process
from flintstream.common.time import earliest
from flintstream.runtime.detach import set_object_reuse
from flintstream.runtime.faults import Fault, UserCodeError, engine_fault
from flintstream.runtime.operators.source import SourceHead
from flintstream.runtime.slot.activity import ActivityMonitor
from flintstream.runtime.slot.connections import Address, JobConnection, limit, notice_silence, received
from flintstream.runtime.slot.fence import EnteredTwice, Refused
from flintstream.runtime.slot.garbage import GarbageCollection
from flintstream.runtime.slot.handshake import ConnectionListener, Credentials, connect
from flintstream.runtime.slot.messages import (
    VERSION,
    BeginEpoch,
    CheckpointAborted,
    CheckpointComplete,
    Close,
    Deploy,
    EndEpoch,
    FetchPages,
    ListStaged,
    Look,
    Measure,
    Message,
    PassBarrier,
    ReadStacks,
    Registration,
    ReleaseSpool,
    Reply,
    Request,
    SampleStacks,
    TakeSnapshot,
)
from flintstream.runtime.slot.pipelined_work import PipelinedWork
from flintstream.runtime.slot.protocol import (
    ASKING_SOURCES,
    CLEANING_UP,
    DONE,
    END,
    FAILED,
    INPUT,
    OUTPUT,
    PASS_ON,
    ROW_HEADER,
    AskStates,
    EpochReport,
    Join,
    ReadSpool,
)
from flintstream.runtime.slot.sampling import sample_stacks
from flintstream.runtime.slot.seals import Seals
from flintstream.runtime.slot.slot import Slot
from flintstream.runtime.slot.transport import Inlet
from flintstream.runtime.stacks import all_stacks

POLL_SECONDS = 0.05
"""The interval of polling sources that cannot announce data themselves, while the job is idle."""
_GRACE_SECONDS = 10.0
_HELLO_SECONDS = 60.0
_STEP_SECONDS = 1.0


@dataclass(frozen=True)
class SlotSpec:
    """The parameters of a slot's process."""

    slot: int
    job_id: str
    attempt: int
    driver: Address
    credentials: Credentials
    directory: str | None
    """The directory for the slot's socket and files; None if the driver is on another machine."""
    connect_seconds: float = 300.0
    """The timeout for connecting to the driver: long, since a driver may be suspended for a while, e.g. by Control-Z."""
    heartbeat_timeout: float = 600.0
    """The silence after which a slot considers a driver on another machine lost, and exits; and after which a level fails
    whose Spark task has stopped in the middle of a frame.
    """


class TaskConnectionLost(BaseException):
    """The Spark task has disconnected. Not an Exception: no user code may catch it."""


class InputFailed(Exception):
    """The input of a Spark task has failed."""


class TaskStopped(TaskConnectionLost):
    """The Spark task is connected, but has stopped sending or receiving."""


class SlotProcess:
    """See the module. Created and run by the processing thread."""

    def __init__(self, spec: SlotSpec, control: Connection, directory: str) -> None:
        self._spec = spec
        self._thread = threading.get_ident()
        self._control = control
        self._control_lock = threading.Lock()
        self._directory = directory
        self._slot = Slot(spec.slot, spec.job_id, spec.attempt, self._tell, directory)
        self._activity = ActivityMonitor()
        self._garbage = GarbageCollection()
        self._requests: deque[Request] = deque()
        self._arrivals: deque[tuple[Any, JobConnection]] = deque()
        self._early: list[tuple[Join, JobConnection]] = []
        """Tasks of a pipelined job that wait for the operators."""
        self._inlets: dict[JobConnection, Inlet] = {}
        """The levels that are being processed, each for the Spark task at the other end of a connection."""
        self._pipelined: PipelinedWork | None = None
        """The work of a pipelined job; None for one with a Spark job per epoch."""
        self._readable: list[JobConnection] = []
        self._in_mid_frame: dict[JobConnection, float] = {}
        """The connections with an incomplete frame, and the seconds since the last byte of it."""
        self._woken, self._waker = socket.socketpair()
        self._waker.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._woken, selectors.EVENT_READ)

    # --- from other threads ---

    def take(self, connection: JobConnection) -> None:
        """Receives the hello of a Spark task, and queues it for the processing thread."""
        try:
            # A silent task blocks no other: this thread is its own.
            limit(connection, _HELLO_SECONDS, socket.SO_RCVTIMEO)
            hello = connection.recv()
            limit(connection, self._spec.heartbeat_timeout, socket.SO_SNDTIMEO)
        except (EOFError, OSError):
            connection.close()  # Spark knows, and tells the driver.
        else:
            self._arrivals.append((hello, connection))
            self._wake()

    def put(self, request: Request) -> None:
        """Queues a call of the driver, to be executed while no level is processed; questions are answered at once."""
        if isinstance(request.message, Look):
            self._answer_at_once(request.number, lambda: self._activity.look(self._slot.uploads.since))
        elif isinstance(request.message, Measure):
            self._answer_at_once(request.number, self._slot.measure)
        elif isinstance(request.message, ReadStacks):
            self._answer_at_once(request.number, all_stacks)
        elif isinstance(request.message, SampleStacks):
            # This takes its time, in which the driver's next message must not wait.
            threading.Thread(target=self._sample, args=(request, request.message), name="sampler", daemon=True).start()
        else:
            self._requests.append(request)
            self._wake()

    def _wake(self) -> None:
        try:
            self._waker.send(b"!")
        except BlockingIOError:
            pass  # Already woken.

    def listen_to_driver(self) -> None:
        """Receives the calls of the driver until it hangs up, and then ends the process."""
        try:
            while self._driver_is_there():
                for request in received(self._control):
                    self.put(request)
        except (EOFError, OSError):
            pass  # The driver has hung up, or is dead.
        except BaseException as error:  # A call that cannot be unpickled: a class of the user is missing here.
            self._slot.fail(engine_fault(error))
        finally:
            # Nothing may outlive the driver, least of all threads of user code; one of them may hold the lock of a stream.
            threading.Timer(_GRACE_SECONDS, os._exit, [0]).start()
            try:
                sys.stdout.flush()
                sys.stderr.flush()
                self._remove_files()
            finally:
                os._exit(0)

    def _answer_at_once(self, number: int, answer: Callable[[], Any]) -> None:
        try:
            reply = Reply(number, answer())
        except Exception as error:  # Whatever the processing thread is doing: this thread must continue.
            reply = Reply(number, fault=engine_fault(error))
        self._tell(reply)

    def _sample(self, request: Request, wanted: SampleStacks) -> None:
        try:
            self._answer_at_once(
                request.number,
                lambda: sample_stacks(self._thread, self._slot.tasks, wanted.samples, wanted.seconds),
            )
        except OSError:
            pass  # The driver has hung up: this process is about to end.

    def _driver_is_there(self) -> bool:
        """Waits for the next message of the driver; returns False after the heartbeat timeout.

        A local connection ends with its process; one from another machine may fall silent without an end.
        """
        if isinstance(self._spec.driver, str):
            return True
        # If native code holds the interpreter until then, this thread cannot act; the watchdog of faulthandler can.
        faulthandler.dump_traceback_later(self._spec.heartbeat_timeout + _GRACE_SECONDS, exit=True)
        return self._control.poll(self._spec.heartbeat_timeout)

    def _remove_files(self) -> None:
        """Removes this slot's files; the last slot of a killed driver removes the driver's files too."""
        shutil.rmtree(self._directory, ignore_errors=True)
        if isinstance(self._spec.driver, str) and self._spec.directory is not None:
            try:
                left = os.listdir(self._spec.directory)
            except FileNotFoundError:
                return  # The driver removes them at the same time.
            # Besides the driver's socket, there are the exit statuses that the shells of ended slots leave.
            if all(name == os.path.basename(self._spec.driver) or name.startswith("exit-") for name in left):
                shutil.rmtree(self._spec.directory, ignore_errors=True)

    def _tell(self, message: Any) -> None:
        with self._control_lock:
            self._control.send(message)

    # --- the processing thread ---

    def run(self) -> None:
        """The processing thread: runs until the driver hangs up, upon which the process ends."""
        with self._selector, self._woken, self._waker:
            try:
                while True:
                    self._do_next()
            except BaseException as error:
                self._slot.fail(engine_fault(error))
                raise

    def _do_next(self) -> None:
        # A function of its own, so that its frame ends: before Python 3.13, inspecting the variables of a frame leaves a
        # copy of them there, and restored state would stay in memory for good.
        self._slot.queries.answer()
        if self._readable:
            self._read_frames(self._readable.pop())
        elif self._arrivals:
            self._serve(*self._arrivals.popleft())
        elif self._pipelined is not None:
            self._work_pipelined(self._pipelined)
        elif self._requests and not self._inlets:
            self._answer(self._requests.popleft())
        elif self._slot.queries.waiting:
            return
        else:
            self._wait()
            return
        if not self._inlets:
            self._activity.end()

    def _work_pipelined(self, work: PipelinedWork) -> None:
        called = bool(self._requests)
        try:
            # A call may take long: what is gathered does not wait for it.
            worked = work.send_gathered() if called else work.step()
        except (Exception, TaskConnectionLost) as error:
            self._fail_pipelined(work, error)
            worked = False
        if called:
            self._answer(self._requests.popleft())
            self._activity.end()
            return
        self._select(0.0 if worked or self._slot.queries.waiting else work.patience(), in_short=True)

    def _fail_pipelined(self, work: PipelinedWork, error: BaseException) -> None:
        """Fails the attempt; what arrives from now on is ignored."""
        if work.broken:
            return
        work.broken = True
        self._slot.fail(self._fault_of(error)[0] or engine_fault(error))

    def _wait(self) -> None:
        """Waits for work."""
        pollable = [] if self._inlets else self._slot.pollable
        started = time.monotonic()
        ready = self._select(POLL_SECONDS if pollable else _STEP_SECONDS if self._in_mid_frame else None)
        if pollable and not ready:
            self._poll(pollable)
        if self._in_mid_frame:
            # At most a step: time for which this process itself was suspended does not count.
            self._count_silence(min(time.monotonic() - started, _STEP_SECONDS))

    def _count_silence(self, seconds: float) -> None:
        """Fails the level of a Spark task that has stopped for too long in the middle of a frame."""
        most = self._spec.heartbeat_timeout
        for connection in self._in_mid_frame.keys() - set(self._readable):
            self._in_mid_frame[connection] += seconds
            if self._in_mid_frame[connection] > most:
                self._give_up(
                    connection, TaskStopped(f"stopped in the middle of a block: nothing arrived for {most:g} s")
                )
                return  # All connections are closed now.

    def _select(self, seconds: float | None, in_short: bool = False) -> bool:
        """Waits until there is something to read, for a limited time; returns False if there is not.

        Expired state is removed in the meantime: for a moment, and for a shorter one where latency counts.
        """
        cleanup = None if seconds == 0.0 else self._slot.cleanup_due()
        if cleanup is not None:
            seconds = earliest([seconds, max(0.0, cleanup - time.monotonic())])
        ready = self._selector.select(seconds)
        if not ready and cleanup is not None and cleanup <= time.monotonic():
            self._clean_up(in_short)
        for key, _ in ready:
            if key.data is None:
                self._woken.recv(4096)
            elif key.data is self._slot.queries:
                self._slot.queries.look()
            else:
                self._readable.append(key.data)
        return bool(ready)

    def _clean_up(self, in_short: bool) -> None:
        if not self._inlets:
            self._activity.begin(CLEANING_UP)
        try:
            self._slot.clean_up(idle=not in_short)
        except Exception as error:
            self._slot.fail(engine_fault(error))
        if not self._inlets:
            self._activity.end()

    def _poll(self, sources: list[SourceHead]) -> None:
        self._activity.begin(ASKING_SOURCES)
        try:
            if any([head.poll() for head in sources]):
                self._slot.notify_data()
        except Exception as error:
            self._slot.fail(engine_fault(error))
        self._activity.end()

    # --- calls of the driver ---

    def _answer(self, request: Request) -> None:
        """Executes a call of the driver."""
        self._activity.begin(request.message.name)
        if self._pipelined is not None and isinstance(request.message, PassBarrier):
            self._pipelined.pass_barrier(request.message, lambda: self._tell(Reply(request.number, self._end_epoch())))
            return
        try:
            reply = Reply(request.number, self._execute(request.message))
        except Exception as error:
            reply = Reply(request.number, fault=engine_fault(error))
        if self._pipelined is not None:
            self._pipelined.note_call()
        self._tell(reply)

    def _execute(self, message: Message[Any]) -> Any:
        slot = self._slot
        match message:
            case Deploy():
                return self._deploy(message)
            case BeginEpoch(epoch, sources):
                return slot.begin_epoch(epoch, sources)
            case EndEpoch():
                return self._end_epoch()
            case TakeSnapshot():
                return slot.snapshot(message)
            case CheckpointComplete(checkpoint_id):
                return slot.checkpoint_complete(checkpoint_id)
            case CheckpointAborted(checkpoint_id):
                return slot.checkpoint_aborted(checkpoint_id)
            case ListStaged():
                return slot.staged()
            case FetchPages(spool, first):
                return slot.fetch(spool, first)
            case ReleaseSpool(spool):
                return slot.release([spool])
            case Close():
                return self._close()
        raise TypeError(f"version {VERSION} of the control messages has no {type(message).__name__}")

    def _deploy(self, message: Deploy) -> None:
        message.user_code.install(self._directory)
        set_object_reuse(message.job.object_reuse)
        job = message.user_code.localised(message.job, self._directory)
        self._slot.deploy(job, message.operators, message.restored)
        if self._slot.pipeline is not None:
            seals = Seals(self._spec.slot, self._spec.attempt, self._spec.credentials.authkey)
            self._pipelined = PipelinedWork(self._slot, self._slot.pipeline, self._activity, seals, _send)
            self._slot.on_data = self._wake_for_data
            self._arrivals.extend(self._early)
        self._garbage.begin()

    def _end_epoch(self) -> EpochReport:
        self._garbage.epoch_done()
        return self._slot.end_epoch() if self._pipelined is None else self._slot.end_pipelined_epoch()

    def _wake_for_data(self) -> None:
        assert self._pipelined is not None
        self._pipelined.announce_data()
        self._wake()

    def _close(self) -> EpochReport:
        if self._pipelined is not None:
            self._pipelined.broken = True
        report = self._slot.close()
        self._garbage.epoch_done()
        return report

    # --- Spark tasks ---

    def _serve(self, hello: Any, connection: JobConnection) -> None:
        """Admits a Spark task, which feeds a level or reads a spool."""
        try:
            if isinstance(hello, ReadSpool):
                self._send_spool(hello.spool, connection)
                return
            if isinstance(hello, Join):
                self._join(hello, connection)
                return
            if isinstance(hello, AskStates):
                self._slot.queries.connect(connection, self._selector)
                return
            inlet = self._slot.enter(hello, partial(_send_row, connection))
            if not self._inlets:
                self._activity.begin(f"processing epoch {hello.epoch}")
            self._inlets[connection] = inlet
            self._selector.register(connection, selectors.EVENT_READ, connection)
            _send(connection, DONE)  # The hello is accepted.
        except (Exception, TaskConnectionLost) as error:
            self._give_up(connection, error)

    def _join(self, hello: Join, connection: JobConnection) -> None:
        """Admits a task of the standing job of a pipelined attempt."""
        if self._pipelined is None:
            if self._slot.tasks:
                raise Refused(f"the job of slot {self._slot.number} is not pipelined")
            self._early.append((hello, connection))  # The operators are deployed while Spark starts its tasks.
            return
        if self._pipelined.join(hello, connection):
            self._selector.register(connection, selectors.EVENT_READ, connection)
        _send(connection, DONE)

    def _receive_pipelined(self, work: PipelinedWork, connection: JobConnection) -> None:
        try:
            work.receive(connection)
        except (Exception, TaskConnectionLost) as error:
            self._selector.unregister(connection)
            connection.close()
            self._fail_pipelined(work, error)

    def _read_frames(self, connection: JobConnection) -> None:
        """Processes the available frames of a Spark task that feeds a level."""
        if self._pipelined is not None:
            self._receive_pipelined(self._pipelined, connection)
            return
        inlet = self._inlets[connection]
        try:
            while (frame := connection.next_frame()) is not None:
                if not self._process_frame(frame, connection, inlet):
                    _send(connection, DONE)
                    self._hang_up(connection)
                    return
                if not connection.buffered:
                    break
            if connection.in_mid_frame:
                self._in_mid_frame[connection] = 0.0
            elif self._in_mid_frame:
                self._in_mid_frame.pop(connection, None)
        except (Exception, TaskConnectionLost) as error:
            self._give_up(connection, error)

    def _process_frame(self, frame: bytearray, connection: JobConnection, inlet: Inlet) -> bool:
        """Processes a frame; returns False if it was the last one."""
        kind = frame[:1]
        if kind == INPUT:
            _, _, vertex, input_index, channel, _ = ROW_HEADER.unpack_from(frame)
            inlet.receive(vertex, input_index, channel, memoryview(frame)[ROW_HEADER.size :])
        elif kind == PASS_ON:
            frame[:1] = OUTPUT
            _send(connection, frame)
        elif kind == END:
            inlet.mark_all()
            return False
        elif kind == FAILED:
            raise InputFailed(frame[1:].decode(errors="replace"))
        return True

    def _send_spool(self, spool: str, connection: JobConnection) -> None:
        """Streams the pages of a spool to a Spark task; they are kept, since it may be retried."""
        for page in self._slot.fetch_all(spool):
            _send(connection, OUTPUT + page)
        _send(connection, DONE)
        self._hang_up(connection)

    def _give_up(self, connection: JobConnection, error: BaseException) -> None:
        """Disconnects a Spark task, with the reason; reports it to the driver, unless the task did not belong here."""
        fault, answer = self._fault_of(error)
        if fault is not None:
            self._slot.fail(fault)
        if not isinstance(error, TaskStopped):
            try:
                connection.send_bytes(FAILED + answer.encode())
            except OSError:
                pass  # Disconnected.
        self._hang_up(connection)
        # A failure in one level ends the others too.
        for other in list(self._inlets) if fault is not None else ():
            self._hang_up(other)

    def _fault_of(self, error: BaseException) -> tuple[Fault | None, str]:
        """Returns the fault to report to the driver, if any, and the reason for the Spark task."""
        if isinstance(error, Refused):
            text = str(error)
            return (Fault(None, None, None, text, text) if isinstance(error, EnteredTwice) else None), text
        if isinstance(error, UserCodeError):
            return error.fault, error.fault.summary
        if isinstance(error, InputFailed):
            answer = str(error)
            return Fault(None, None, None, answer, answer), answer
        if isinstance(error, TaskStopped):
            answer = f"the Spark task of epoch {self._slot.fence.epoch} {error} (heartbeat.timeout)"
            return Fault(None, None, None, answer, answer), answer
        if isinstance(error, EOFError | OSError | TaskConnectionLost):
            answer = f"the Spark task of epoch {self._slot.fence.epoch} went away"
            return Fault(None, None, None, repr(error), answer), answer
        return engine_fault(error), repr(error)

    def _hang_up(self, connection: JobConnection) -> None:
        if self._inlets.pop(connection, None) is not None:
            self._selector.unregister(connection)
            self._readable = [each for each in self._readable if each is not connection]
            self._in_mid_frame.pop(connection, None)
        connection.close()


def _send_row(
    connection: Connection, slot: int, vertex: int, input_index: int, channel: int, number: int, block: bytes
) -> None:
    _send(connection, ROW_HEADER.pack(OUTPUT, slot, vertex, input_index, channel, number) + block)


def _send(connection: Connection, frame: bytes | bytearray) -> None:
    try:
        connection.send_bytes(frame)
    except BlockingIOError as error:
        raise TaskStopped("stopped reading the output of its level") from error
    except OSError as error:
        raise TaskConnectionLost(str(error)) from error


def main() -> None:
    """Runs the slot's process; its SlotSpec comes from standard input."""
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
                return  # The driver has closed its socket: the attempt is over.
            raise
        notice_silence(control)
        slot = SlotProcess(spec, control, directory)
        own = os.path.join(directory, "s") if isinstance(spec.driver, str) else (_own_address(spec.driver), 0)
        listener = ConnectionListener(own, spec.credentials, slot.take)
        threading.Thread(target=listener.serve, name="accept", daemon=True).start()
        control.send(Registration(VERSION, spec.slot, Process.of(os.getpid()), socket.gethostname(), listener.address))
        threading.Thread(target=slot.listen_to_driver, name="control", daemon=True).start()
        slot.run()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _own_address(driver: tuple[str, int]) -> str:
    """Returns the address of this machine on the route to the driver."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(driver)
        host: str = probe.getsockname()[0]
        return host


if __name__ == "__main__":
    main()
