"""AsyncCalls: the requests of an asynchronous operator, on the event loop's thread.

The processing thread submits batches and gets back runs of results. Everything in between happens on the loop's thread
and needs no lock: admission up to the capacity, calls of the user's function, retries, timeouts, order.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, Protocol

from flintstream.runtime.batch import NO_TIMESTAMP, Batch
from flintstream.runtime.detach import detached
from flintstream.runtime.faults import short_repr
from flintstream.runtime.operators.async_queue import Mark, Request, RequestQueue, Run

CANCEL_SECONDS = 5.0
"""How long to wait for cancelled requests."""


class AsyncUser(Protocol):
    """The user's function."""

    def async_invoke(self, value: Any) -> Awaitable[Any]: ...

    def timeout(self, value: Any) -> Any: ...


class Retries:
    """Decides on retries, by the user's strategy."""

    def __init__(self, strategy: Any) -> None:
        predicate = strategy.get_retry_predicate()
        self._on_result = predicate.result_predicate()
        self._on_exception = predicate.exception_predicate()
        self._can_retry = strategy.can_retry
        self._backoff = strategy.get_backoff_time_millis
        self.possible = self._on_result is not None or self._on_exception is not None

    async def invoke(self, function: Callable[[Any], Awaitable[Any]], value: Any) -> Any:
        """Calls the function until its outcome is accepted, or no more retries are allowed."""
        calls = 1
        while True:
            try:
                results = await function(value)
            except Exception as error:
                if not self._wanted(self._on_exception, error, calls):
                    raise
            else:
                if results is None or not self._wanted(self._on_result, results, calls):
                    return results
            await asyncio.sleep(max(self._backoff(calls), 0) / 1000)
            calls += 1

    def _wanted(self, predicate: Callable[[Any], bool] | None, outcome: Any, calls: int) -> bool:
        return predicate is not None and bool(predicate(outcome)) and bool(self._can_retry(calls))


class AsyncCalls:
    """Runs requests. `submit` is for the processing thread, everything else runs on the loop.

    `deliver` receives runs of results, `fail` the error of a request with its record; both are called on the loop's
    thread.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        function: AsyncUser,
        queue: RequestQueue,
        capacity: int,
        timeout: float,
        retries: Retries | None,
        deliver: Callable[[list[Run]], None],
        fail: Callable[[BaseException, Any], None],
    ) -> None:
        self._loop = loop
        self._function = function
        self._invoke = function.async_invoke
        self._queue = queue
        self._capacity = capacity
        self._timeout = timeout
        self._retries = retries if retries is not None and retries.possible else None
        self._deliver = deliver
        self._fail = fail
        self._submitted: deque[Batch | Mark] = deque()
        self._entering: Iterator[tuple[Any, int]] | None = None
        self._running: dict[Request, asyncio.Task[None]] = {}
        """The requests without results, the oldest first, each with its task: the loop keeps only weak references to
        tasks.
        """
        self._late: set[asyncio.Task[None]] = set()
        """Tasks that were cancelled by their timeout, and have not ended yet."""
        self._timer: asyncio.TimerHandle | None = None
        self._turning = False
        self._stopped = False

    def submit(self, element: Batch | Mark) -> None:
        """Accepts records or a mark from the processing thread."""
        self._submitted.append(element)
        self._loop.call_soon_threadsafe(self._enter)

    async def cancel(self) -> None:
        """Cancels all requests in flight, and waits for them to end."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        tasks = [*self._running.values(), *self._late]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CANCEL_SECONDS)

    # --- in ---

    def _enter(self) -> None:
        """Starts requests while there is capacity."""
        while not self._stopped:
            if self._entering is not None:
                for value, timestamp in self._entering_while_room():
                    self._start(value, timestamp)
                if self._queue.size >= self._capacity:
                    break
                self._entering = None
            if not self._submitted:
                break
            element = self._submitted.popleft()
            if isinstance(element, Batch):
                self._entering = zip(element.values, element.timestamps or itertools.repeat(NO_TIMESTAMP))
            else:
                self._queue.add_mark(element)
                self._soon_turn()
        self._set_timer()

    def _entering_while_room(self) -> Iterator[tuple[Any, int]]:
        assert self._entering is not None
        return itertools.islice(self._entering, max(self._capacity - self._queue.size, 0))

    def _start(self, value: Any, timestamp: int) -> None:
        request = Request(value, timestamp)
        if self._timeout > 0:
            request.deadline = self._loop.time() + self._timeout
        self._queue.add(request)
        self._running[request] = self._loop.create_task(self._run(request))

    # --- the call ---

    async def _run(self, request: Request) -> None:
        try:
            if self._retries is None:
                results = await self._invoke(request.value)
            else:
                results = await self._retries.invoke(self._invoke, request.value)
            found = _listed(results)
        except GeneratorExit:
            raise
        except BaseException as error:  # Also CancelledError and SystemExit, which would go unnoticed otherwise.
            if self._running.pop(request, None) is not None:
                self._refuse(error, request)
            return
        # A request that timed out has its results already.
        if self._running.pop(request, None) is not None:
            self._take(request, found, "async_invoke", results)

    def _take(self, request: Request, found: list[Any] | None, method: str, results: Any) -> None:
        """Accepts the results of a user's method for a request; `found` is None if they are not a list."""
        if found is None:
            wrong = "cannot be none" if results is None else "should be of list type"
            error = TypeError(
                f"The result of AsyncFunction {wrong}: {type(self._function).__name__}.{method}() returned "
                f"{short_repr(results)}, and must return a list of results, which may be empty"
            )
            self._refuse(error, request)
            return
        request.results = found
        self._queue.complete(request)
        self._soon_turn()

    def _refuse(self, error: BaseException, request: Request) -> None:
        if not self._stopped:
            self._stopped = True  # Nothing more is started; requests in flight end when the operator is closed.
            self._fail(error, request.value)

    # --- time ---

    def _set_timer(self) -> None:
        """Sets the timer; one suffices, since requests time out in the order in which they were started."""
        if self._timeout > 0 and self._timer is None and self._running and not self._stopped:
            oldest = next(iter(self._running))
            self._timer = self._loop.call_at(oldest.deadline, self._expire)

    def _expire(self) -> None:
        self._timer = None
        now = self._loop.time()
        for request in list(itertools.takewhile(lambda request: request.deadline <= now, self._running)):
            self._time_out(request)
        self._set_timer()

    def _time_out(self, request: Request) -> None:
        task = self._running.pop(request, None)
        if task is None or self._stopped:
            return
        task.cancel()
        self._late.add(task)
        task.add_done_callback(self._late.discard)
        try:
            results = self._function.timeout(request.value)
            found = _listed(results)
        except Exception as error:
            self._refuse(error, request)
        else:
            self._take(request, found, "timeout", results)

    # --- out ---

    def _soon_turn(self) -> None:
        """Schedules the processing of results once for all that arrive in this turn of the loop."""
        if not self._turning:
            self._turning = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._enter()
        self._turning = False
        runs = self._queue.take()
        if runs:
            self._deliver(runs)


def _listed(results: Any) -> list[Any] | None:
    """Returns the results detached from the function; None if they are not a collection."""
    if results.__class__ is not list and not isinstance(results, Iterable):
        return None
    return [detached(result) for result in results]
