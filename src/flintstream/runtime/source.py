"""Sources made of splits: what a source is to the driver, and to the slot that reads it.

The driver asks a `SplitSource` which splits exist and assigns them to subtasks; a slot makes a `SplitReader` for each of its
splits and reads a bounded number of records from it in each epoch. A split is read by one subtask, in order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from flintstream.runtime.batch import Batch


class SourceError(Exception):
    """A source could not be read. The message says where: the file and its offset, the split and its
    position."""


@dataclass(frozen=True)
class Split:
    """A part of a source: a file, a range of numbers, a partition of a topic."""

    split_id: str
    """Unique within the source, and the same each time the source is asked."""
    content: Any = None
    """What the reader needs to know; must be picklable."""


class SplitReader(ABC):
    """Reads one split from a position. Used by one thread."""

    finished = False
    """Set once nothing can follow; bounded splits set it with their last records."""

    @property
    @abstractmethod
    def position(self) -> Any:
        """Where a new reader has to start to give what this one has not given yet. Picklable."""

    @abstractmethod
    def read(self, limit: int) -> Batch:
        """At most `limit` records, without waiting; an empty batch when there is nothing now."""

    def next_due(self) -> float | None:
        """When (seconds since 1970) there will be records: at once (0) unless a reader knows better.

        None means that the reader cannot know: it is then asked every now and then while the job is idle.
        """
        return 0.0

    def close(self) -> None:
        """Called once at the end."""


class SplitSource(ABC):
    """What the engine needs from a source that is made of splits."""

    bounded: bool = True
    """Whether the splits end, and no new ones come once `discover` has been called."""

    discovery_interval: float | None = None
    """For unbounded sources: how often (seconds) `discover` is called again; None for once only."""

    replayable: bool = True
    """Whether a split can be read again from a position."""

    @abstractmethod
    def discover(self, parallelism: int, known: frozenset[str]) -> Iterable[Split]:
        """The splits that are not among the known ones. Called on the driver."""

    @abstractmethod
    def create_reader(self, split: Split, position: Any) -> SplitReader:
        """A reader of a split, from the beginning where `position` is None. Called in a slot."""


class AlignedProgress(NamedTuple):
    """How far a source that keeps step with others has come in one subtask."""

    watermark: int | None
    """The least watermark of its splits; None while there is none to wait for."""
    waiting: int | None
    """The least watermark of the splits that wait for others; None if none does."""
