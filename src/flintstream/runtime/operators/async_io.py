"""AsyncWaitOperator: calls an asynchronous function, with many records in flight at a time."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from flintstream.runtime.batch import NO_TIMESTAMP, Batch
from flintstream.runtime.block import Idleness, Watermark
from flintstream.runtime.captured import capture, unwrapped
from flintstream.runtime.faults import UserCodeError, user_fault
from flintstream.runtime.operators.async_calls import CANCEL_SECONDS, AsyncCalls, Retries
from flintstream.runtime.operators.async_queue import Mark, OrderedQueue, Run, UnorderedQueue
from flintstream.runtime.operators.base import FunctionOperator

if TYPE_CHECKING:
    from flintstream.runtime.operators.base import OperatorContext
    from flintstream.runtime.output import Output

_LOOK_SECONDS = 0.001


class _Mailbox:
    """Results from the loop's thread for the processing thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._runs: list[Run] = []
        self._error: UserCodeError | None = None

    def put(self, runs: list[Run]) -> None:
        """Adds runs of results."""
        with self._changed:
            self._runs += runs
            self._changed.notify()

    def fail(self, error: UserCodeError) -> None:
        """Makes `take` raise this error from now on."""
        with self._changed:
            self._error = error
            self._changed.notify()

    def take(self, wait: bool) -> list[Run]:
        """Returns all runs so far; waits for the first one if requested."""
        with self._changed:
            while wait and not self._runs and self._error is None:
                self._changed.wait()
            if self._error is not None:
                raise self._error
            runs, self._runs = self._runs, []
            return runs


class AsyncWaitOperator(FunctionOperator):
    """Calls `async_invoke` for each record on the slot's event loop, and emits the results on the processing thread.

    At most `capacity` records are in flight, from the call until their results are emitted. Results keep the order of
    their records or, if not `ordered`, are emitted as they complete but never overtake a watermark. An epoch ends only
    when nothing is in flight.

    :param timeout: milliseconds for a record, retries included; 0 for no limit.
    :param strategy: an `AsyncRetryStrategy`; None for no retries.
    """

    _loop: asyncio.AbstractEventLoop | None = None
    _calls: AsyncCalls | None = None
    _patience: float | None = None
    """The timeout of an asynchronous `close`; none once the loop is known to be blocked."""

    def __init__(
        self, function: Any, timeout: int = 0, capacity: int = 100, strategy: Any = None, ordered: bool = True
    ) -> None:
        super().__init__(function)
        self.timeout = timeout
        self.capacity = capacity
        self.strategy = None if strategy is None else capture(strategy)
        self.ordered = ordered

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self.strategy = unwrapped(self.strategy)

    # --- life ---

    def open(self) -> None:
        loop = self._hold_loop()
        self._requests = 0
        self._marks = 0
        self._looked = 0.0
        """When results were looked for last."""
        self._mailbox = _Mailbox()
        super().open()
        self._calls = AsyncCalls(
            loop=loop,
            function=self.function,
            queue=OrderedQueue() if self.ordered else UnorderedQueue(),
            capacity=self.capacity,
            timeout=self.timeout / 1000,
            retries=None if self.strategy is None else self.guarded(Retries, self.strategy),
            deliver=self._mailbox.put,
            fail=self._fail,
        )

    def close(self) -> None:
        try:
            self._cancel_requests()
        finally:
            try:
                super().close()
            finally:
                self._release_loop()

    def _cancel_requests(self) -> None:
        loop = self.context.services.event_loop
        if self._calls is not None and loop.alive:
            try:
                loop.run(self._calls.cancel, CANCEL_SECONDS + 1)
            except TimeoutError as error:
                self._patience = 0.0
                raise user_fault(error, self.context.name, self.context.subtask) from None

    def guarded(self, call: Callable[..., Any], *args: Any) -> Any:
        """Calls user code: here, or on the loop if it is declared as `async def`."""
        if inspect.iscoroutinefunction(call):
            return super().guarded(self._run_on_loop, call, *args)
        result = super().guarded(call, *args)
        if inspect.isawaitable(result):  # Wrapped by a decorator.
            return super().guarded(self._run_on_loop, lambda: result)
        return result

    def _run_on_loop(self, call: Callable[..., Any], *args: Any) -> Any:
        self._hold_loop()
        try:
            return self.context.services.event_loop.run(partial(call, *args), self._patience)
        except asyncio.CancelledError as error:  # Not an Exception, so that its origin would be lost.
            raise user_fault(error, self.context.name, self.context.subtask) from error

    def _hold_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = self.context.services.event_loop.acquire()
        return self._loop

    def _release_loop(self) -> None:
        if self._loop is not None:
            self._loop = None
            self.context.services.event_loop.release()

    # --- in ---

    def process(self, batch: Batch) -> None:
        if batch.values:
            self._requests += len(batch.values)
            self._submit(batch)
        self._emit_ready()
        while self._requests > self.capacity:
            self._emit_ready(wait=True)

    def process_watermark(self, timestamp: int) -> None:
        self._place(Watermark(timestamp))

    def process_idleness(self, idle: bool) -> None:
        self._place(Idleness(idle))

    def tick(self) -> None:
        self._emit_ready()

    def next_due(self) -> float | None:
        # Results arrive on the thread of the event loop, and are looked for often enough.
        return self._looked + _LOOK_SECONDS if self.in_flight else None

    @property
    def in_flight(self) -> bool:
        return bool(self._requests or self._marks)

    def end_epoch(self) -> None:
        self._drain()

    def finish(self) -> None:
        self._drain()
        super().finish()

    def _place(self, mark: Mark) -> None:
        """Adds a mark after the records so far."""
        if self._requests or self._marks:
            self._marks += 1
            self._submit(mark)
            self._emit_ready()
        else:
            self._emit_mark(mark)

    def _submit(self, element: Batch | Mark) -> None:
        assert self._calls is not None
        self._calls.submit(element)

    # --- out ---

    def _drain(self) -> None:
        """Waits until nothing is in flight, and emits all results."""
        while self._requests or self._marks:
            self._emit_ready(wait=True)

    def _emit_ready(self, wait: bool = False) -> None:
        self._looked = time.time()
        for values, timestamps, requests, mark in self._mailbox.take(wait):
            self._requests -= requests
            timed = timestamps.count(NO_TIMESTAMP) < len(timestamps)
            self.output.emit(Batch(values, timestamps if timed else None))
            if mark is not None:
                self._marks -= 1
                self._emit_mark(mark)

    def _emit_mark(self, mark: Mark) -> None:
        if isinstance(mark, Watermark):
            self.output.emit_watermark(mark.timestamp)
        else:
            self.output.emit_idleness(mark.idle)

    def _fail(self, error: BaseException, record: Any) -> None:
        """Called on the loop's thread."""
        self._mailbox.fail(user_fault(error, self.context.name, self.context.subtask, record))
