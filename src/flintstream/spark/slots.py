"""SlotPool: the driver's side of slots, started by a barrier stage on the executors and called over control connections."""

from __future__ import annotations

import itertools
import logging
import math
import os
import pickle
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ALL_COMPLETED, FIRST_EXCEPTION, Future, wait
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_to_read
from typing import TYPE_CHECKING, Any

from flintstream.common.owned_directories import LONGEST_SOCKET_PATH
from flintstream.common.processes import Process
from flintstream.runtime.faults import Fault, engine_fault
from flintstream.runtime.slot.connections import Address, hang_up, notice_silence, received
from flintstream.runtime.slot.handshake import ConnectionListener, SlotAccess
from flintstream.runtime.slot.messages import (
    VERSION,
    DataReady,
    Look,
    Message,
    Registration,
    Reply,
    Request,
    Result,
    SlotFailed,
)
from flintstream.runtime.slot.process import SlotSpec
from flintstream.runtime.slot.protocol import Activity
from flintstream.runtime.slot.reception import MOST_WAITING
from flintstream.spark.encryption import new_credentials
from flintstream.spark.exchange import settle_worker
from flintstream.spark.hanging_jobs import cancelled_if_hanging
from flintstream.spark.jvm import cancel_jobs
from flintstream.spark.outbox import Outbox
from flintstream.spark.session import is_local, work_directory
from flintstream.spark.shipping import ship_package
from flintstream.spark.slot_process import describe_exit, exit_status, start_slot
from flintstream.spark.timeouts import SlotTimeouts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLOSE_SECONDS = 5.0
EXIT_SECONDS = 30.0
"""How long to wait for the exit status of a lost slot."""
SHELL_SECONDS = 5.0
"""The same, where it is not known whether somebody writes it."""
LOOK_SECONDS = 10.0
"""How long a slot may take to report its activity."""
_WAIT_SECONDS = 0.1
_STEP_SECONDS = 1.0
# A slot's socket is "<directory>/slot-<n>-<8 characters>/s".
_LONGEST_DIRECTORY = LONGEST_SOCKET_PATH - 23
_ENDED = "the slots of this attempt have been ended"
_log = logging.getLogger(__name__)


class SlotError(RuntimeError):
    """A slot failed or is unreachable; `fault` is the reason if the slot could report it."""

    def __init__(self, message: str, fault: Fault | None = None) -> None:
        super().__init__(message)
        self.fault = fault


@dataclass
class SlotHandle:
    """A running slot."""

    slot: int
    process: Process
    host: str
    address: Address
    connection: Connection
    outbox: Outbox
    heard: float
    """When it was last heard of, by the monotonic clock."""

    @property
    def pid(self) -> int:
        """Returns its process id."""
        return self.process.pid

    def __str__(self) -> str:
        return f"slot {self.slot} (process {self.pid} on {self.host})"


