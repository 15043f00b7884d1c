"""Output: passes the results of an operator to its receivers."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Protocol

from flintstream.runtime.batch import MIN_WATERMARK, Batch
from flintstream.runtime.detach import all_plain, detached
from flintstream.runtime.faults import user_fault

if TYPE_CHECKING:
    from flintstream.common.typeinfo import TypeInformation
    from flintstream.runtime.block import LatencyMarker


class Receiver(Protocol):
    """A chained operator, or the writer of an edge to another task."""

    def process(self, batch: Batch) -> None: ...

    def process_watermark(self, timestamp: int) -> None: ...

    def process_idleness(self, idle: bool) -> None: ...

    def process_latency_marker(self, marker: LatencyMarker) -> None: ...

    def finish(self) -> None: ...


class Output:
    """Passes batches to the receivers of the main output and of the side outputs.

    Values that leave the chain of user functions (to another task, to a sink) are converted to the declared type; as in
    PyFlink, those between chained functions are not.
    """

    def __init__(self, operator_name: str, subtask: int, output_type: TypeInformation | None) -> None:
        self._operator_name = operator_name
        self._subtask = subtask
        self._type = output_type
        self._main = _Receivers()
        self._sides: dict[str, tuple[_Receivers, TypeInformation | None]] = {}
        self.receivers: list[Receiver] = []
        """All receivers, of the main output and of the side outputs."""
        self.records = 0
        """The number of records emitted to the main output."""
        self.watermark = MIN_WATERMARK
        """The last watermark emitted."""

    def add_receiver(
        self,
        receiver: Receiver,
        typed: bool,
        side_tag: str | None = None,
        side_type: TypeInformation | None = None,
    ) -> None:
        """Connects a receiver to the main output or to a side output; a `typed` one receives values in the declared
        type.
        """
        self.receivers.append(receiver)
        if side_tag is None:
            self._main.add(receiver, typed)
        else:
            self._sides.setdefault(side_tag, (_Receivers(), side_type))[0].add(receiver, typed)

    def records_to(self, side_tag: str | None) -> int:
        """Returns the number of records emitted to the main output, or to a side output with receivers."""
        return self.records if side_tag is None else self._sides[side_tag][0].records

    @property
    def records_to_all(self) -> int:
        """Returns the number of records emitted to the main output and to side outputs with receivers."""
        return self.records + sum(side.records for side, _ in self._sides.values())

    def emit(self, batch: Batch) -> None:
        """Emits records, unless the batch is empty."""
        if batch.values:
            self.records += len(batch.values)
            self._emit_to(self._main, self._type, batch)

    def emit_side(self, tag_id: str, batch: Batch) -> None:
        """Emits records to a side output; without receivers they are dropped."""
        side = self._sides.get(tag_id)
        if side is not None:
            side[0].records += len(batch.values)
            self._emit_to(*side, batch)

    def emit_watermark(self, timestamp: int) -> None:
        """Emits a watermark to every receiver."""
        self.watermark = timestamp
        for receiver in self.receivers:
            receiver.process_watermark(timestamp)

    def emit_idleness(self, idle: bool) -> None:
        """Tells every receiver that this stream has become idle or active."""
        for receiver in self.receivers:
            receiver.process_idleness(idle)

    def emit_latency_marker(self, marker: LatencyMarker) -> None:
        """Emits a latency marker to one receiver, chosen by chance, so that it stays a single one; to nobody at a sink."""
        if self.receivers:
            random.choice(self.receivers).process_latency_marker(marker)

    def finish(self) -> None:
        """Tells every receiver that this stream has ended."""
        for receiver in self.receivers:
            receiver.finish()

    def _emit_to(self, receivers: _Receivers, declared: TypeInformation | None, batch: Batch) -> None:
        several = receivers.count > 1 and not all_plain(batch.values)
        for receiver in receivers.raw:
            # A branch may modify a record in place, which the others must not see.
            receiver.process(_copied(batch) if several else batch)
        if receivers.typed:
            if declared is not None:
                batch = self._coerced(batch, declared)
            for receiver in receivers.typed:
                receiver.process(_copied(batch) if several else batch)

    def _coerced(self, batch: Batch, declared: TypeInformation) -> Batch:
        try:
            values = declared.coerce(batch.values)
        except Exception as error:
            raise user_fault(error, self._operator_name, self._subtask) from error
        return batch if values is batch.values else Batch(values, batch.timestamps, batch.keys)


class _Receivers:
    """The receivers of unconverted values, and those of values in the declared type."""

    __slots__ = ("count", "raw", "records", "typed")

    def __init__(self) -> None:
        self.raw: list[Receiver] = []
        self.typed: list[Receiver] = []
        self.count = 0
        self.records = 0
        """The number of records emitted, for side outputs."""

    def add(self, receiver: Receiver, typed: bool) -> None:
        (self.typed if typed else self.raw).append(receiver)
        self.count += 1


def _copied(batch: Batch) -> Batch:
    return Batch([detached(value) for value in batch.values], batch.timestamps, batch.keys)


class SideBuffer:
    """Buffers side-output results of a process function while a batch is processed."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._sides: dict[str, tuple[list[Any], list[int]]] = {}

    def add(self, tag_id: str, value: Any, timestamp: int | None) -> None:
        """Buffers a value for a side output."""
        side = self._sides.get(tag_id)
        if side is None:
            side = self._sides[tag_id] = ([], [])
        side[0].append(detached(value))
        if timestamp is not None:
            side[1].append(timestamp)

    def flush(self) -> None:
        """Emits the buffered values."""
        if self._sides:
            sides, self._sides = self._sides, {}
            for tag_id, (values, timestamps) in sides.items():
                self._output.emit_side(tag_id, Batch(values, timestamps or None))
