"""Output: where the results of an operator go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from flintstream.runtime.batch import Batch
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
    """Hands batches to the receivers of the main output and of the side outputs, in the types declared for them."""

    def __init__(self, operator_name: str, subtask: int, output_type: TypeInformation | None) -> None:
        self._operator_name = operator_name
        self._subtask = subtask
        self._type = output_type
        self._main: list[Receiver] = []
        self._sides: dict[str, list[tuple[Receiver, TypeInformation | None]]] = {}
        self.records = 0
        """How many records were emitted to the main output."""

    def add_receiver(
        self, receiver: Receiver, side_tag: str | None, side_type: TypeInformation | None = None
    ) -> None:
        """Connects a receiver to the main output or to a side output."""
        if side_tag is None:
            self._main.append(receiver)
        else:
            self._sides.setdefault(side_tag, []).append((receiver, side_type))

    @property
    def receivers(self) -> list[Receiver]:
        """All receivers, of the main output and of the side outputs."""
        return self._main + [receiver for side in self._sides.values() for receiver, _ in side]

    def emit(self, batch: Batch) -> None:
        """Passes records on. An empty batch is passed on to nobody."""
        if not batch.values:
            return
        self.records += len(batch.values)
        if self._type is not None:
            batch = self._coerced(batch, self._type)
        for receiver in self._main:
            receiver.process(batch)

    def emit_side(self, tag_id: str, batch: Batch) -> None:
        """Passes records to a side output; nobody listening, nobody misses them."""
        for receiver, declared in self._sides.get(tag_id, ()):
            receiver.process(batch if declared is None else self._coerced(batch, declared))

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

    def _coerced(self, batch: Batch, declared: TypeInformation) -> Batch:
        try:
            values = declared.coerce(batch.values)
        except Exception as error:
            raise user_fault(error, self._operator_name, self._subtask) from error
        return batch if values is batch.values else Batch(values, batch.timestamps, batch.keys)


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
        side[0].append(value)
        if timestamp is not None:
            side[1].append(timestamp)

    def flush(self) -> None:
        """Emits what was put aside."""
        if self._sides:
            sides, self._sides = self._sides, {}
            for tag_id, (values, timestamps) in sides.items():
                self._output.emit_side(tag_id, Batch(values, timestamps or None))
