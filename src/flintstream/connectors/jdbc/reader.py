"""The enumerator and the reader of a JDBC source: a split is the query with one set of parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flintstream.connectors.jdbc.fetcher import FetchedRecords, Fetcher
from flintstream.connectors.jdbc.parameters import JdbcParameterValuesProvider
from flintstream.connectors.jdbc.query import JdbcQuery
from flintstream.runtime.source import SourceReader, Split, SplitEnumerator, SplitRecords

_WAIT_SECONDS = 0.02
"""A fetch usually takes milliseconds. Waiting for it is cheaper than ending the epoch; the slot hardly notices."""


class JdbcEnumerator(SplitEnumerator):
    """Makes a split of each set of parameters; connects first, to report wrong credentials at the start of the job."""

    def __init__(self, query: JdbcQuery, provider: JdbcParameterValuesProvider | None) -> None:
        self._query = query
        self._provider = provider

    def discover(self) -> Iterable[Split]:
        query = self._query
        try:
            query.database.connect_to_read(query.auto_commit, query.timeout).close()
        except Exception as error:
            raise query.error(None, f"{type(error).__name__}: {str(error).strip()}") from error
        self.no_more_splits = True
        found = [()] if self._provider is None else [tuple(each) for each in self._provider.get_parameter_values()]
        for values in found:
            if len(values) != query.placeholders:
                raise query.error(
                    values, f"the query has {query.placeholders} placeholders, and {len(values)} values were provided"
                )
        return [Split(str(number), values) for number, values in enumerate(found)]


class JdbcReader(SourceReader):
    """Reads the splits of a subtask one after the other. A position is the number of rows read."""

    def __init__(self, query: JdbcQuery) -> None:
        self._fetcher = Fetcher(query)
        self._read: dict[str, int] = {}
        """The number of rows read of each split."""
        self._block: FetchedRecords | None = None
        """Fetched records of which some have been returned."""
        self._returned = 0
        self._room: Mapping[str, int] | None = None

    def add_splits(self, splits: Sequence[tuple[Split, Any]]) -> None:
        for split, position in splits:
            self._read[split.split_id] = position or 0
            self._fetcher.add(split.split_id, split.content, position or 0)

    def poll(self, limit: int) -> list[SplitRecords]:
        if self._block is None:
            self._block, self._returned = self._fetcher.take(_WAIT_SECONDS), 0
        if self._block is None:
            return []
        split_id, records, finished = self._block
        if self._room is not None:
            limit = min(limit, self._room.get(split_id, 0))
        end = min(self._returned + limit, len(records))
        values = records[self._returned : end]
        self._returned = end
        self._read[split_id] += len(values)
        if end < len(records):
            return [SplitRecords(split_id, values)]
        self._block = None
        if finished:
            del self._read[split_id]
        return [SplitRecords(split_id, values, finished=finished)]

    def snapshot(self) -> dict[str, int]:
        return dict(self._read)

    def next_due(self) -> float | None:
        return 0.0 if self._block is not None or self._fetcher.has_records else None

    def align(self, room: Mapping[str, int]) -> None:
        self._room = room

    def close(self) -> None:
        self._fetcher.close()
