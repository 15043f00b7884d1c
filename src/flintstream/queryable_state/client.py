"""QueryableStateClient: queries the state of jobs over HTTP, at a job server or at the port of a driver.

Queries travel together: while a request is on its way, further queries wait, and go with the next one. So a client with
thousands of queries a second makes few requests, and a single query does not wait. A second connection is for the time in
which the answer to a request is slow.
"""

from __future__ import annotations

import heapq
import itertools
import json
import ssl
import threading
import time
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from flintstream.common.completable_future import CompletableFuture
from flintstream.common.job_id import JobID
from flintstream.common.queryable_state import (
    MOST_QUERIES,
    NOT_AVAILABLE,
    OK,
    QueryableStateError,
    StateAnswer,
    StateNotAvailableException,
    error_of,
    key_to_json,
)
from flintstream.common.typeinfo import TypeInformation
from flintstream.queryable_state.connection import CONNECT_SECONDS, Connection
from flintstream.runtime.state.backend import kind_of_descriptor
from flintstream.runtime.state.read_only import state_of

TIMEOUT_SECONDS = 10.0
LONGEST_KEY = 16 * 1024
"""The most characters of a key as JSON."""
_LONGEST_REQUEST = 32 * 1024
_NUMBER, _OVERHEAD = 24, 8
"""About the characters of a number, and those around a query, as JSON."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5
_FEW, _MANY = 2, 8
_FEW_SECONDS, _MANY_SECONDS, _BUSY_SECONDS = 0.004, 0.02, 0.04
"""How long to wait for more queries before a request is made: a request costs as much as many queries. The last one is for
slots that are busy.
"""
_GATHER_FACTOR = 6
"""Where many queries come, and their slots answer slowly, how many times as long as the last answer took to wait."""
_SLOW_SECONDS = 0.05
"""After this time without an answer, the next request goes over another connection."""


@dataclass(order=True, slots=True)
class _Query:
    due: float
    number: int
    job_id: str = field(compare=False)
    name: str = field(compare=False)
    key: Any = field(compare=False)
    """The key, as values that JSON has."""
    size: int = field(compare=False)
    """How long it is as JSON, at least about."""
    kind: str | None = field(compare=False)
    """The kind of state that is expected."""
    deadline: float = field(compare=False)
    future: Future[Any] = field(compare=False)
    pause: float = field(compare=False, default=_FIRST_PAUSE)


class QueryableStateClient:
    """Queries the keyed state of running jobs.

    :param remote_hostname: the host of a job server, or of a driver for which `queryable-state.enable` is set.
    :param remote_port: the port of the server, or the `queryable-state.proxy.ports` of the driver.
    :param token: the token, where the server needs one.
    :param tls: the context with which to connect by TLS, or True for that of this machine.
    :param timeout: the seconds after which a query fails; until then it is repeated while its state is not available, for
        example while the job restarts.
    :param connections: the most requests at a time.

    Example::

        with QueryableStateClient("localhost", 8081) as client:
            state = client.get_kv_state(job_id, "counts", "tea", Types.STRING(), descriptor).result()
    """

    def __init__(
        self,
        remote_hostname: str,
        remote_port: int,
        *,
        token: str | None = None,
        tls: ssl.SSLContext | bool = False,
        timeout: float = TIMEOUT_SECONDS,
        connections: int = 2,
    ) -> None:
        if isinstance(remote_port, bool) or not isinstance(remote_port, int) or not 0 < remote_port < 65_536:
            raise ValueError(f"QueryableStateClient: remote_port must be a port, got {remote_port!r}")
        if timeout <= 0:
            raise ValueError(f"QueryableStateClient: timeout must be greater than 0, got {timeout!r}")
        if connections < 1:
            raise ValueError(f"QueryableStateClient: connections must be at least 1, got {connections!r}")
        self._host, self._port = remote_hostname, remote_port
        self._token = token
        self._tls = ssl.create_default_context() if tls is True else tls or None
        self._timeout = timeout
        self._most_threads = connections
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._new: deque[_Query] = deque()
        self._later: list[_Query] = []
        """Queries to repeat, as a heap."""
        self._threads: set[threading.Thread] = set()
        """The first one lives as long as the client, others as long as requests are slow."""
        self._waits = False
        """Whether the first thread waits for queries."""
        self._sent: float | None = None
        """When the newest request that is on its way was made."""
        self._closed = False

    def get_kv_state(
        self,
        job_id: JobID | str,
        queryable_state_name: str,
        key: Any,
        key_type_info: TypeInformation | None = None,
        state_descriptor: Any = None,
    ) -> CompletableFuture:
        """Returns a future of the state of a key: a read-only copy of what the job has processed so far.

        The future fails with a `FlinkJobNotFoundException`, an `UnknownKvStateLocation`, an
        `UnknownKeyOrNamespaceException`, or, if the state was not available until the time-out, with a
        `StateNotAvailableException`.

        :param key_type_info: the type of the key; unless given, the key is taken as it is.
        :param state_descriptor: the descriptor of the state; unless given, a state of any kind is returned.
        """
        if key_type_info is not None:
            [key] = key_type_info.coerce([key])
        kind = None if state_descriptor is None else kind_of_descriptor(state_descriptor)
        if state_descriptor is not None and kind is None:
            raise TypeError(f"get_kv_state: expected a state descriptor, got {state_descriptor!r}")
        sent = key_to_json(key)
        size = len(queryable_state_name) + (_NUMBER if _is_short(key) else len(json.dumps(sent)))
        if size > LONGEST_KEY:
            raise ValueError(f"get_kv_state: a key of {size} characters is too long; the most are {LONGEST_KEY}")
        now = time.monotonic()
        query = _Query(
            now, next(self._numbers), str(job_id), queryable_state_name, sent, size, kind, now + self._timeout, Future()
        )
        with self._lock:
            if self._closed:
                raise RuntimeError("the QueryableStateClient is shut down")
            self._new.append(query)
            if self._waits:
                self._changed.notify()
            elif not self._threads or (self._sent is not None and now - self._sent > _SLOW_SECONDS):
                self._start_thread()
        return CompletableFuture(query.future)

    def shutdown_and_handle(self) -> CompletableFuture:
        """Shuts the client down; queries that have no answer yet fail. The future completes when all is closed."""
        with self._changed:
            self._closed = True
            left = [*self._new, *self._later]
            self._new.clear()
            self._later.clear()
            self._changed.notify_all()
        for query in left:
            _fail(query, QueryableStateError("the QueryableStateClient was shut down"))
        done: Future[None] = Future()

        def wait() -> None:
            for thread in list(self._threads):
                thread.join()
            done.set_result(None)

        threading.Thread(target=wait, name="queryable state client shutdown", daemon=True).start()
        return CompletableFuture(done)

    def shutdown_and_wait(self) -> None:
        """Shuts the client down, and waits until all connections are closed."""
        self.shutdown_and_handle().result(self._timeout + CONNECT_SECONDS)

    def __enter__(self) -> QueryableStateClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.shutdown_and_wait()

    # --- the threads, each with a connection ---

    def _start_thread(self) -> None:
        if len(self._threads) < self._most_threads:
            work = self._run_further if self._threads else self._run
            thread = threading.Thread(target=work, name="queryable state client", daemon=True)
            self._threads.add(thread)
            self._sent = None
            thread.start()

    def _run(self) -> None:
        """The first thread: takes queries until the client is shut down."""
        connection = Connection(self._host, self._port, self._token, self._tls)
        last, took = 0, 0.0
        try:
            while True:
                self._wait()
                if last >= _FEW:
                    time.sleep(_gathering_seconds(last, took))
                batch = self._take()
                if not batch and self._closed:
                    return
                last, began = len(batch), time.monotonic()
                self._ask(connection, batch)
                took = time.monotonic() - began
        finally:
            connection.close()

    def _run_further(self) -> None:
        """Another thread: takes the queries that wait behind a slow request."""
        connection = Connection(self._host, self._port, self._token, self._tls)
        try:
            while batch := self._take():
                self._ask(connection, batch)
        finally:
            connection.close()
            with self._changed:
                self._threads.discard(threading.current_thread())

    def _wait(self) -> None:
        """Waits until there are queries, or the client is shut down."""
        with self._changed:
            self._sent = None
            while not self._closed:
                now = time.monotonic()
                while self._later and self._later[0].due <= now:
                    self._new.append(heapq.heappop(self._later))
                if self._new:
                    return
                self._waits = True
                self._changed.wait(self._later[0].due - now if self._later else None)
                self._waits = False

    def _take(self) -> list[_Query]:
        """Returns the queries that go together: some of one job."""
        batch: list[_Query] = []
        size = 0
        with self._changed:
            while self._new and len(batch) < MOST_QUERIES:
                query = self._new[0]
                size += query.size + _OVERHEAD
                if batch and (size > _LONGEST_REQUEST or query.job_id != batch[0].job_id):
                    break
                batch.append(self._new.popleft())
            if batch:
                self._sent = time.monotonic()
        return batch

    def _ask(self, connection: Connection, batch: list[_Query]) -> None:
        now = time.monotonic()
        # A query that was cancelled, or that has waited for a connection for too long, is not sent.
        late = [query for query in batch if query.deadline <= now]
        self._repeat(late, "no request could be made")
        batch = [query for query in batch if query.deadline > now and not _cancelled(query)]
        if not batch:
            return
        left = max(query.deadline for query in batch) - now
        try:
            answers = connection.ask(batch[0].job_id, [(query.name, query.key) for query in batch], left)
        except StateNotAvailableException as error:
            self._repeat(batch, str(error))
        except Exception as error:
            for query in batch:
                _fail(query, error)
        else:
            for query, answer in zip(batch, answers):
                self._complete(query, answer)

    def _complete(self, query: _Query, answer: StateAnswer) -> None:
        if answer.status == NOT_AVAILABLE:
            self._repeat([query], str(answer.value))
        elif answer.status != OK:
            _fail(query, error_of(answer.status, str(answer.value)))
        else:
            try:
                state = state_of(query.name, answer, query.kind)
            except Exception as error:  # A server of another version may answer anything.
                _fail(query, error)
            else:
                if query.future.set_running_or_notify_cancel():
                    query.future.set_result(state)

    def _repeat(self, queries: Iterable[_Query], why: str) -> None:
        """Repeats queries after a pause, or lets them fail if that would be too late."""
        now = time.monotonic()
        for query in queries:
            query.due = now + query.pause
            query.pause = min(2 * query.pause, _LONGEST_PAUSE)
            with self._changed:
                if query.due < query.deadline and not self._closed:
                    heapq.heappush(self._later, query)
                    self._changed.notify()
                    continue
            _fail(
                query,
                StateNotAvailableException(
                    f"queryable state {query.name!r} was not available within {self._timeout:g} s: {why}"
                ),
            )


def _gathering_seconds(last: int, took: float) -> float:
    """Returns how long to wait for more queries, by how many the last request had, and how long its answer took."""
    if last < _MANY:
        return _FEW_SECONDS
    return min(_BUSY_SECONDS, max(_MANY_SECONDS, _GATHER_FACTOR * took))


def _is_short(key: Any) -> bool:
    return type(key) is int and -(1 << 63) < key < 1 << 63


def _cancelled(query: _Query) -> bool:
    if query.future.cancelled():
        query.future.set_running_or_notify_cancel()
        return True
    return False


def _fail(query: _Query, error: BaseException) -> None:
    if query.future.set_running_or_notify_cancel():
        query.future.set_exception(error)
