"""Reads states of savepoints for `flint state`: their keys counted, or their rows, in this process and without Spark."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from flintstream.cli.checkpoint_report import state_sizes
from flintstream.common.typeinfo import MapTypeInfo, Types
from flintstream.runtime.checkpoint.snapshot import StoredOperatorState
from flintstream.runtime.state.backend import ENGINE
from flintstream.runtime.state.operator_state import BROADCAST
from flintstream.state_processor.columns import Columns
from flintstream.state_processor.readings import CountReading, EntryReading, OperatorStateReading, Reading
from flintstream.state_processor.savepoint import KIND_NAMES, StateNotFoundError, StoredOperator, declared_type
from flintstream.state_processor.shares import Share, keyed_shares, operator_shares

__all__ = ["StateSummary", "StoredRows", "states_of"]

UNTYPED = "any"
"""How the type of a state is shown that was declared without one."""


@dataclass(frozen=True)
class StateSummary:
    """A state of an operator."""

    name: str
    kind: str
    type: str
    count: int | None
    """The number of keys or, of operator state, of elements; None if it cannot be read here."""
    size: int | None
    """The size of its entries in bytes; None if it cannot be separated from other states."""
    problem: str | None = None


def states_of(operator: StoredOperator) -> list[StateSummary]:
    """Returns the states of an operator, each counted."""
    sizes = state_sizes(operator.operator_id, operator.state, operator.savepoint.storage)
    found = []
    keyed = operator.keyed_states()
    counts, problem = _keys_of(operator) if keyed else ({}, None)
    for name, stored in keyed.items():
        shown = UNTYPED if stored.kind == ENGINE else _shown(stored.serializer)
        count = None if problem is not None else counts.get(name, 0)
        found.append(StateSummary(name, f"keyed {stored.kind}", shown, count, sizes.get(name), problem))
    others: dict[str, tuple[int, StoredOperatorState]] = {}
    for subtask in sorted(operator.state.subtasks):
        for name, state in operator.operator_states(subtask).items():
            others.setdefault(name, (subtask, state))
    for name, (subtask, state) in others.items():
        is_map = state.mode == BROADCAST
        # A broadcast state is the same in all subtasks that have it.
        shares = [share for share in operator_shares(operator) if not is_map or subtask in share.operator.subtasks]
        count, problem = _counted(shares, OperatorStateReading(name, is_map))
        kind, shown = KIND_NAMES[state.mode], _shown(state.serializer)
        found.append(StateSummary(name, kind, shown, count, sizes.get(name), problem))
    return found


def _shown(serializer: dict[str, Any]) -> str:
    found = declared_type(serializer)
    return UNTYPED if found is None else str(found)


def _keys_of(operator: StoredOperator) -> tuple[dict[str, int], str | None]:
    """Returns the number of keys of each keyed state; or why they cannot be read."""
    counts: dict[str, int] = {}
    try:
        for share in keyed_shares(operator):
            for pairs in CountReading().chunks(share):
                for name, count in pairs:
                    counts[name] = counts.get(name, 0) + count
    except (AttributeError, ImportError) as error:
        return {}, str(error)
    return counts, None


def _counted(shares: list[Share], reading: Reading) -> tuple[int | None, str | None]:
    try:
        return sum(len(values) for share in shares for values in reading.chunks(share)), None
    except (AttributeError, ImportError) as error:
        # Of classes that are not here. Anything else is a damaged checkpoint, and reported as such.
        return None, str(error)


class StoredRows:
    """The rows of a state, at most `limit` of them: of keyed and broadcast state `key` and `value`, of a list `value`."""

    def __init__(self, operator: StoredOperator, name: str, limit: int | None = None) -> None:
        self.operator = operator
        self.name = name
        self.limit = limit
        self._shares: list[Share]
        self._reading: Reading
        keyed = operator.keyed_states()
        if name in keyed:
            self.names: tuple[str, ...] = ("key", "value")
            self._shares, self._reading = keyed_shares(operator), EntryReading(name)
            stored = None if keyed[name].kind == ENGINE else declared_type(keyed[name].serializer)
            self._types: tuple[Any, ...] = (None, stored)
            return
        for subtask in sorted(operator.state.subtasks):
            state = operator.operator_states(subtask).get(name)
            if state is not None:
                break
        else:
            known = ", ".join(f"'{each.name}'" for each in states_of(operator)) or "none"
            raise StateNotFoundError(f"{operator.place} has no state '{name}'; it has {known}")
        is_map = state.mode == BROADCAST
        declared = declared_type(state.serializer)
        shares = operator_shares(operator)
        if is_map:  # The same in all subtasks that have it.
            shares = [share for share in shares if subtask in share.operator.subtasks]
        self._shares, self._reading = shares, OperatorStateReading(name, is_map)
        self.names = ("key", "value") if is_map else ("value",)
        if is_map:
            pair = isinstance(declared, MapTypeInfo)
            self._types = (declared.key_type, declared.value_type) if pair else (None, None)  # type: ignore[union-attr]
        else:
            self._types = (declared,)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for values in self._chunks():
            yield from values

    def _chunks(self) -> Iterator[list[tuple[Any, ...]]]:
        left = sys.maxsize if self.limit is None else self.limit
        for share in self._shares:
            for values in self._reading.chunks(share):
                yield values[:left] if len(self.names) == 2 else [(value,) for value in values[:left]]
                left -= len(values)
                if left <= 0:
                    return

    def write_csv(self, file: IO[str]) -> int:
        """Writes the rows as CSV with a header; returns their number."""
        count = 0
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(self.names)
        for values in self._chunks():
            writer.writerows(values)
            count += len(values)
        file.flush()
        return count

    def write_parquet(self, path: str) -> int:
        """Writes the rows to a Parquet file; returns their number. Columns without a declared type have one that holds
        all their values or, if there is none, their text.
        """
        columns = [self._column(index) for index in range(len(self.names))]
        schema = pa.schema([(name, kind) for name, (kind, _) in zip(self.names, columns)])
        count = 0
        with pq.ParquetWriter(path, schema) as writer:
            for values in self._chunks():
                arrays = [array([row[index] for row in values]) for index, (_, array) in enumerate(columns)]
                writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
                count += len(values)
        return count

    def _column(self, index: int) -> tuple[Any, Callable[[list[Any]], Any]]:
        """Returns the Arrow type of a column, and a function from values to arrays."""
        declared = self._types[index]
        if declared is not None:
            # A pair, so that a value of several fields stays one column.
            columns = Columns.of(Types.TUPLE([declared]), f"{self.operator.place}: state '{self.name}'")
            batch = columns.batches(columns.schema())
            return columns.schema().field(0).type, lambda values: batch([(value,) for value in values]).column(0)
        found: Any = pa.null()
        for values in self._chunks():
            try:
                found = pa.unify_schemas(
                    [pa.schema([("", found)]), pa.schema([("", pa.array([row[index] for row in values]).type)])],
                    promote_options="permissive",
                )[0].type
            except (pa.ArrowException, TypeError, OverflowError):
                return pa.string(), lambda values: pa.array([None if value is None else str(value) for value in values])
        if found == pa.null():
            found = pa.string()
        return found, lambda values: pa.array(values, found)
