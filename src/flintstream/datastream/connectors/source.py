"""PythonSource: base class of user-defined sources with splits."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from flintstream.common.type_variables import T_co
from flintstream.common.typeinfo import TypeInformation
from flintstream.datastream.connectors.base import SplitBasedSource
from flintstream.runtime.batch import NO_TIMESTAMP, Batch
from flintstream.runtime.detach import detached
from flintstream.runtime.source import SourceError, Split, SplitReader

__all__ = ["PythonSource"]

_TURN_SECONDS = 0.25
"""How long a split may be read before others get their turn."""


class PythonSource(SplitBasedSource[T_co]):
    """A user-defined source: lists its splits and reads one of them.

        class Tables(PythonSource):
            def splits(self, parallelism):
                return ["orders", "customers"]

            def read(self, split, position):
                with connect("shop.db") as database:
                    start = position or 0
                    query = f"SELECT id, name FROM {split} WHERE id > ? ORDER BY id"
                    for number, name in database.execute(query, (start,)):
                        yield number, name

        env.from_source(Tables(), WatermarkStrategy.no_watermarks(), "tables")

    A split is any picklable object; it is read by one subtask, in order. A position is any picklable object from which
    `read` can resume after a record, such as an offset or the last id. After a failure, `read` is called with the
    position in the last checkpoint, and must yield the same records after it as before.

    An unbounded source sets `bounded = False`, and its `read` yields None when no record is available::

        class Queue(PythonSource):
            bounded = False

            def splits(self, parallelism):
                return range(4)

            def read(self, split, position):
                offset = position or 0
                while True:
                    messages = fetch(partition=split, offset=offset)
                    if not messages:
                        yield None
                    for message in messages:
                        offset += 1
                        yield offset, message

    To find new splits while the job runs, set `discovery_interval` (seconds): `splits` is then called again
    and again, on a thread of its own. A split is known by its name, and read once: the names of all splits that were
    ever found are part of each checkpoint. A source with very many is a
    :class:`~flintstream.datastream.connectors.base.SplitBasedSource` with an enumerator of its own.
    """

    type_info: TypeInformation | None = None
    """The type of the records, to check and convert them."""

    @abstractmethod
    def splits(self, parallelism: int) -> Iterable[Any]:
        """Returns all splits that exist now, including known ones. Called on the driver.

        :param parallelism: the number of subtasks that read them; with fewer splits, some subtasks have no work.
        """

    @abstractmethod
    def read(self, split: Any, position: Any) -> Iterator[tuple[Any, T_co] | tuple[Any, T_co, int] | None]:
        """Yields `(next_position, record)`, or `(next_position, record, timestamp)`, or None if no record is available.

        `position` is None for a split that is read from its beginning, else a `next_position` yielded before. A split
        ends when the iterator ends. Called in a slot; it must not block for data, since the slot has other splits to
        read: yield None instead.
        """

    def split_id(self, split: Any) -> str:
        """Returns the unique, stable id of a split: its attribute `split_id`, or else `str(split)`."""
        return str(getattr(split, "split_id", split))

    @property
    def produced_type(self) -> TypeInformation | None:
        return self.type_info

    # --- what the engine calls
    # ---------------------------------------------------------------------------------------

    def discover(self, parallelism: int, known: frozenset[str]) -> Iterable[Split]:
        try:
            found = [Split(self.split_id(split), split) for split in self.splits(parallelism)]
        except Exception as error:
            raise SourceError(f"{type(self).__name__}.splits({parallelism}) failed: {error!r}") from error
        seen: set[str] = set()
        for split in found:
            if split.split_id in seen:
                raise SourceError(
                    f"{type(self).__name__}.splits({parallelism}) returned two splits {split.split_id!r}: set a "
                    "unique attribute split_id on each, or override split_id(split)"
                )
            seen.add(split.split_id)
        return [split for split in found if split.split_id not in known]

    def create_reader(self, split: Split, position: Any) -> SplitReader:
        return _IteratorReader(self, split, position)


class _IteratorReader(SplitReader):
    """Reads the tuples that the user's `read` yields."""

    def __init__(self, source: PythonSource, split: Split, position: Any) -> None:
        self._source = source
        self._split = split
        self._position = position
        self._iterator: Iterator[Any] | None = None
        self._nothing_now = False

    @property
    def position(self) -> Any:
        return self._position

    def read(self, limit: int) -> Batch:
        values: list[Any] = []
        timestamps: list[int] = []
        if not self.finished:
            try:
                self._fill(values, timestamps, limit)
                if self._source.type_info is not None:
                    values = self._source.type_info.coerce(values)
            except SourceError:
                raise
            except Exception as error:
                raise self._error(f"failed: {error!r}") from error
        timed = any(timestamp != NO_TIMESTAMP for timestamp in timestamps)
        return Batch(values, timestamps if timed else None)

    def next_due(self) -> float | None:
        return None if self._nothing_now and not self.finished else 0.0

    def close(self) -> None:
        closer = getattr(self._iterator, "close", None)
        if closer is not None:
            closer()

    def _fill(self, values: list[Any], timestamps: list[int], limit: int) -> None:
        if self._iterator is None:
            self._iterator = iter(self._source.read(self._split.content, self._position))
        turn_ends = time.monotonic() + _TURN_SECONDS
        self._nothing_now = False
        while len(values) < limit and time.monotonic() < turn_ends:
            try:
                item = next(self._iterator)
            except StopIteration:
                self.finished = True
                return
            if item is None:
                self._nothing_now = True
                return
            if type(item) is not tuple or not 2 <= len(item) <= 3:
                raise self._error(
                    f"yielded {item!r}: expected (next_position, record), (next_position, record, timestamp) or None"
                )
            timestamps.append(NO_TIMESTAMP if len(item) == 2 else int(item[2]))
            values.append(detached(item[1]))
            self._position = item[0]

    def _error(self, what: str) -> SourceError:
        name = type(self._source).__name__
        return SourceError(f"{name}.read of split {self._split.split_id!r}, after position {self._position!r}, {what}")
