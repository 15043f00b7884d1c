"""Sources made of splits: an enumerator on the driver discovers them, a reader in each subtask reads them.

A split is read by one subtask, in order, and has a position, which checkpoints store. A source is a `SplitSource`; it
creates a `SplitEnumerator` for the driver and a `SourceReader` for each subtask. If splits are read independently, such
as files, a `SplitReader` for one split is enough.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from flintstream.runtime.batch import Batch

if TYPE_CHECKING:
    from flintstream.runtime.context import RuntimeContext


class SourceError(Exception):
    """A source could not be read. The message says where: the file and offset, or the split and position."""


@dataclass(frozen=True)
class Split:
    """A share of a source: a file, a range of numbers, a partition of a topic."""

    split_id: str
    """Unique within the source."""
    content: Any = None
    """What the reader needs to read it; must be picklable."""


class SplitRecords(NamedTuple):
    """Records of one split, as a `SourceReader` returns them; an empty list means that the split has none now."""

    split_id: str
    values: list[Any]
    """The records. The job owns them from now on: the reader must not modify them."""
    timestamps: list[int] | None = None
    """One for each record, in milliseconds; None if the source has none."""
    finished: bool = False
    """Whether the split ends with these records."""


class SplitEnumerator(ABC):
    """Discovers the splits of a source, on the driver.

    All methods except `assign` are called on a thread of their own, one after the other: they need no locks, and while
    one of them blocks, the job continues with the splits it has. A call that does not return within the source's
    `discovery_timeout` fails the job.
    """

    no_more_splits = False
    """Set once a bounded source has no more splits to discover; `discover` is then not called again."""

    def start(self) -> None:
        """Called once, after `restore` and before the first `discover`: connect here."""

    @abstractmethod
    def discover(self) -> Iterable[Split]:
        """Returns the new splits. Called at the start, and then every `discovery_interval`.

        Splits that are being read may be returned again, and are ignored. Finished splits are forgotten by the engine
        and must not be returned again: an enumerator that would find them again, e.g. by their names in a directory,
        remembers what it has found and stores it in `snapshot`.
        """

    def assign(self, split: Split, loads: Sequence[int]) -> int:
        """Returns the subtask that reads a split: by default the one with the fewest splits.

        `loads` is the number of splits that each subtask has now. The result must depend on the arguments only: this is
        called between two epochs, possibly while `discover` runs.
        """
        return min(range(len(loads)), key=loads.__getitem__)

    def snapshot(self) -> Any:
        """Returns the state to restore after a restart, picklable; called after each `discover`.

        A checkpoint contains it together with the splits discovered up to then, never one without the other.
        """
        return None

    def restore(self, state: Any) -> None:
        """Restores the state that `snapshot` returned; called first of all. The engine restores the unfinished splits."""

    def checkpoint_complete(self, state: Any) -> None:
        """Called when a checkpoint that contains this state is complete."""

    def close(self) -> None:
        """Called once at the end, if `start` was."""


class SourceReader(ABC):
    """Reads all splits of a subtask. Used by one thread."""

    @abstractmethod
    def add_splits(self, splits: Sequence[tuple[Split, Any]]) -> None:
        """Adds splits, each with the position to start from: None for the beginning, or one that `snapshot` returned."""

    @abstractmethod
    def poll(self, limit: int) -> Sequence[SplitRecords]:
        """Returns at most `limit` records of one or several splits, without waiting; nothing if there are none now.

        Every split must have its turn. The last records of a split are marked `finished`.
        """

    @abstractmethod
    def snapshot(self) -> Mapping[str, Any]:
        """Returns the position of each unfinished split, after the last record returned. Picklable; called often."""

    def notify_checkpoint_complete(self, positions: Mapping[str, Any]) -> None:
        """Called when a checkpoint with these positions is complete: commit them to the other system here."""

    def next_due(self) -> float | None:
        """Returns when (seconds since 1970) there will be records: by default at once (0).

        None means that the reader cannot know; it is then polled at intervals while the job is idle.
        """
        return 0.0

    def align(self, room: Mapping[str, int]) -> None:
        """For watermark alignment: from now on only these splits may be read, each at most the given number of records at a
        time. Called before each `poll`, if the strategy asks for alignment.
        """
        raise NotImplementedError(
            f"{type(self).__name__} does not define align(room), and takes no strategy with watermark alignment"
        )

    def close(self) -> None:
        """Called once at the end."""


class SplitReader(ABC):
    """Reads one split from a position. Used by one thread."""

    finished = False
    """Set at the end of the split; bounded splits set it with their last records."""

    @property
    @abstractmethod
    def position(self) -> Any:
        """Returns the position from which a new reader continues after the last record returned. Picklable."""

    @abstractmethod
    def read(self, limit: int) -> Batch:
        """Returns at most `limit` records, without waiting; an empty batch if there are none now."""

    def next_due(self) -> float | None:
        """Returns the same as `SourceReader.next_due`, for this split."""
        return 0.0

    def notify_checkpoint_complete(self) -> None:
        """Called when a checkpoint is complete that was taken while this split was being read."""

    def close(self) -> None:
        """Called once at the end."""


class SplitSource:
    """A source made of splits.

    Define `create_enumerator`, or simply `discover`; and `create_source_reader`, or simply `create_reader`, which reads
    one split.
    """

    bounded: bool = True
    """Whether the source ends."""

    discovery_interval: float | None = None
    """The interval (seconds) of discovery; None for a single discovery, which finds all splits of a bounded source."""

    discovery_timeout: float = 600.0
    """How long (seconds) a call of the enumerator may take before the job fails; the job continues until then."""

    replayable: bool = True
    """Whether a split can be replayed from a position."""

    exactly_once: bool = True
    """Whether a record that is in a completed checkpoint never comes again."""

    sequential: bool = False
    """Whether a subtask reads its splits one after the other; its watermark is then that of the current split."""

    def create_enumerator(self, parallelism: int) -> SplitEnumerator:
        """Returns the enumerator, for a number of subtasks. Called on the driver; connect in the enumerator's `start`."""
        return _NamedSplits(self, parallelism)

    def create_source_reader(self, runtime_context: RuntimeContext) -> SourceReader:
        """Returns the reader of a subtask. Called in a slot."""
        return _SplitsInTurn(self)

    def discover(self, parallelism: int, known: frozenset[str]) -> Iterable[Split]:
        """Returns the splits that are not known, where `known` has all that were ever found. Called on the driver.

        Each checkpoint of an unbounded source contains the names of all its splits.
        """
        raise NotImplementedError(f"{type(self).__name__} defines neither create_enumerator nor discover")

    def create_reader(self, split: Split, position: Any) -> SplitReader:
        """Returns a reader of a split, from the beginning if `position` is None. Called in a slot."""
        raise NotImplementedError(f"{type(self).__name__} defines neither create_source_reader nor create_reader")


