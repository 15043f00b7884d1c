"""Enumeration: runs a SplitEnumerator on its own thread, so that no epoch or checkpoint waits for it."""

from __future__ import annotations

import pickle
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from flintstream.common.pickling import dumps
from flintstream.runtime.faults import Fault, UserCodeError, user_fault
from flintstream.runtime.source import Split, SplitSource
from flintstream.runtime.stacks import frame_of, stack_of

FIRST_SECONDS = 5.0
"""How long the job waits for the first splits before it starts without them; most are discovered at once."""
CLOSE_SECONDS = 5.0
"""How long an enumerator may take to close."""
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Found:
    """The result of one discovery."""

    splits: list[Split]
    state: bytes
    """The enumerator's pickled state after it."""
    complete: bool
    """Whether there will be no more splits."""


class Enumeration:
    """The enumerator of a source and its thread. All methods are called by the job's own thread."""

    def __init__(self, name: str, source: SplitSource, parallelism: int, on_data: Callable[[], None]) -> None:
        self._name = name
        self._source = source
        self._on_data = on_data
        self._found: queue.SimpleQueue[Found] = queue.SimpleQueue()
        self._safe: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        """The states of complete checkpoints; None to end."""
        self._looked = threading.Event()
        self._error: UserCodeError | None = None
        self._call: tuple[str, float] | None = None
        """The running method, and since when."""
        self._thread: threading.Thread | None = None
        with self._blame():
            self._enumerator = source.create_enumerator(parallelism)

    def start(self, state: bytes | None, complete: bool) -> None:
        """Starts the discovery of splits, from a restored state; waits a moment for the first ones.

        `complete` is whether all were discovered before.
        """
        if complete:
            self._looked.set()
        name = f"enumerator {self._name}"
        self._thread = threading.Thread(target=self._run, args=[state, complete], name=name, daemon=True)
        self._thread.start()
        self._looked.wait(FIRST_SECONDS)

    def found(self) -> Iterator[Found]:
        """Yields discoveries since the last call; raises if the enumerator has failed or takes too long."""
        while True:
            try:
                yield self._found.get_nowait()
            except queue.Empty:
                break
        if self._error is not None:
            raise self._error
        call = self._call
        if call is not None and time.monotonic() - call[1] > self._source.discovery_timeout:
            raise self._too_long(call[0])

    def assign(self, split: Split, loads: list[int]) -> int:
        """Returns the subtask that reads a split."""
        with self._blame():
            subtask = self._enumerator.assign(split, loads)
            if type(subtask) is not int or not 0 <= subtask < len(loads):
                raise ValueError(
                    f"{type(self._enumerator).__name__}.assign of split {split.split_id!r} returned {subtask!r}: expected "
                    f"the index of a subtask, from 0 to {len(loads) - 1}"
                )
        return subtask

    def checkpoint_complete(self, state: bytes | None) -> None:
        """Notifies the enumerator, on its thread, that a checkpoint with this state is complete."""
        if state is not None:
            self._safe.put(state)

    def close(self) -> None:
        """Closes the enumerator."""
        if self._thread is not None:
            self._safe.put(None)
            self._thread.join(CLOSE_SECONDS)
            if self._thread.is_alive():
                raise TimeoutError(f"source '{self._name}': its enumerator has not ended within {CLOSE_SECONDS:g} s")

    # --- the enumerator's thread ---

    def _run(self, state: bytes | None, complete: bool) -> None:
        try:
            if state is not None:
                self._called("restore", lambda: self._enumerator.restore(pickle.loads(state)))
            try:
                self._called("start", self._enumerator.start)
                self._enumerate(complete)
            finally:
                self._called("close", self._enumerator.close)
        except UserCodeError as error:
            self._error = error
            self._looked.set()
            self._on_data()

    def _enumerate(self, complete: bool) -> None:
        interval = self._source.discovery_interval
        while True:
            if not complete:
                found = self._called("discover", self._discover)
                complete = found.complete
                self._found.put(found)
                self._looked.set()
                if found.splits or complete:
                    self._on_data()
            next_look = None if complete or interval is None else time.monotonic() + interval
            if not self._serve_until(next_look):
                return

    def _discover(self) -> Found:
        splits = list(self._enumerator.discover())
        once = self._source.bounded and self._source.discovery_interval is None
        return Found(splits, dumps(self._enumerator.snapshot()), once or self._enumerator.no_more_splits)

    def _serve_until(self, moment: float | None) -> bool:
        """Passes on notifications of checkpoints until the next discovery; returns False at the end."""
        while True:
            try:
                state = self._safe.get(timeout=None if moment is None else max(0.0, moment - time.monotonic()))
            except queue.Empty:
                return True
            if state is None:
                return False
            self._called("checkpoint_complete", partial(self._enumerator.checkpoint_complete, pickle.loads(state)))

    def _called(self, name: str, call: Callable[[], _Result]) -> _Result:
        self._call = (name, time.monotonic())
        try:
            with self._blame():
                return call()
        finally:
            self._call = None

    @contextmanager
    def _blame(self) -> Iterator[None]:
        """Attributes exceptions to the source."""
        try:
            yield
        except Exception as error:
            raise user_fault(error, self._name) from error

    def _too_long(self, name: str) -> UserCodeError:
        assert self._thread is not None
        stack = stack_of(frame_of(self._thread.ident))
        summary = (
            f"{type(self._enumerator).__name__}.{name}() has not returned for {self._source.discovery_timeout:g} s "
            "(the source's discovery_timeout)"
        )
        return UserCodeError(Fault(self._name, None, None, stack, summary))
