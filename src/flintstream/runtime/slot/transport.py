"""Transport: how blocks get from task to task, and how everybody learns that an epoch is complete.

    driver   Transport.run(epoch) ─────────────────────────────────────────────┐ returns: the epoch is complete
    slot     Task ── Outlet(slot, vertex, input, channel, number, block) ──►   │
    slot                        Inlet.receive(vertex, input, channel, block) ──┴─► Task
                                Inlet.mark(vertex, channel)

What every transport owes to the tasks:

- A block arrives once, at the slot, vertex and input that its address says. The blocks of a channel arrive in order, before
  the mark of their epoch. Channels may interleave in any way.
- A *mark* says that a channel is done with an epoch. A task that has the marks of all its channels ends the epoch.
- An epoch is complete when all tasks have ended it. Whatever fails before is the attempt's failure: nothing is sent twice.

Spark's epochs (`spark/epoch.py`) are one transport: a shuffle between two levels marks all channels of a level at once. The
`testing` package has another, in this process. Neither tasks nor slots know which one it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

Outlet = Callable[[int, int, int, int, int, bytes], None]
"""Takes a block to send: slot, vertex, input, channel, its number within channel and epoch, the block itself."""


class Inlet(Protocol):
    """What a transport feeds in a slot."""

    def receive(self, vertex: int, input_index: int, channel: int, block: bytes | memoryview) -> None:
        """Takes a block, or a part of one."""

    def mark(self, vertex: int, channel: int) -> None:
        """A channel is done with the epoch."""

    def mark_all(self) -> None:
        """All channels are, as behind a shuffle, and so are the sources."""


class Transport(ABC):
    """The driver's side."""

    @abstractmethod
    def run(self, epoch: int, readers: Sequence[Any] = ()) -> None:
        """Moves an epoch, which the slots have begun, through all tasks; returns when it is complete.

        `readers` hold blocks for sources that the transport itself reads: DataFrames, with Spark.
        """

    @abstractmethod
    def cancel(self) -> None:
        """Ends the epoch that runs, and any that would begin later; may be called from any thread."""
