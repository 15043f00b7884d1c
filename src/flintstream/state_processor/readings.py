"""Readings: what is done with a share of stored state. Each yields its results in chunks, in any process.

Timers and windows are restored by the operators of the runtime that have written them.
"""

from __future__ import annotations

import gc
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from flintstream.runtime.captured import capture
from flintstream.runtime.operators.base import Operator
from flintstream.runtime.operators.process import ProcessOperator
from flintstream.runtime.state import ttl
from flintstream.runtime.state.backend import ENGINE, KeyedStateBackend
from flintstream.runtime.time.timers import Namespaced, TimerQueue, TimerService
from flintstream.runtime.windows.operator import WindowOperator
from flintstream.state_processor.functions import KeyedStateReaderFunction, WindowReaderFunction
from flintstream.state_processor.shares import Share
from flintstream.state_processor.state_task import HASHMAP, StateTask

CHUNK = 8192
"""The number of keys read, and about the number of results yielded, at a time."""
_FEW = 512
"""The same where each key may have many records: of lists, maps and windows."""


class Reading(ABC):
    """Reads shares. It is pickled, and read with in other processes."""

    @abstractmethod
    def chunks(self, share: Share) -> Iterator[list[Any]]:
        """Yields the results of a share, some at a time."""


class _Results:
    """Collects the results of a reader function."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.collect = self.values.append

    def add(self, results: Iterable[Any] | None) -> None:
        """Adds results that the function has returned instead of collecting them."""
        if results is not None:
            self.values.extend(results)

    def take(self) -> list[Any]:
        """Returns the results so far, and forgets them."""
        taken = self.values
        self.values = []
        self.collect = self.values.append
        return taken


@contextmanager
def _without_collector() -> Iterator[None]:
    """Keeps the cyclic garbage collector away from objects that live for a moment; it runs afterwards."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Timers:
    """The timers of one time domain by owner, looked up when first asked for."""

    def __init__(self, queue: TimerQueue) -> None:
        self._queue = queue
        self._found: dict[Any, set[int]] | None = None

    def of(self, owner: Any) -> set[int]:
        """Returns the timestamps of an owner: a key, or a key with a window."""
        return set(self._by_owner().get(owner, ()))

    def keys(self) -> list[Any]:
        """Returns the owners."""
        return list(self._by_owner())

    def _by_owner(self) -> dict[Any, set[int]]:
        if self._found is None:
            self._found = {}
            for timestamp, owner in self._queue:
                self._found.setdefault(owner, set()).add(timestamp)
        return self._found


# --- keyed state ---


class _KeyContext(KeyedStateReaderFunction.Context):
    def __init__(self, state: KeyedStateBackend, timers: TimerService) -> None:
        self._state = state
        self.event, self.processing = _Timers(timers.event), _Timers(timers.processing)

    def registered_event_time_timers(self) -> set[int]:
        return self.event.of(self._state.current_key)

    def registered_processing_time_timers(self) -> set[int]:
        return self.processing.of(self._state.current_key)


class KeyedReaderOperator(ProcessOperator):
    """Calls a KeyedStateReaderFunction for the keys of restored state."""

    def __init__(self, function: Any) -> None:
        super().__init__(function, keyed=True)

    def _bind(self) -> None:
        self._read_key = self.bound("read_key")

    @property
    def requested(self) -> list[str]:
        """Returns the names of the states that the function has requested."""
        return [name for name, info in self._state.states.items() if info.kind != ENGINE]

    def read(self) -> Iterator[list[Any]]:
        """Yields the results for all keys."""
        assert self._timers is not None
        state, read, results = self._state, self._read_key, _Results()
        context = _KeyContext(state, self._timers)
        for keys in self._keys(context):
            state.touch(keys)
            key: Any = None
            try:
                for key in keys:
                    state.current_key = key
                    returned = read(key, context, results)
                    if returned is not None:
                        results.add(returned)
                    if len(results.values) >= CHUNK:
                        yield results.take()
            except Exception as error:
                raise self.fault(error, key) from error
            if results.values:
                yield results.take()

    def _keys(self, context: _KeyContext) -> Iterator[list[Any]]:
        """Yields the keys that have an entry in one of the requested states; if there is none, the keys with timers."""
        names = self.requested
        if not names:
            keys = iter(dict.fromkeys([*context.event.keys(), *context.processing.keys()]))
            while chunk := list(islice(keys, CHUNK)):
                yield chunk
            return
        tables: list[Any] = []
        for name in names:
            for keys in self._state.key_chunks(name):
                for start in range(0, len(keys), CHUNK):
                    part = keys[start : start + CHUNK]
                    new = [key for key in part if not any(key in table for table in tables)] if tables else part
                    if new:
                        yield new
            tables.append(self._state.table(name))


