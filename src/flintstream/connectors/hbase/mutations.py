"""Mutations of rows, and a buffer that holds the net effect of many of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Generic

from flintstream.common.type_variables import IN

__all__ = ["Delete", "HBaseMutationConverter", "Mutation", "Put"]


class Mutation:
    """A change of one row: a `Put` or a `Delete`."""

    def __init__(self, row: str | bytes) -> None:
        self.row = _bytes(f"{type(self).__name__}: row", row)
        if not self.row:
            raise ValueError(f"{type(self).__name__}: row must not be empty")


class Put(Mutation):
    """Writes cells of a row. Names and values are bytes, or strings, which are encoded as UTF-8.

    Example::

        Put("ann", {"info:name": "Ann", "info:age": struct.pack(">i", 42)})
        Put("ann").add_column("info", "name", "Ann").add_column("info", "age", "42")
    """

    def __init__(self, row: str | bytes, cells: Mapping[str, str | bytes] | None = None) -> None:
        super().__init__(row)
        self.cells: dict[bytes, bytes] = {}
        for column, value in (cells or {}).items():
            family, _, qualifier = column.partition(":")
            self.add_column(family, qualifier, value)

    def add_column(self, family: str | bytes, qualifier: str | bytes, value: str | bytes) -> Put:
        """Adds a cell."""
        name = _column("Put", family, qualifier)
        self.cells[name] = _bytes(f"Put: the value of {name.decode(errors='replace')!r}", value)
        return self


class Delete(Mutation):
    """Deletes a row, or only the columns and families that are added; all versions of their cells.

    Example::

        Delete("ann")
        Delete("ann").add_columns("info", "age").add_family("orders")
    """

    def __init__(self, row: str | bytes) -> None:
        super().__init__(row)
        self.columns: set[bytes] = set()
        """Columns as `family:qualifier`, families as `family`; all families if there are none."""

    def add_columns(self, family: str | bytes, qualifier: str | bytes) -> Delete:
        """Adds a column, with all its versions."""
        self.columns.add(_column("Delete", family, qualifier))
        return self

    def add_family(self, family: str | bytes) -> Delete:
        """Adds all columns of a family."""
        self.columns.add(_family("Delete", family))
        return self


class HBaseMutationConverter(ABC, Generic[IN]):
    """Converts records to mutations; has the names of Flink's interface.

    Example::

        class Counts(HBaseMutationConverter):
            def convert_to_mutation(self, record):
                return Put(record[0], {"counts:n": str(record[1])})
    """

    def open(self) -> None:
        """Called once per subtask before the first record."""

    @abstractmethod
    def convert_to_mutation(self, record: IN) -> Mutation | None:
        """Returns the mutation of a record; None for no mutation."""


Converter = Callable[[Any], "Mutation | None"]


class MutationBuffer:
    """The net effect of mutations, by row.

    A Thrift server applies all puts of a request before all deletes, and a delete hides puts of the same millisecond. So
    a row's puts and deletes in the buffer never touch the same cells, and one that puts after a delete must be flushed in
    between.
    """

    def __init__(self, families: frozenset[bytes]) -> None:
        self._families = families
        self.puts: dict[bytes, dict[bytes, bytes]] = {}
        self.deletes: dict[bytes, set[bytes]] = {}
        self.mutations = 0
        self.bytes = 0

    def must_flush_before(self, mutation: Mutation) -> bool:
        """Returns whether a mutation puts cells into a row that has a delete in the buffer."""
        return isinstance(mutation, Put) and mutation.row in self.deletes

    def add(self, mutation: Mutation) -> None:
        """Adds a mutation; raises ValueError if the table does not have its column families."""
        self._check_families(mutation)
        self.mutations += 1
        self.bytes += len(mutation.row)
        if isinstance(mutation, Put):
            self.puts.setdefault(mutation.row, {}).update(mutation.cells)
            self.bytes += sum([len(column) + len(value) for column, value in mutation.cells.items()])
        elif isinstance(mutation, Delete):
            columns = mutation.columns or self._families
            self._drop_puts(mutation.row, columns)
            self.deletes.setdefault(mutation.row, set()).update(columns)
            self.bytes += sum(map(len, columns))

    def _drop_puts(self, row: bytes, columns: set[bytes] | frozenset[bytes]) -> None:
        cells = self.puts.pop(row, {})
        kept = {
            column: value
            for column, value in cells.items()
            if column not in columns and column.partition(b":")[0] not in columns
        }
        if kept:
            self.puts[row] = kept

    def _check_families(self, mutation: Mutation) -> None:
        if isinstance(mutation, Put):
            columns: Any = mutation.cells
            if not columns:
                raise ValueError("Put: no cells are given: call add_column")
        else:
            columns = mutation.columns  # type: ignore[attr-defined]
        for column in columns:
            family = column.partition(b":")[0]
            if family not in self._families:
                known = ", ".join(sorted(name.decode(errors="replace") for name in self._families))
                raise ValueError(
                    f"{type(mutation).__name__}: the table has no column family {family.decode(errors='replace')!r}; "
                    f"it has {known}"
                )


def _column(owner: str, family: str | bytes, qualifier: str | bytes) -> bytes:
    return _family(owner, family) + b":" + _bytes(f"{owner}: qualifier", qualifier)


def _family(owner: str, family: str | bytes) -> bytes:
    name = _bytes(f"{owner}: family", family)
    if not name or b":" in name:
        raise ValueError(f"{owner}: family must be the name of a column family, got {family!r}")
    return name


def _bytes(what: str, value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"{what} must be bytes or a string, got {value!r}")
