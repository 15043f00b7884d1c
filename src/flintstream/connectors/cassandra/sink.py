"""The operator of a Cassandra sink: a block of records is written before the next one is taken."""

from __future__ import annotations

import re
from typing import Any

from flintstream.common.types import Row
from flintstream.connectors.cassandra.options import CassandraFailureHandler, ClusterBuilder, RequestOptions
from flintstream.connectors.cassandra.writer import CassandraError, CassandraWriter, RefusedRow
from flintstream.runtime.batch import Batch
from flintstream.runtime.captured import capture, unwrapped
from flintstream.runtime.faults import user_fault
from flintstream.runtime.operators.base import Operator

_CHANGES_EACH_TIME = re.compile(r"\b(now|uuid|current_?\w+)\s*\(", re.IGNORECASE)


class CassandraSinkOperator(Operator):
    """Writes the records of a block before it takes the next one: nothing waits at a checkpoint."""

    takes_declared_types = True

    def __init__(
        self, cluster: ClusterBuilder, query: str, options: RequestOptions, failure_handler: CassandraFailureHandler
    ) -> None:
        self._settings = cluster, query, options
        self._failure_handler = capture(failure_handler)
        self.exactly_once = is_idempotent(query)
        self.proviso = "in effect, if a replay computes the same: the query is an upsert"

    def open(self) -> None:
        self._failure_handler = unwrapped(self._failure_handler)
        try:
            self._writer = CassandraWriter(*self._settings)
        except Exception as error:
            raise user_fault(error, self.context.name, self.context.subtask) from error

    def process(self, batch: Batch) -> None:
        records, start = batch.values, 0
        rows = [row_of(record) for record in records]
        while start < len(rows):
            try:
                self._writer.write(rows[start:])
                return
            except CassandraError as error:
                raise user_fault(error, self.context.name, self.context.subtask) from error
            except RefusedRow as refused:
                start += refused.at
                self._handle(refused.error, records[start])
                start += 1

    def finish(self) -> None:
        """Does nothing: a sink has no output."""

    def close(self) -> None:
        writer = getattr(self, "_writer", None)
        if writer is not None:
            writer.close()

    def _handle(self, error: Exception, record: Any) -> None:
        try:
            self._failure_handler.on_failure(error)
        except Exception as failure:
            if failure is error:
                failure = CassandraError(
                    f"{self._settings[0]}: {type(error).__name__}: {error}\nQuery: {self._settings[1]}"
                )
            raise user_fault(failure, self.context.name, self.context.subtask, record) from error


def row_of(record: Any) -> tuple[Any, ...]:
    """Returns the values of a record; one value for what is neither a tuple nor a Row."""
    return tuple(record) if isinstance(record, (tuple, list, Row)) else (record,)


def is_idempotent(query: str) -> bool:
    """Returns whether executing a query again with the same values changes nothing."""
    return query.lstrip()[:6].upper() == "INSERT" and not _CHANGES_EACH_TIME.search(query)