@dataclass(frozen=True)
class KeyedReading(Reading):
    """Calls a KeyedStateReaderFunction for each key."""

    function: bytes
    """The pickled function: each share opens its own copy."""
    state_backend: str = HASHMAP
    state_options: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def of(function: KeyedStateReaderFunction[Any, Any], *backend: Any) -> KeyedReading:
        """Captures a function as it is now."""
        return KeyedReading(capture(function).data, *backend)

    def chunks(self, share: Share) -> Iterator[list[Any]]:
        operator = self._operator()
        with _without_collector(), self._task(operator, share):
            yield from operator.read()

    def requested(self, share: Share) -> list[str]:
        """Opens the function with a share; returns the names of the states that it requests."""
        operator = self._operator()
        with self._task(operator, share):
            return operator.requested

    def _operator(self) -> KeyedReaderOperator:
        return KeyedReaderOperator(pickle.loads(self.function))

    def _task(self, operator: Operator, share: Share) -> StateTask:
        return StateTask.for_share(operator, share, state_backend=self.state_backend, state_options=self.state_options)


class _TableOperator(Operator):
    """Restores keyed state without calling a function."""

    keyed = True

    def open(self) -> None:
        assert self.context.keyed_state is not None
        self.state = self.context.keyed_state


@dataclass(frozen=True)
class EntryReading(Reading):
    """Reads pairs of key and entry of a keyed state: a value, a list, a dict, or the result of an aggregate.

    With a descriptor, entries are converted to its type, and expired ones are left out. Without one they are as
    stored: of an aggregating state, accumulators.
    """

    name: str
    descriptor: Any = None
    state_backend: str = HASHMAP
    state_options: dict[str, str] = field(default_factory=dict)

    def chunks(self, share: Share) -> Iterator[list[Any]]:
        operator = _TableOperator()
        task = StateTask.for_share(operator, share, state_backend=self.state_backend, state_options=self.state_options)
        with _without_collector(), task:
            state = operator.state
            convert = self._converter(state)
            pairs = iter(state.table(self.name).items())
            known = state.states.get(self.name) or state.restored.get(self.name)
            size = _FEW if known is None or known.kind not in ("value", "reducing") else CHUNK
            while chunk := list(islice(pairs, size)):
                keys, entries = zip(*chunk)
                if found := list(convert(keys, entries)):
                    yield found

    def _converter(self, state: KeyedStateBackend) -> Callable[[Any, Any], Iterable[tuple[Any, Any]]]:
        if self.descriptor is None:
            stored = state.restored.get(self.name)
            if stored is not None and stored.expires:
                kind = stored.kind
                return lambda keys, entries: zip(keys, ttl.without_times(kind, list(entries))[0])
            return zip
        state.state_of(self.descriptor)
        info = state.states[self.name]
        result = self.descriptor.get_agg_function().get_result if info.kind == "aggregating" else None
        live, now = info.time_to_live, state.clock()

        def convert(keys: Any, entries: Any) -> Iterable[tuple[Any, Any]]:
            pairs = list(zip(keys, entries))
            if live is not None:
                left = [(key, live.unexpired(info.kind, entry, now)) for key, entry in pairs]
                pairs = [pair for pair in left if pair[1] is not None]
                plain = ttl.without_times(info.kind, [entry for _, entry in pairs])[0]
                pairs = list(zip([key for key, _ in pairs], plain))
            return pairs if result is None else [(key, result(entry)) for key, entry in pairs]

        return convert