class SlotPool:
    """The slots of one attempt of a job.

    `on_data` is called when a source has records, `on_failure` when a slot has failed or is lost, `on_message` with other
    messages of slots; each on a thread of the pool, and each must return quickly. If `encrypted`, traffic between machines
    is encrypted.
    """

    def __init__(
        self,
        spark: SparkSession,
        job_id: str,
        attempt: int,
        count: int,
        on_data: Callable[[], None],
        on_failure: Callable[[Fault], None],
        python_executable: str | None = None,
        on_message: Callable[[Any], None] = lambda message: None,
        encrypted: bool = False,
        timeouts: SlotTimeouts | None = None,
    ) -> None:
        self.timeouts = timeouts or SlotTimeouts()
        self._on_message = on_message
        self._python_executable = python_executable
        self.credentials = new_credentials(encrypted)
        self._spark = spark
        self._job_id = job_id
        self._attempt = attempt
        self._count = count
        self._on_data = on_data
        self._on_failure = on_failure
        self._slots: dict[int, SlotHandle] = {}
        self._replies: dict[int, Future[Any]] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._closing = False
        self._lost_slots: dict[int, str] = {}
        self._given_up: str | None = None
        self._refused: str | None = None
        """Why a slot was refused."""
        self._started: dict[int, Process] = {}
        """The started processes by slot: locally, the shell that waits for the slot."""
        self._all_here = threading.Event()
        # Unique: the group of another attempt may be cancelled, with everything that would still start in it.
        group = f"flint-{job_id}-{attempt}-slots-{uuid.uuid4().hex[:8]}"
        self._groups = (group, f"{group}-again")
        """Of the job that starts slots, and of the one that starts those again which have not been heard of."""
        self._interrupted = False
        self._last_beat: float | None = None
        self.local = is_local(spark)
        self.directory = tempfile.mkdtemp(prefix="slots-", dir=work_directory())
        self._listener: ConnectionListener | None = None

    # --- start and end ---

    def start(self) -> None:
        """Starts the slots on the executors, and waits until each has registered."""
        own: Address
        if self.local and len(os.fsencode(self.directory)) <= _LONGEST_DIRECTORY:
            own = os.path.join(self.directory, "driver")
        else:
            own = (self._spark.sparkContext.getConf().get("spark.driver.host", "localhost"), 0)
        # All slots may connect at once.
        most_waiting = max(MOST_WAITING, 2 * self._count)
        self._listener = ConnectionListener(own, self.credentials, self._register, most_waiting=most_waiting)
        threading.Thread(target=self._listener.serve, name="slots", daemon=True).start()
        ship_package(self._spark)
        deadline = time.monotonic() + self.timeouts.start
        self._wait_for_calls(self._launch_in_time(), deadline)
        self._listener.close()
        threading.Thread(target=self._listen, name="slot events", daemon=True).start()

    def interrupt(self) -> None:
        """Cancels a start in progress; may be called from any thread."""
        self._interrupted = True
        self._cancel_start()

    def _cancel_start(self) -> None:
        """Cancels the stage that starts slots, and later jobs on the same thread before the first epoch."""
        for group in self._groups:
            cancel_jobs(self._spark.sparkContext, group, "the slots are not needed any more")

    def _wait_for_calls(self, started: dict[int, Process], deadline: float) -> None:
        """Waits until each slot has registered; locally, no longer than its process lives."""
        while not self._all_here.wait(_WAIT_SECONDS):
            missing = sorted(set(started) - set(self._slots))
            if self._refused is not None:
                raise SlotError(self._refused)
            if self._interrupted:
                raise SlotError(f"slots {missing} are not needed any more")
            if self.local and (dead := [slot for slot in missing if not started[slot].runs()]):
                status = exit_status(self.directory, dead[0], EXIT_SECONDS, started[dead[0]].runs)
                raise SlotError(f"slot {dead[0]} {describe_exit(status)} (while it started)")
            if time.monotonic() >= deadline:
                raise SlotError(
                    f"slots {missing} have not called back within {self.timeouts.start:g} s (slot.request.timeout): their "
                    "processes could not be started, or do not reach the driver"
                )

    def _register(self, connection: Connection) -> None:
        """Registers a slot that connects; one that comes too late is refused, and exits."""
        try:
            message = connection.recv()
        except (EOFError, OSError):
            connection.close()  # It has died, and will be missed.
            return
        except Exception as error:  # A class that is missing here.
            self._refuse_slot(
                connection, f"a slot's registration cannot be read ({error!r}), and is of an unknown version"
            )
            return
        if isinstance(message, Registration) and message.version != VERSION:
            self._refuse_slot(connection, f"{message} speaks version {message.version} of the control messages")
            return
        with self._lock:
            if self._closing or not isinstance(message, Registration) or message.slot in self._slots:
                connection.close()
                return
            notice_silence(connection)
            self._slots[message.slot] = SlotHandle(
                message.slot,
                message.process,
                message.host,
                message.address,
                connection,
                Outbox(connection, f"to slot {message.slot}"),
                time.monotonic(),
            )
            if len(self._slots) == self._count:
                self._all_here.set()

    def _refuse_slot(self, connection: Connection, why: str) -> None:
        """Refuses a slot of another version, which fails the start."""
        connection.close()
        self._refused = (
            f"{why}, the driver speaks version {VERSION}: another Flintstream is installed where the slot runs; install the "
            "same on all machines"
        )

    def _launch_in_time(self) -> dict[int, Process]:
        """Starts the processes, within the timeout."""
        too_late = threading.Event()

        def cancel() -> None:
            too_late.set()
            self._cancel_start()

        timer = threading.Timer(self.timeouts.start, cancel)
        timer.daemon = True
        timer.start()
        try:
            return self._launch()
        except Exception as error:
            if too_late.is_set():
                raise SlotError(
                    f"Spark has not started {self._count} slots within {self.timeouts.start:g} s (slot.request.timeout): "
                    "it needs as many free cores at once as the job has slots, or all it has"
                ) from error
            if self._interrupted:
                raise SlotError("the slots are not needed any more") from error
            raise
        finally:
            timer.cancel()

    def _launch(self) -> dict[int, Process]:
        """Starts the processes, and returns them by slot; those that are missing once more if their Spark task hangs."""
        first, second = self._groups
        with cancelled_if_hanging(self._spark.sparkContext, first, self.timeouts.launch) as hung:
            try:
                return self._run_stage(first, range(self._count))
            except Exception:
                if not hung.is_set():
                    raise
        with self._lock:
            missing = [slot for slot in range(self._count) if slot not in self._slots]
        _log.warning(
            "a Spark task has not started its slots within %g s: a Python worker of Spark hangs. Slots %s of job %s are "
            "started again",
            self.timeouts.launch,
            missing,
            self._job_id,
        )
        return self._run_stage(second, missing) if missing else {}

    def _run_stage(self, group: str, slots: Sequence[int]) -> dict[int, Process]:
        """Starts slots. A barrier stage needs a core per task, so a task may start several."""
        context = self._spark.sparkContext
        tasks = max(1, min(len(slots), context.defaultParallelism))
        context.setJobGroup(group, f"slots of job {self._job_id}", True)
        specs = [(slot, pickle.dumps(self._spec(slot))) for slot in slots]
        shares = [specs[task::tasks] for task in range(tasks)]
        started = (
            context.parallelize(shares, tasks)
            .barrier()
            .mapPartitions(partial(_start_slots, self._python_executable, self.directory if self.local else None))
            .collect()
        )
        assert len(started) == len(slots)
        self._started |= dict(started)
        return dict(started)

    def _spec(self, slot: int) -> SlotSpec:
        assert self._listener is not None
        return SlotSpec(
            slot=slot,
            job_id=self._job_id,
            attempt=self._attempt,
            driver=self._listener.address,
            credentials=self.credentials,
            directory=self.directory if self.local else None,
            connect_seconds=self.timeouts.start,
            heartbeat_timeout=self.timeouts.heartbeat_timeout,
        )

    def close(self) -> None:
        """Ends all slots: closes the connections, upon which slots exit."""
        with self._lock:
            self._closing = True
            listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()
        self.give_up_calls(_ENDED)
        for handle in self._slots.values():
            hang_up(handle.connection)
            handle.outbox.close()
        self._wait_for_exit()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _wait_for_exit(self) -> None:
        """Waits until local processes have exited, and kills them if they do not."""
        if not self.local:
            return
        started = time.monotonic()
        killed = False
        # The shells too: they write into the directory until they exit.
        waiting = [*(handle.process for handle in self._slots.values()), *self._started.values()]
        while waiting := [process for process in waiting if process.runs()]:
            waited = time.monotonic() - started
            if waited >= CLOSE_SECONDS and not killed:
                # User code may block all threads of its process, e.g. a regular expression.
                killed = True
                for process in waiting:
                    process.kill()
            if waited >= 2 * CLOSE_SECONDS:
                pids = [process.pid for process in waiting]
                _log.warning("slots of job %s were killed, and have not ended: processes %s", self._job_id, pids)
                return
            time.sleep(0.01)

    # --- calls ---

    @property
    def access(self) -> SlotAccess:
        """Returns how Spark tasks connect to the slots."""
        addresses = tuple(self._slots[slot].address for slot in range(self._count))
        return SlotAccess(addresses, self.credentials.for_tasks, self.timeouts.heartbeat_timeout)

    @property
    def handles(self) -> list[SlotHandle]:
        """Returns the slots, by number."""
        return [self._slots[slot] for slot in sorted(self._slots)]

    @property
    def local_processes(self) -> list[Process]:
        """Returns the processes of the slots on this machine."""
        if self._closing or not self.local:
            return []
        return [handle.process for handle in list(self._slots.values())]

    def call(self, slot: int, message: Message[Result], timeout: float | None = None) -> Result:
        """Calls one slot and waits for its reply; `timeout` as in `call_each`."""
        return self._replies_to(type(message), {slot: self._send(slot, message)}, timeout)[0]

    def call_all(self, message: Message[Result], timeout: float | None = None) -> list[Result]:
        """Calls all slots with the same message; as `call_each`."""
        return self.call_each(type(message), lambda slot: message, timeout)

    def call_each(
        self,
        kind: type[Message[Result]],
        message: Callable[[int], Message[Result]],
        timeout: float | None = None,
    ) -> list[Result]:
        """Calls all slots at once, each with its own message; returns the replies in the order of the slots.

        The default timeout is that of the settings, and none for calls that run user code: those have no time limit, and
        end with `give_up_calls`. A slot that runs user code on its own, e.g. polling a source, is not late.
        """
        return self._replies_to(kind, {slot: self._send(slot, message(slot)) for slot in range(self._count)}, timeout)

    def _replies_to(
        self, kind: type[Message[Result]], sent: dict[int, Future[Result]], timeout: float | None
    ) -> list[Result]:
        if timeout is None and not kind.runs_user_code:
            timeout = self.timeouts.call
        while _late(sent, timeout):
            looked = self.look()
            # Calls queue behind user code, e.g. a reader that waits for its server; the watchdog reports that. A reply that
            # has arrived in the meantime is not late, nor one that arrives right after such code has returned.
            late = [slot for slot in _late(sent, _STEP_SECONDS) if not _in_user_code(looked[slot])]
            if late:
                diagnosis = "\n".join(self.describe((slot, looked[slot])) for slot in late)
                raise SlotError(f"slots {late} have not answered '{kind.name}' within {timeout:g} s: {diagnosis}")
        return [future.result() for future in sent.values()]

    # --- what slots do ---

    def look(self) -> dict[int, Activity | None]:
        """Returns the activity of each slot; None for one that does not answer."""
        return self.ask(Look(), LOOK_SECONDS)

    def ask(self, message: Message[Result], seconds: float, *slots: int) -> dict[int, Result | None]:
        """Asks slots, or all of them, something that they answer at once; None for one that does not, within some
        seconds.
        """
        sent = {slot: self._send(slot, message) for slot in slots or sorted(self._slots)}
        _wait_for(sent.values(), seconds, ALL_COMPLETED)
        return {slot: future.result() if _answered(future) else None for slot, future in sent.items()}

    def describe(self, looked: tuple[int, Activity | None]) -> str:
        """Describes the activity of a slot, for people."""
        slot, activity = looked
        if activity is None:
            return (
                f"{self._slots[slot]} does not answer: native code holds its interpreter, or the process or its machine is "
                "stopped"
            )
        return f"{self._slots[slot]} {activity.describe()}\n{activity.stacks()}".rstrip()

    def beat(self) -> None:
        """Sends a heartbeat to all slots; those silent for too long are lost."""
        now = time.monotonic()
        # A driver that was suspended itself, e.g. by Control-Z, has not listened: the slots were not silent.
        missed = max(0.0, now - (self._last_beat or now) - 2 * self.timeouts.heartbeat_interval)
        self._last_beat = now
        for handle in list(self._slots.values()):
            handle.heard += missed
            if handle.slot in self._lost_slots:
                continue
            if now - handle.heard > self.timeouts.heartbeat_timeout:
                why = f"{handle} has not been heard of for {self.timeouts.heartbeat_timeout:g} s (heartbeat.timeout)"
                self._lost(handle, why)
            else:
                self._send(handle.slot, Look())

    # --- messages ---

    def tell_all(self, message: Message[Any], timeout: float | None) -> None:
        """Calls all reachable slots and waits for them, ignoring failures."""
        self._given_up = None
        _wait_for([self._send(slot, message) for slot in list(self._slots)], timeout, ALL_COMPLETED)

    def give_up_calls(self, why: str) -> None:
        """Stops waiting for replies, now and in future: the attempt is about to end."""
        self._given_up = why
        for number in list(self._replies):
            self._refuse(number, SlotError(why))

    def _send(self, slot: int, message: Message[Result]) -> Future[Result]:
        number = next(self._numbers)
        future: Future[Result] = Future()
        self._replies[number] = future
        given_up = None if isinstance(message, Look) else self._given_up
        refusal = _ENDED if self._closing else self._lost_slots.get(slot) or given_up
        if refusal is not None:
            self._refuse(number, SlotError(refusal))
        else:
            request = Request(number, message)
            self._slots[slot].outbox.put(request, lambda error: self._refuse(number, _unsent(slot, error)))
        return future

    def _refuse(self, number: int, error: BaseException) -> None:
        future = self._replies.pop(number, None)
        if future is not None:
            future.set_exception(error)

    def _listen(self) -> None:
        by_connection = {handle.connection: handle for handle in self._slots.values()}
        while by_connection and not self._closing:
            try:
                ready = wait_to_read(list(by_connection), timeout=1.0)
            except (OSError, ValueError):
                return
            for connection in ready:
                handle = by_connection[connection]  # type: ignore[index]
                try:
                    for message in received(handle.connection):
                        handle.heard = time.monotonic()
                        self._handle(handle.slot, message)
                except (EOFError, OSError):
                    del by_connection[handle.connection]
                    if not self._closing:
                        self._lost(handle, f"{handle} {describe_exit(self._exit_status(handle))}")
                except Exception as error:  # A reply that cannot be unpickled here.
                    self._on_failure(engine_fault(error))
                    self.give_up_calls(str(error))

    def _handle(self, slot: int, message: Any) -> None:
        if isinstance(message, Reply):
            future = self._replies.pop(message.number, None)
            if future is not None:
                if message.fault is not None:
                    future.set_exception(SlotError(message.fault.summary, replace(message.fault, slot=slot)))
                else:
                    future.set_result(message.result)
        elif isinstance(message, DataReady):
            self._on_data()
        elif isinstance(message, SlotFailed):
            self._on_failure(replace(message.fault, slot=slot))
        else:
            self._on_message(message)

    def _exit_status(self, handle: SlotHandle) -> int | None:
        """Returns the exit status of a slot; unknown (None) on other machines."""
        if not self.local:
            return None
        shell = self._started.get(handle.slot)
        if shell is None:  # Started by a stage that was cancelled, which has not said by which process.
            return exit_status(self.directory, handle.slot, SHELL_SECONDS, lambda: True)
        return exit_status(self.directory, handle.slot, EXIT_SECONDS, shell.runs)

    def _lost(self, handle: SlotHandle, summary: str) -> None:
        self._lost_slots[handle.slot] = summary
        self._on_failure(Fault(None, None, None, summary, summary, slot=handle.slot))
        self.give_up_calls(summary)


