"""Sources made of splits: an enumerator on the driver finds them, a reader in each subtask reads them.

A split is read by one subtask, in order, and has a position: what a checkpoint stores of it. A source is a `SplitSource`; it
makes a `SplitEnumerator` for the driver and a `SourceReader` for each subtask. Where each split is read by itself, as a file
is, a `SplitReader` for one split is enough.
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
    """A source could not be read. The message says where: the file and its offset, the split and its
    position."""


@dataclass(frozen=True)
class Split:
    """A part of a source: a file, a range of numbers, a partition of a topic."""

    split_id: str
    """Unique within the source."""
    content: Any = None
    """What the reader needs to know; must be picklable."""


class SplitRecords(NamedTuple):
    """Records of one split, as a `SourceReader` gives them; without any, it says that the split was looked at in vain."""

    split_id: str
    values: list[Any]
    """The records. They belong to the job from now on: the reader must not change them."""
    timestamps: list[int] | None = None
    """One for each record, in milliseconds; None where the source knows none."""
    finished: bool = False
    """Whether the split ends with these records."""


class SplitEnumerator(ABC):
    """Finds the splits of a source, on the driver.

    All methods but `assign` are called on a thread of the enumerator's own, one after the other: they need no locks, and
    while one of them takes long, or hangs, the job goes on with the splits that it has. A call that has not returned within
    the source's `discovery_timeout` fails the job.
    """

    no_more_splits = False
    """Set once `discover` has nothing to find any more, for a source that ends; it is then not called again."""

    def start(self) -> None:
        """Called once, before the first `discover` and behind `restore`: the place to connect."""

    @abstractmethod
    def discover(self) -> Iterable[Split]:
        """The splits that are new. Called at the start, and each time `discovery_interval` has passed.

        Splits that are being read may be among them again, and are left out. Those that were read to their end are
        forgotten by the engine: they must not come again. An enumerator that would find them again, by their names in a
        directory say, remembers what it has found, and gives it out in `snapshot`.
        """

    def assign(self, split: Split, loads: Sequence[int]) -> int:
        """Which subtask reads a split: the one with the fewest, unless overridden.

        `loads` is the number of splits that each subtask has now. The answer must depend on nothing but the arguments: this
        is called between two epochs, perhaps while `discover` runs.
        """
        return min(range(len(loads)), key=loads.__getitem__)

    def snapshot(self) -> Any:
        """What the next run has to know, picklable; called behind each `discover`.

        A checkpoint holds it together with the splits that were found up to then: never one without the other.
        """
        return None

    def restore(self, state: Any) -> None:
        """Takes what `snapshot` has given in an earlier run; called first of all. The engine keeps the unfinished splits."""

    def checkpoint_complete(self, state: Any) -> None:
        """A checkpoint that holds this state is complete."""

    def close(self) -> None:
        """Called once at the end, if `start` was."""


class SourceReader(ABC):
    """Reads all splits of a subtask. Used by one thread."""

    @abstractmethod
    def add_splits(self, splits: Sequence[tuple[Split, Any]]) -> None:
        """Takes splits over, each with the position to start from: None for its beginning, else one that `snapshot` gave."""

    @abstractmethod
    def poll(self, limit: int) -> Sequence[SplitRecords]:
        """At most `limit` records, without waiting, of one split or of several; nothing when there is nothing now.

        Every split must have its turn. The last records of a split say that it is `finished`.
        """

    @abstractmethod
    def snapshot(self) -> Mapping[str, Any]:
        """The position of each split that is not finished, behind the last record given. Picklable; called often."""

    def notify_checkpoint_complete(self, positions: Mapping[str, Any]) -> None:
        """A checkpoint that holds these positions is complete: the time to tell another system how far it was read."""

    def next_due(self) -> float | None:
        """When (seconds since 1970) there will be records: at once (0) unless a reader knows better.

        None means that the reader cannot know: it is then polled every now and then while the job is idle.
        """
        return 0.0

    def align(self, room: Mapping[str, int]) -> None:
        """For sources that keep step with others: from now on only these splits may be read, and each should give no more
        than so many records at a time. Called only where a strategy asks for alignment, and then before each `poll`."""
        raise NotImplementedError(
            f"{type(self).__name__} does not define align(room), and takes no strategy with watermark alignment"
        )

    def close(self) -> None:
        """Called once at the end."""


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
        """As `SourceReader.next_due`, for this split."""
        return 0.0

    def close(self) -> None:
        """Called once at the end."""


class SplitSource:
    """What the engine needs from a source that is made of splits.

    A source defines `create_enumerator`, or simply `discover`; and `create_source_reader`, or simply `create_reader`, which
    reads one split.
    """

    bounded: bool = True
    """Whether the source ends."""

    discovery_interval: float | None = None
    """How often (seconds) splits are looked for; None for once only, which is all that there is of a bounded source."""

    discovery_timeout: float = 600.0
    """How long (seconds) a call of the enumerator may take before the job fails; meanwhile the job goes on."""

    replayable: bool = True
    """Whether a split can be read again from a position."""

    sequential: bool = False
    """Whether a subtask reads its splits one after the other; the watermark is then that of the split at hand."""

    def create_enumerator(self, parallelism: int) -> SplitEnumerator:
        """What finds the splits, for so many subtasks. Called on the driver; connecting is for the enumerator's `start`."""
        return _NamedSplits(self, parallelism)

    def create_source_reader(self, runtime_context: RuntimeContext) -> SourceReader:
        """What reads the splits of a subtask. Called in a slot."""
        return _SplitsInTurn(self)

    def discover(self, parallelism: int, known: frozenset[str]) -> Iterable[Split]:
        """The splits that are not among the known ones, which are all that were ever found. Called on the driver.

        The names of all splits are part of each checkpoint of a source that looks for new ones.
        """
        raise NotImplementedError(f"{type(self).__name__} defines neither create_enumerator nor discover")

    def create_reader(self, split: Split, position: Any) -> SplitReader:
        """A reader of a split, from the beginning where `position` is None. Called in a slot."""
        raise NotImplementedError(f"{type(self).__name__} defines neither create_source_reader nor create_reader")


class _NamedSplits(SplitEnumerator):
    """Asks a source for its splits, and remembers their names as long as it may have to ask again."""

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
    """Reads each split by a reader of its own."""

    def __init__(self, source: SplitSource) -> None:
        self._source = source
        self._line: deque[tuple[str, SplitReader]] = deque()
        """The next one to read comes first."""
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

    def next_due(self) -> float | None:
        dues = [reader.next_due() for split_id, reader in self._line if self._room is None or split_id in self._room]
        known = [due for due in dues if due is not None]
        # Who is polled for one split needs no time for the others.
        return min(known, default=None) if len(known) == len(dues) or 0.0 in known else None

    def close(self) -> None:
        for _, reader in self._line:
            reader.close()


class AlignedProgress(NamedTuple):
    """How far a source that keeps step with others has come in one subtask."""

    watermark: int | None
    """The least watermark of its splits; None while there is none to wait for."""
    waiting: int | None
    """The least watermark of the splits that wait for others; None if none does."""
