"""Transport: moves blocks from task to task, and determines when an epoch is complete.

    driver   Transport.run(epoch) ─────────────────────────────────────────────┐ returns: the epoch is complete
    slot     Task ── Outlet(slot, vertex, input, channel, number, block) ──►   │
    slot                        Inlet.receive(vertex, input, channel, block) ──┴─► Task
                                Inlet.mark(vertex, channel)

Every transport guarantees:

- A block arrives once, at the slot, vertex and input of its address. The blocks of a channel arrive in order, before the
  mark of their epoch. Channels may interleave in any way.
- A *mark* says that a channel is done with an epoch. A task that has the marks of all its channels ends the epoch.
- An epoch is complete when all tasks have ended it. Any failure before fails the attempt: nothing is sent twice.

Spark's epochs (`spark/epoch.py`) are one transport: a shuffle between two levels marks all channels of a level at once. The
`testing` package has another, in this process. Neither tasks nor slots know which one it is.

The pipelined transport (`spark/standing.py`) is `standing`: slots send packs to each other at any time, through one
Spark job, and the marks are barriers, behind which the next epoch follows at once (`slot/pipeline.py`). The driver
ends its epochs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

Outlet = Callable[[int, int, int, int, int, bytes], None]
"""Sends a block: slot, vertex, input, channel, its number within channel and epoch, the block itself."""


class Inlet(Protocol):
    """The receiving side, in a slot."""

    def receive(self, vertex: int, input_index: int, channel: int, block: bytes | memoryview) -> None:
        """Receives a block, or a fragment of one."""

    def mark(self, vertex: int, channel: int) -> None:
        """Marks a channel as done with the epoch."""

    def mark_all(self) -> None:
        """Marks all channels, as after a shuffle, and the sources."""


class Transport(ABC):
    """The driver's side of a transport."""

    standing = False
    """Whether blocks flow at any time, and a barrier ends an epoch."""

    @abstractmethod
    def run(self, epoch: int, readers: Sequence[Any] = ()) -> None:
        """Moves an epoch, which the slots have begun, through all tasks; returns when it is complete.

        `readers` hold blocks for sources that the transport itself reads: DataFrames, with Spark.
        """

    @abstractmethod
    def cancel(self) -> None:
        """Ends the running epoch and prevents later ones; may be called from any thread."""
