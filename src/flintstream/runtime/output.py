"""Output: where the results of an operator go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from flintstream.runtime.batch import Batch
from flintstream.runtime.detach import all_plain, detached
from flintstream.runtime.faults import user_fault

if TYPE_CHECKING:
    from flintstream.common.typeinfo import TypeInformation


class Receiver(Protocol):
    """A chained operator, or the writer of an edge to another task."""

    def process(self, batch: Batch) -> None: ...

    def process_watermark(self, timestamp: int) -> None: ...

    def process_idleness(self, idle: bool) -> None: ...

    def finish(self) -> None: ...


class Output:
    """Hands batches to the receivers of the main output and of the side outputs.

    Where values leave the chain of user functions (to another task, to a sink) they take the declared type; between chained
    functions they pass as they are, as in PyFlink.
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
        """How many records were emitted to the main output."""

    def add_receiver(
        self,
        receiver: Receiver,
        typed: bool,
        side_tag: str | None = None,
        side_type: TypeInformation | None = None,
    ) -> None:
        """Connects a receiver to the main output or to a side output; a `typed` one gets values in the declared type."""
        self.receivers.append(receiver)
        if side_tag is None:
            self._main.add(receiver, typed)
        else:
            self._sides.setdefault(side_tag, (_Receivers(), side_type))[0].add(receiver, typed)

    def records_to(self, side_tag: str | None) -> int:
        """How many records were emitted to the main output, or to a side output that somebody listens to."""
        return self.records if side_tag is None else self._sides[side_tag][0].records

    def emit(self, batch: Batch) -> None:
        """Passes records on. An empty batch is passed on to nobody."""
        if batch.values:
            self.records += len(batch.values)
            self._emit_to(self._main, self._type, batch)

    def emit_side(self, tag_id: str, batch: Batch) -> None:
        """Passes records to a side output; nobody listening, nobody misses them."""
        side = self._sides.get(tag_id)
        if side is not None:
            side[0].records += len(batch.values)
            self._emit_to(*side, batch)

    def emit_watermark(self, timestamp: int) -> None:
        """Passes a watermark to every receiver."""
        for receiver in self.receivers:
            receiver.process_watermark(timestamp)

    def emit_idleness(self, idle: bool) -> None:
        """Tells every receiver that this stream has fallen idle or is active again."""
        for receiver in self.receivers:
            receiver.process_idleness(idle)

    def finish(self) -> None:
        """Tells every receiver that nothing follows."""
        for receiver in self.receivers:
            receiver.finish()

    def _emit_to(self, receivers: _Receivers, declared: TypeInformation | None, batch: Batch) -> None:
        several = receivers.count > 1 and not all_plain(batch.values)
        for receiver in receivers.raw:
            # One branch may change a record in place; the others must not see that.
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
    """Those that take values as they are, and those that take them in the declared type."""

    __slots__ = ("count", "raw", "records", "typed")

    def __init__(self) -> None:
        self.raw: list[Receiver] = []
        self.typed: list[Receiver] = []
        self.count = 0
        self.records = 0
        """How many records were emitted; counted for side outputs."""

    def add(self, receiver: Receiver, typed: bool) -> None:
        (self.typed if typed else self.raw).append(receiver)
        self.count += 1


def _copied(batch: Batch) -> Batch:
    return Batch([detached(value) for value in batch.values], batch.timestamps, batch.keys)


class SideBuffer:
    """Gathers what a process function yields to side outputs while a batch is processed."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._sides: dict[str, tuple[list[Any], list[int]]] = {}

    def add(self, tag_id: str, value: Any, timestamp: int | None) -> None:
        """Puts a value aside for a side output."""
        side = self._sides.get(tag_id)
        if side is None:
            side = self._sides[tag_id] = ([], [])
        side[0].append(detached(value))
        if timestamp is not None:
            side[1].append(timestamp)

    def flush(self) -> None:
        """Emits what was put aside."""
        if self._sides:
            sides, self._sides = self._sides, {}
            for tag_id, (values, timestamps) in sides.items():
                self._output.emit_side(tag_id, Batch(values, timestamps or None))