def _unsent(slot: int, error: BaseException) -> BaseException:
    """Returns the error of an unsent message: a SlotError, unless the message could not be pickled."""
    unreachable = isinstance(error, OSError | ValueError)
    return SlotError(f"slot {slot} cannot be reached: {error}") if unreachable else error


def _late(sent: dict[int, Future[Any]], seconds: float | None) -> list[int]:
    """Waits for replies, and returns the slots without one; raises the first failure."""
    _wait_for(sent.values(), seconds, FIRST_EXCEPTION)
    for future in sent.values():
        if future.done():
            future.result()
    return [slot for slot, future in sent.items() if not future.done()]


def _wait_for(futures: Collection[Future[Any]], seconds: float | None, until: str) -> None:
    """Waits in steps, each of which counts with its nominal length: a driver that was suspended, e.g. by Control-Z, has not
    listened.
    """
    left = math.inf if seconds is None else seconds
    while left > 0:
        step = min(left, _STEP_SECONDS)
        done, waiting = wait(futures, step, until)
        if not waiting or (until == FIRST_EXCEPTION and any(future.exception() is not None for future in done)):
            return
        left -= step


def _in_user_code(activity: Activity | None) -> bool:
    return activity is not None and activity.in_user_code


def _answered(future: Future[Any]) -> bool:
    return future.done() and future.exception() is None


def _start_slots(
    python_executable: str | None, directory: str | None, groups: Iterable[list[tuple[int, bytes]]]
) -> Iterator[tuple[int, Process]]:
    """Runs in a Spark task: starts slot processes, which outlive it, and yields each."""
    settle_worker()
    for specs in groups:
        for slot, spec in specs:
            yield slot, start_slot(spec, slot, python_executable, directory)