class _NamedSplits(SplitEnumerator):
    """Discovers the splits of a source by their names, which it remembers while there may be new ones."""

    def __init__(self, source: SplitSource, parallelism: int) -> None:
        self._source = source
        self._parallelism = parallelism
        self._known: frozenset[str] = frozenset()

    def discover(self) -> Iterable[Split]:
        found = [
            split
            for split in self._source.discover(self._parallelism, self._known)
            if split.split_id not in self._known
        ]
        self.no_more_splits = self._source.bounded
        if not self.no_more_splits:
            self._known |= {split.split_id for split in found}
        return found

    def snapshot(self) -> list[str]:
        return sorted(self._known)

    def restore(self, state: list[str]) -> None:
        self._known = frozenset(state)


class _SplitsInTurn(SourceReader):
    """Reads splits in turn, each with its own `SplitReader`."""

    def __init__(self, source: SplitSource) -> None:
        self._source = source
        self._line: deque[tuple[str, SplitReader]] = deque()
        """The next one to read is first."""
        self._room: Mapping[str, int] | None = None

    def add_splits(self, splits: Sequence[tuple[Split, Any]]) -> None:
        for split, position in splits:
            self._line.append((split.split_id, self._source.create_reader(split, position)))

    def align(self, room: Mapping[str, int]) -> None:
        self._room = room

    def poll(self, limit: int) -> list[SplitRecords]:
        looked: list[SplitRecords] = []
        for _ in range(len(self._line)):
            split_id, reader = self._line[0]
            most = limit if self._room is None else min(limit, self._room.get(split_id, 0))
            if most > 0:
                batch = reader.read(most)
                looked.append(SplitRecords(split_id, batch.values, batch.timestamps, reader.finished))
                if reader.finished:
                    reader.close()
                    self._line.popleft()
                    break
            self._line.rotate(-1)
            if most > 0 and batch.values:
                break
        return looked

    def snapshot(self) -> dict[str, Any]:
        return {split_id: reader.position for split_id, reader in self._line}

    def notify_checkpoint_complete(self, positions: Mapping[str, Any]) -> None:
        for split_id, reader in self._line:
            if split_id in positions:
                reader.notify_checkpoint_complete()

    def next_due(self) -> float | None:
        dues = [reader.next_due() for split_id, reader in self._line if self._room is None or split_id in self._room]
        known = [due for due in dues if due is not None]
        # If one split is polled, the times of the others do not matter.
        return min(known, default=None) if len(known) == len(dues) or 0.0 in known else None

    def close(self) -> None:
        for _, reader in self._line:
            reader.close()


class SourceTiming(NamedTuple):
    """How old the records of a source are in one subtask, in milliseconds."""

    emitted: int
    """When it last emitted records."""
    fetch_lag: int | None = None
    """The age of the last record when it was fetched, by the source's own timestamp; None without."""
    emit_lag: int | None = None
    """The age of the last record when it was emitted, by its event time; None without."""


class AlignedProgress(NamedTuple):
    """The progress of an aligned source in one subtask."""

    watermark: int | None
    """The smallest watermark of its splits; None if none holds others back."""
    waiting: int | None
    """The smallest watermark of the splits that wait for others; None if none does."""
