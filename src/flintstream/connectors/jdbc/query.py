"""The query of a JDBC source: its statement, and the conversion of its rows to records of the declared type."""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from flintstream.common.basic_typeinfo import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
)
from flintstream.common.time import Instant
from flintstream.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation
from flintstream.connectors.jdbc.databases import Database
from flintstream.connectors.jdbc.rows import fields_of
from flintstream.runtime.source import SourceError

_SHOWN_PARAMETERS = 500
_SECOND = datetime.timedelta(seconds=1)
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_Adapters = dict[type, Callable[[Any], Any]]


@dataclass(frozen=True)
class JdbcQuery:
    """What a JDBC source executes, and where."""

    sql: str
    """The query as given."""
    statement: str
    """The same for the driver."""
    placeholders: int
    type_info: TypeInformation
    database: Database
    fetch_size: int
    auto_commit: bool
    timeout: int
    """How long (seconds) the database may take to answer."""
    retry_seconds: float
    """For how long to reconnect after the connection was lost."""

    def error(self, parameters: Sequence[Any] | None, what: str) -> SourceError:
        """Returns an error that names the database, the query and its parameters."""
        told = f"{self.database}: {what}\nQuery: {self.sql}"
        if parameters:
            told += f"\nParameters: {repr(tuple(parameters))[:_SHOWN_PARAMETERS]}"
        return SourceError(told)


class RecordConverter:
    """Converts the rows of a query to records of the declared type."""

    def __init__(self, query: JdbcQuery) -> None:
        self._query = query
        self._type = query.type_info
        self._fields = fields_of(query.type_info)
        self._adapters = [(index, _adapters(kind)) for index, (_, kind) in enumerate(self._fields)]
        self._is_single = not isinstance(query.type_info, (RowTypeInfo, TupleTypeInfo))

    def check_columns(self, parameters: Sequence[Any], columns: Sequence[str]) -> None:
        """Raises an error if the query does not have a column for each field."""
        if len(columns) != len(self._fields):
            raise self._query.error(
                parameters,
                f"the query returns {len(columns)} columns ({', '.join(columns)}), but the type {self._type} has "
                f"{len(self._fields)} fields",
            )

    def records(self, rows: list[Any], parameters: Sequence[Any], columns: Sequence[str]) -> list[Any]:
        """Returns a record for each row."""
        if not rows:
            return []
        try:
            adapted = self._adapted(rows)
            return self._type.coerce([value for (value,) in adapted] if self._is_single else adapted)
        except (TypeError, ValueError, OverflowError) as error:
            raise self._blame(rows, parameters, columns, error) from error

    def _adapted(self, rows: list[Any]) -> list[Any]:
        """Converts the values that the declared types do not accept as the driver returns them."""
        columns: list[Any] | None = None
        for index, adapters in self._adapters:
            if adapters and not adapters.keys().isdisjoint({type(row[index]) for row in rows}):
                columns = columns or list(zip(*rows))
                columns[index] = [
                    adapters[type(each)](each) if type(each) in adapters else each for each in columns[index]
                ]
        return rows if columns is None else list(zip(*columns))

    def _blame(
        self, rows: list[Any], parameters: Sequence[Any], columns: Sequence[str], error: Exception
    ) -> SourceError:
        """Returns an error that names the column and the value."""
        for row in rows:
            for (index, adapters), (_, kind), column in zip(self._adapters, self._fields, columns):
                value = row[index]
                if value is None and isinstance(self._type, RowTypeInfo):
                    continue
                try:
                    kind.coerce([adapters[type(value)](value) if type(value) in adapters else value])
                except (TypeError, ValueError, OverflowError) as reason:
                    shown = repr(tuple(row))[:_SHOWN_PARAMETERS]
                    return self._query.error(parameters, f"column '{column}' of row {shown}: {reason}")
        return self._query.error(parameters, str(error))


def _adapters(kind: TypeInformation) -> _Adapters:
    """Returns converters to a declared type, by the class of the driver's value."""
    if isinstance(kind, BasicTypeInfo):
        return _BASIC.get(kind.basic_type, {})
    return _TIMES.get(type(kind), {})


def _instant(moment: datetime.datetime) -> Instant:
    """A moment without a zone is in UTC."""
    since = moment.replace(tzinfo=moment.tzinfo or datetime.timezone.utc) - _EPOCH
    return Instant(since // _SECOND, since % _SECOND // datetime.timedelta(microseconds=1) * 1000)


def _in_utc(moment: datetime.datetime) -> datetime.datetime:
    return moment if moment.tzinfo is None else moment.astimezone(datetime.timezone.utc).replace(tzinfo=None)


def _time_of_day(length: datetime.timedelta) -> datetime.time:
    """PyMySQL returns a time of day as the time since midnight."""
    if not datetime.timedelta(0) <= length < datetime.timedelta(days=1):
        raise ValueError(f"{length} is not a time of day")
    return (datetime.datetime.min + length).time()


def _parsed(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)


_BASIC: dict[BasicType, _Adapters] = {
    BasicType.STRING: {uuid.UUID: str, dict: json.dumps, list: json.dumps},
    BasicType.INSTANT: {datetime.datetime: _instant, str: lambda text: _instant(_parsed(text))},
}
_TIMES: dict[type[TypeInformation], _Adapters] = {
    DateTypeInfo: {str: datetime.date.fromisoformat},
    TimeTypeInfo: {str: datetime.time.fromisoformat, datetime.timedelta: _time_of_day},
    TimestampTypeInfo: {datetime.datetime: _in_utc, str: lambda text: _in_utc(_parsed(text))},
}
