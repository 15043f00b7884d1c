"""LocalTransport: moves blocks between slots of one process, level by level, in the order of Spark's shuffle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from flintstream.runtime.slot.protocol import Hello
from flintstream.runtime.slot.slot import Slot
from flintstream.runtime.slot.transport import Transport


class SentBlock(NamedTuple):
    """A block with its address."""

    slot: int
    vertex: int
    input: int
    channel: int
    number: int
    block: bytes


class LocalTransport(Transport):
    """Feeds slots one after the other, on the thread that runs an epoch. `levels` has the vertices of each level."""

    def __init__(self, job_id: str, levels: Sequence[frozenset[int]], slots: Sequence[Slot]) -> None:
        self._job_id = job_id
        self._levels = levels
        self._slots = slots
        self._cancelled = False
        self.sent: list[SentBlock] = []
        """The blocks sent between tasks in the last epoch."""

    def run(self, epoch: int, readers: Sequence[Any] = ()) -> None:
        self.sent = []
        for level, vertices in enumerate(self._levels):
            # Sorted as by an exchange: the channels of a receiver alternate, and each stays in order.
            blocks = sorted(
                (sent for sent in self.sent if sent.vertex in vertices),
                key=lambda sent: (sent.number, sent.input, sent.channel),
            )
            for slot in self._slots:
                if self._cancelled:
                    raise RuntimeError(f"epoch {epoch} was cancelled")
                inlet = slot.enter(Hello(self._job_id, 0, epoch, level, slot.number), self._send)
                for sent in blocks:
                    if sent.slot == slot.number:
                        inlet.receive(sent.vertex, sent.input, sent.channel, sent.block)
                inlet.mark_all()

    def cancel(self) -> None:
        self._cancelled = True

    def _send(self, *sent: Any) -> None:
        self.sent.append(SentBlock(*sent))
