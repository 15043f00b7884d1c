"""Records the output of an operator under test, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from flintstream.runtime.batch import NO_TIMESTAMP, Batch
from flintstream.runtime.block import Idleness, LatencyMarker, Watermark, decode_block, encode_block
from flintstream.runtime.output import Output

if TYPE_CHECKING:
    from flintstream.common.typeinfo import TypeInformation


class Record(NamedTuple):
    """An emitted value with its timestamp; None if it has none."""

    value: Any
    timestamp: int | None = None


Element = Record | Watermark | Idleness | LatencyMarker


def records_of(batch: Batch) -> list[Record]:
    """Returns the records of a batch."""
    if batch.timestamps is None:
        return [Record(value) for value in batch.values]
    return [
        Record(value, None if timestamp == NO_TIMESTAMP else timestamp)
        for value, timestamp in zip(batch.values, batch.timestamps, strict=True)
    ]


class Recorder:
    """Replaces the downstream of an operator."""

    def __init__(self, through_blocks: bool) -> None:
        self._through_blocks = through_blocks
        self.elements: list[Element] = []
        self.batch_sizes: list[int] = []
        self.finished = False

    def process(self, batch: Batch) -> None:
        """Stores records, optionally after encoding and decoding them as between two subtasks."""
        if self._through_blocks:
            batch, _ = decode_block(encode_block(batch))
        self.batch_sizes.append(len(batch))
        self.elements.extend(records_of(batch))

    def process_watermark(self, timestamp: int) -> None:
        """Stores a watermark."""
        self.elements.append(Watermark(timestamp))

    def process_idleness(self, idle: bool) -> None:
        """Stores a change between idle and active."""
        self.elements.append(Idleness(idle))

    def process_latency_marker(self, marker: LatencyMarker) -> None:
        """Stores a latency marker."""
        self.elements.append(marker)

    def finish(self) -> None:
        """Records the end of the operator's output."""
        self.finished = True

    def clear(self) -> None:
        """Discards the elements so far."""
        self.elements.clear()
        self.batch_sizes.clear()

    @property
    def records(self) -> list[Record]:
        """Returns the records among the elements."""
        return [element for element in self.elements if isinstance(element, Record)]


class RecordingOutput(Output):
    """Stores the main output and, unlike the output of a job, every side output, even without a consumer."""

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
        """Discards all output."""
        self.main.clear()
        self.sides.clear()
