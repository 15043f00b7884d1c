"""What an operator under test emits, kept in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from flintstream.runtime.batch import NO_TIMESTAMP, Batch
from flintstream.runtime.block import Idleness, Watermark, decode_block, encode_block
from flintstream.runtime.output import Output

if TYPE_CHECKING:
    from flintstream.common.typeinfo import TypeInformation


class Record(NamedTuple):
    """An emitted value with its timestamp; None if it has none."""

    value: Any
    timestamp: int | None = None


Element = Record | Watermark | Idleness


def records_of(batch: Batch) -> list[Record]:
    """The records of a batch."""
    if batch.timestamps is None:
        return [Record(value) for value in batch.values]
    return [
        Record(value, None if timestamp == NO_TIMESTAMP else timestamp)
        for value, timestamp in zip(batch.values, batch.timestamps, strict=True)
    ]


class Recorder:
    """Takes the place of what comes behind an operator."""

    def __init__(self, through_blocks: bool) -> None:
        self._through_blocks = through_blocks
        self.elements: list[Element] = []
        self.batch_sizes: list[int] = []
        self.finished = False

    def process(self, batch: Batch) -> None:
        """Keeps records, where wanted as they arrive behind a network."""
        if self._through_blocks:
            batch, _ = decode_block(encode_block(batch))
        self.batch_sizes.append(len(batch))
        self.elements.extend(records_of(batch))

    def process_watermark(self, timestamp: int) -> None:
        """Keeps a watermark."""
        self.elements.append(Watermark(timestamp))

    def process_idleness(self, idle: bool) -> None:
        """Keeps a change between idle and active."""
        self.elements.append(Idleness(idle))

    def finish(self) -> None:
        """The operator has said that nothing follows."""
        self.finished = True

    def clear(self) -> None:
        """Forgets the elements so far."""
        self.elements.clear()
        self.batch_sizes.clear()

    @property
    def records(self) -> list[Record]:
        """The records among the elements."""
        return [element for element in self.elements if isinstance(element, Record)]


class RecordingOutput(Output):
    """Keeps the main output and, unlike the output of a job, every side output, whether it is read or not."""

    def __init__(
        self, operator_name: str, subtask: int, output_type: TypeInformation | None, through_blocks: bool
    ) -> None:
        super().__init__(operator_name, subtask, output_type)
        self._through_blocks = through_blocks
        self.main = Recorder(through_blocks)
        self.sides: dict[str, Recorder] = {}
        self.add_receiver(self.main, typed=True)

    def emit_side(self, tag_id: str, batch: Batch) -> None:
        side = self.sides.get(tag_id)
        if side is None:
            side = self.sides[tag_id] = Recorder(self._through_blocks)
        side.process(batch)

    def clear(self) -> None:
        """Forgets all that was emitted."""
        self.main.clear()
        self.sides.clear()
