"""Fetcher: executes the query of a JDBC source on a thread of its own, so that the slot never waits for the database."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from flintstream.connectors.backoff import Backoff
from flintstream.connectors.jdbc.query import JdbcQuery, RecordConverter
from flintstream.runtime.source import SourceError

_LOG = logging.getLogger(__name__)
_BLOCKS_AHEAD = 2
_CLOSE_SECONDS = 5.0
_STEP_SECONDS = 0.5
_Result = TypeVar("_Result")


class FetchedRecords(NamedTuple):
    """Records of a split, in the order of the query."""

    split_id: str
    records: list[Any]
    finished: bool
    """Whether the split ends with them."""


class _Portion(NamedTuple):
    """A split to read."""

    split_id: str
    parameters: Sequence[Any]
    skip: int
    """The number of rows that were read before."""


class _Closed(Exception):
    """The fetcher was closed."""


class Fetcher:
    """Reads splits one after the other, a few blocks ahead, by one connection.

    A lost connection is made again: the query is executed anew, and the rows that were read before are skipped.
    """

    def __init__(self, query: JdbcQuery) -> None:
        self._query = query
        self._converter = RecordConverter(query)
        self._portions: queue.SimpleQueue[_Portion | None] = queue.SimpleQueue()
        self._blocks: queue.Queue[FetchedRecords] = queue.Queue(_BLOCKS_AHEAD)
        self._connection: Any = None
        self._cursor: Any = None
        self._error: Exception | None = None
        self._call: tuple[float, Sequence[Any]] | None = None
        """Since when the database has not answered, and the parameters of the query."""
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    # --- the slot's thread ---

    def add(self, split_id: str, parameters: Sequence[Any], skip: int) -> None:
        """Adds a split, whose first rows are skipped."""
        self._portions.put(_Portion(split_id, parameters, skip))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="JDBC fetcher", daemon=True)
            self._thread.start()

    @property
    def has_records(self) -> bool:
        """Returns whether `take` has something to return or to raise."""
        return not self._blocks.empty() or self._error is not None

    def take(self, wait: float) -> FetchedRecords | None:
        """Returns the next records; None if there are none within `wait` seconds."""
        try:
            return self._blocks.get(timeout=0.0 if self._error is not None else wait)
        except queue.Empty:
            pass
        if self._error is not None and self._blocks.empty():
            raise self._error
        call = self._call
        if call is not None and time.monotonic() - call[0] > self._query.timeout:
            raise self._query.error(
                call[1], f"no answer within {self._query.timeout} s (JdbcSourceBuilder.set_query_timeout)"
            )
        return None

    def close(self) -> None:
        """Ends the thread, and what it executes."""
        self._closed.set()
        if self._thread is None:
            return
        self._portions.put(None)
        self._thread.join(_STEP_SECONDS)
        connection = self._connection
        if self._thread.is_alive() and connection is not None:
            try:
                self._query.database.interrupt(connection)
            except Exception as error:
                _LOG.warning("%s: the query could not be interrupted: %s", self._query.database, error)
            self._thread.join(_CLOSE_SECONDS)
        if self._thread.is_alive():
            _LOG.warning("%s: a query still runs, and is left behind", self._query.database)

    # --- the fetcher's own thread ---

    def _run(self) -> None:
        try:
            while (portion := self._portions.get()) is not None:
                self._read(portion)
        except _Closed:
            return
        except Exception as error:
            self._error = error
        finally:
            self._disconnect()

    def _read(self, portion: _Portion) -> None:
        done = portion.skip
        backoff: Backoff | None = None
        while True:
            try:
                for block in self._blocks_of(portion, done):
                    self._put(block)
                    done += len(block.records)
                    backoff = None
                return
            except (_Closed, SourceError):
                raise
            except Exception as error:
                self._check_open()
                self._disconnect()
                backoff = backoff or Backoff(self._query.retry_seconds)
                told = f"{type(error).__name__}: {str(error).strip()}"
                if not self._query.database.is_temporary(error) or not backoff.wait():
                    raise self._query.error(portion.parameters, told) from error
                _LOG.warning("%s: reading continues with a new connection, after %s", self._query.database, told)

    def _blocks_of(self, portion: _Portion, skip: int) -> Iterator[FetchedRecords]:
        query, parameters = self._query, portion.parameters
        if self._connection is None:
            connect = query.database.connect_to_read
            self._connection = self._called(parameters, lambda: connect(query.auto_commit, query.timeout))
        cursor = self._cursor = query.database.open_cursor(self._connection)
        values = query.database.adapted(parameters)
        self._called(parameters, lambda: cursor.execute(query.statement, values))
        columns = [str(column[0]) for column in cursor.description or ()]
        self._converter.check_columns(parameters, columns)
        self._skip(cursor, parameters, skip)
        while True:
            rows = self._called(parameters, lambda: cursor.fetchmany(query.fetch_size))
            finished = len(rows) < query.fetch_size
            if finished:
                self._called(parameters, cursor.close)
                if not query.auto_commit:
                    self._called(parameters, self._connection.rollback)
            records = self._converter.records(list(rows), parameters, columns)
            yield FetchedRecords(portion.split_id, records, finished)
            if finished:
                return

    def _skip(self, cursor: Any, parameters: Sequence[Any], count: int) -> None:
        if count and "order by" not in " ".join(self._query.sql.lower().split()):
            _LOG.warning(
                "%s: a query without ORDER BY is executed again, and its first %d rows are skipped: if the database returns "
                "them in another order, rows are lost and others doubled. Query: %s",
                *(self._query.database, count, self._query.sql),
            )
        left = count
        while left > 0:
            most = min(left, self._query.fetch_size)
            found = len(self._called(parameters, lambda most=most: cursor.fetchmany(most)))  # type: ignore[misc]
            left -= found
            if found < most:
                raise self._query.error(
                    parameters,
                    f"{count} rows were read before, and now the query returns only {count - left}: the data has changed, "
                    "and where to read on is unknown",
                )

    def _called(self, parameters: Sequence[Any], call: Callable[[], _Result]) -> _Result:
        self._check_open()
        self._call = (time.monotonic(), parameters)
        try:
            return call()
        finally:
            self._call = None

    def _put(self, block: FetchedRecords) -> None:
        while True:
            self._check_open()
            try:
                self._blocks.put(block, timeout=_STEP_SECONDS)
                return
            except queue.Full:
                continue

    def _check_open(self) -> None:
        if self._closed.is_set():
            raise _Closed

    def _disconnect(self) -> None:
        """Closes the connection first: a cursor of MySQL that is closed before would read all the rows that are left."""
        opened = (self._connection, self._cursor)
        self._connection = self._cursor = None
        for each in opened:
            try:
                if each is not None:
                    each.close()
            except Exception:  # The connection is lost.
                continue