@dataclass(frozen=True)
class CountReading(Reading):
    """Counts the keys of each keyed state: a pair of name and number for each state of a share."""

    def chunks(self, share: Share) -> Iterator[list[Any]]:
        operator = _TableOperator()
        with _without_collector(), StateTask.for_share(operator, share):
            yield [(name, len(operator.state.table(name))) for name in operator.state.restored]


# --- windows ---


class _WindowContext(WindowReaderFunction.Context):
    def __init__(self, operator: WindowReaderOperator) -> None:
        self._operator = operator
        self._event, self._processing = _Timers(operator.timers.event), _Timers(operator.timers.processing)
        self.current: Any = None

    def window(self) -> Any:
        return self.current

    def trigger_state(self, descriptor: Any) -> Any:
        return self._operator._trigger_context.get_partitioned_state(descriptor)

    def window_state(self) -> Any:
        return self._operator._window_context.window_state()

    def global_state(self) -> Any:
        return self._operator._window_context.global_state()

    def registered_event_time_timers(self) -> set[int]:
        return self._event.of(self._owner())

    def registered_processing_time_timers(self) -> set[int]:
        return self._processing.of(self._owner())

    def _owner(self) -> Namespaced:
        return Namespaced(self._operator._state.current_key, self.current)


class WindowReaderOperator(WindowOperator):
    """Passes the restored windows to a function, or on."""

    def read(self) -> Iterator[list[Any]]:
        """Yields the results for all windows."""
        results, context = _Results(), _WindowContext(self)
        state, function = self._state, self._spec.function.function
        windows = self.open_windows()
        while chunk := list(islice(windows, _FEW)):
            state.touch([key for key, _, _ in chunk])
            for key, window, contents in chunk:
                state.current_key = key
                self._function_state.current_key = self._trigger_context.window = context.current = window
                try:
                    elements = self._elements(key, contents)
                    if function is None:
                        results.add([(key, element) for element in elements])
                    else:
                        results.add(function.read_window(key, context, elements, results))
                except Exception as error:
                    raise self.fault(error, (key, window)) from error
            if results.values:
                yield results.take()

    def _elements(self, key: Any, contents: Any) -> list[Any]:
        spec = self._spec
        if spec.evictor is None:
            return spec.contents.elements(contents)
        # All records are kept for the evictor; what they are reduced to is computed as when a window fires.
        return list(spec.function.results(key, self._window_context, [value for value, _ in contents]))


@dataclass(frozen=True)
class WindowReading(Reading):
    """Reads the open windows of an operator."""

    operator: bytes
    """The pickled WindowReaderOperator."""
    state_backend: str = HASHMAP
    state_options: dict[str, str] = field(default_factory=dict)

    def chunks(self, share: Share) -> Iterator[list[Any]]:
        operator: WindowReaderOperator = pickle.loads(self.operator)
        task = StateTask.for_share(operator, share, state_backend=self.state_backend, state_options=self.state_options)
        with _without_collector(), task:
            yield from operator.read()


# --- operator state ---


@dataclass(frozen=True)
class OperatorStateReading(Reading):
    """Reads the elements of a list state, or pairs of key and value of a broadcast state."""

    name: str
    is_map: bool = False

    def chunks(self, share: Share) -> Iterator[list[Any]]:
        operator = _NotKeyed()
        with StateTask.for_share(operator, share):
            states = operator.context.operator_state.snapshot().states
            if self.name in states:
                content = states[self.name][2]
                found = iter(content.items() if self.is_map else content)
                while chunk := list(islice(found, CHUNK)):
                    yield chunk


class _NotKeyed(Operator):
    """Restores operator state."""
