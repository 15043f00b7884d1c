"""Operators of a stream connected with a broadcast stream."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable
from typing import Any, NoReturn

from flintstream.runtime.batch import Batch
from flintstream.runtime.block import decode_block, encode_block
from flintstream.runtime.operators.base import Operator
from flintstream.runtime.operators.process import CoProcessOperator, ProcessContext
from flintstream.runtime.state.backend import NoKey
from flintstream.runtime.state.operator_state import (
    BroadcastStateView,
    OperatorStateBackend,
    ReadOnlyBroadcastStateView,
)
from flintstream.runtime.time.timers import TimeView


class BroadcastStates:
    """The broadcast states declared by `stream.broadcast(...)`, by name."""

    def __init__(self, operator: str, descriptors: list[Any], backend: OperatorStateBackend) -> None:
        self._operator = operator
        self._writable: dict[str, BroadcastStateView] = {}
        self._read_only: dict[str, ReadOnlyBroadcastStateView] = {}
        for descriptor in descriptors:
            entries = backend.broadcast_entries(descriptor)
            self._writable[descriptor.name] = BroadcastStateView(entries)
            self._read_only[descriptor.name] = ReadOnlyBroadcastStateView(entries, operator, descriptor.name)

    def writable(self, descriptor: Any) -> BroadcastStateView:
        """Returns the state of a descriptor, for the broadcast side."""
        return self._writable.get(descriptor.name) or self._unknown(descriptor)

    def read_only(self, descriptor: Any) -> ReadOnlyBroadcastStateView:
        """Returns the state of a descriptor, for the other side."""
        return self._read_only.get(descriptor.name) or self._unknown(descriptor)

    def _unknown(self, descriptor: Any) -> Any:
        known = ", ".join(map(repr, self._writable))
        raise ValueError(
            f"operator '{self._operator}': there is no broadcast state {descriptor.name!r} (there is {known}): pass "
            "its descriptor to broadcast()"
        )


class ElementContext(ProcessContext):
    """The context of records of the non-broadcast side, and of timers."""

    __slots__ = ("_states",)

    def __init__(self, time: TimeView, state: Any, states: BroadcastStates) -> None:
        super().__init__(time, state)
        self._states = states

    def current_processing_time(self) -> int:
        """Returns the slot's clock, in milliseconds since 1970."""
        return self._time.current_processing_time()

    def current_watermark(self) -> int:
        """Returns the current watermark of the operator."""
        return self._time.watermark

    def get_broadcast_state(self, state_descriptor: Any) -> BroadcastStateView:
        """Returns a broadcast state by its descriptor, read-only."""
        return self._states.read_only(state_descriptor)


class BroadcastContext(ElementContext):
    """The context of records of the broadcast side."""

    __slots__ = ()

    def get_current_key(self) -> NoReturn:
        """Refused: a broadcast record has no key."""
        raise AttributeError("get_current_key(): a record of the broadcast side has no key")

    def get_broadcast_state(self, state_descriptor: Any) -> BroadcastStateView:
        """Returns a broadcast state by its descriptor, for reading and writing."""
        return self._states.writable(state_descriptor)


class KeyedBroadcastContext(BroadcastContext):
    """The context of records broadcast to a keyed stream."""

    __slots__ = ()

    def apply_to_keyed_state(self, state_descriptor: Any, function: Callable[[Any, Any], Any]) -> None:
        """Calls `function(key, state)` for every key of this subtask that has an entry in the state."""
        self._state.apply_to_all_keys(state_descriptor, function)


class BroadcastProcessOperator(CoProcessOperator):
    """A `BroadcastProcessFunction`, or on a keyed stream a `KeyedBroadcastProcessFunction`.

    The first input is the non-broadcast stream, the second the broadcast one.
    """

    def __init__(self, function: Any, descriptors: list[Any], keyed: bool = False) -> None:
        super().__init__(function, keyed)
        self._descriptors = descriptors

    def _make_context(self) -> ElementContext:
        states = BroadcastStates(self.context.name, self._descriptors, self.context.operator_state)
        kind = KeyedBroadcastContext if self.keyed else BroadcastContext
        self._broadcast_context = kind(self._time, self._state, states)
        reason = "a record of the broadcast side has no key; ctx.apply_to_keyed_state() visits all keys"
        self._no_key = NoKey(self.context.name, reason)
        return ElementContext(self._time, self._state, states)

    def _bind(self) -> None:
        self._process = self.bound("process_element")
        self._process2 = self.bound("process_broadcast_element")

    def process2(self, batch: Batch) -> None:
        # Not `_run`, which announces the keys to the backend.
        keyless = Batch(batch.values, batch.timestamps, [self._no_key] * len(batch.values))
        if self._timers is not None:
            self._fire_processing_time(self._timers)
        self._call(self._process2, keyless, self._broadcast_context)


class BroadcastFirst:
    """In batch mode, processes all broadcast records before those of the other side, as in Flink.

    The other records wait in a file.
    """

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._file = tempfile.SpooledTemporaryFile(max_size=8 << 20)

    def add(self, input_index: int, batch: Batch) -> None:
        """Buffers records of an input."""
        if input_index:
            self._operator.process2(batch)
        else:
            pickle.dump(encode_block(batch), self._file, 5)

    def drain(self) -> None:
        """Passes on the buffered records."""
        self._file.seek(0)
        while True:
            try:
                data = pickle.load(self._file)
            except EOFError:
                break
            self._operator.process(decode_block(data)[0])
        self._file.close()
