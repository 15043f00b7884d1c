"""Row: a record with positions and optional names, and its kind of change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any

__all__ = ["Row", "RowKind"]

_new = object.__new__


class RowKind(Enum):
    """The kind of change of a row in a changelog.

    Example::

        >>> str(RowKind.UPDATE_AFTER)
        '+U'
    """

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    def __str__(self) -> str:
        return _SHORT[self.value]


_SHORT = ("+I", "-U", "+U", "-D")
_INSERT = RowKind.INSERT
_SLOTS = frozenset(("_fields", "_row_kind", "_values"))


class Row:
    """A record whose fields are accessed by position and, if it has names, by name.

    Rows are equal when their values, their field names and their kinds are equal. A row is hashable when all
    its values are. Field values may be replaced (``row[0] = 5``); fields cannot be added.

    Example::

        >>> row = Row(name="Alice", age=11)
        >>> row.name, row["age"], row[1], len(row)
        ('Alice', 11, 11, 2)
        >>> Person = Row("name", "age")  # a row of names makes rows with these names
        >>> Person("Bob", 12)
        Row(name='Bob', age=12)
    """

    __slots__ = ("_fields", "_row_kind", "_values")

    _fields: tuple[str, ...] | None
    _row_kind: RowKind
    _values: list[Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if kwargs:
            if args:
                raise ValueError("A Row is created either from values or from named values, not from both.")
            self._fields = tuple(kwargs)
            self._values = list(kwargs.values())
        else:
            self._fields = None
            self._values = list(args)
        self._row_kind = _INSERT

    @staticmethod
    def of_kind(row_kind: RowKind, *args: Any, **kwargs: Any) -> Row:
        """Returns a row of the given kind: ``Row.of_kind(RowKind.DELETE, 1, "a")``."""
        row = Row(*args, **kwargs)
        row._row_kind = row_kind
        return row

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:
        """Returns the fields as a dict by name; with ``recursive``, rows inside values (and lists, dicts) become dicts
        too.

        Example::

            >>> Row(id=1, tag=Row(name="a")).as_dict(recursive=True)
            {'id': 1, 'tag': {'name': 'a'}}
        """
        if self._fields is None:
            raise TypeError(f"{self!r} has no field names, so it cannot become a dict.")
        if not recursive:
            return dict(zip(self._fields, self._values, strict=False))
        return {name: _plain(value) for name, value in zip(self._fields, self._values, strict=False)}

    def get_row_kind(self) -> RowKind:
        """Returns the kind of change; :attr:`RowKind.INSERT` by default."""
        return self._row_kind

    def set_row_kind(self, row_kind: RowKind) -> None:
        """Sets the kind of change."""
        self._row_kind = row_kind

    def set_field_names(self, field_names: Iterable[str]) -> None:
        """Sets the names of the fields, in order: ``row.set_field_names(["id", "name"])``."""
        names = tuple(field_names)
        if len(names) != len(self._values):
            raise ValueError(f"{len(names)} names {list(names)} for the {len(self._values)} fields of {self!r}.")
        self._fields = names

    def get_fields_by_names(self, names: Iterable[str]) -> list[Any]:
        """Returns the values of the named fields; all values, in order, if this row has no names."""
        fields = self._fields
        if fields is None:
            return list(self._values)
        wanted = list(names)
        missing = [name for name in wanted if name not in fields]
        if missing:
            raise ValueError(f"Row has no field {', '.join(map(repr, missing))}; it has {list(fields)}.")
        return [self._values[fields.index(name)] for name in wanted]

    def __call__(self, *args: Any) -> Row:
        if len(args) > len(self._values):
            raise ValueError(f"{len(args)} values for a Row of the names {self._values}.")
        return make_row(list(args), tuple(map(str, self._values[: len(args)])))

    def __getitem__(self, item: Any) -> Any:
        if type(item) is str:
            return self._values[self._index(item, KeyError)]
        return self._values[item]

    def __setitem__(self, key: Any, value: Any) -> None:
        if type(key) is str:
            key = self._index(key, KeyError)
        self._values[key] = value

    def __getattr__(self, name: str) -> Any:
        # Called only for names that are not methods, and for a slot that is not set yet: must not recurse.
        if name in _SLOTS:
            raise AttributeError(name)
        try:
            return self._values[self._fields.index(name)]  # type: ignore[union-attr]
        except (AttributeError, ValueError):
            return self._index(name, AttributeError)  # raises a descriptive error

    def _index(self, name: str, error: type[Exception]) -> int:
        fields = self._fields
        if fields is None:
            raise error(f"Row has no field {name!r}: its fields have no names.")
        try:
            return fields.index(name)
        except ValueError:
            raise error(f"Row has no field {name!r}; it has {list(fields)}.") from None

    def __contains__(self, item: Any) -> bool:
        return item in (self._values if self._fields is None else self._fields)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row):
            return NotImplemented
        return self._values == other._values and self._fields == other._fields and self._row_kind is other._row_kind

    def __hash__(self) -> int:
        return hash(tuple(self._values))

    def __repr__(self) -> str:
        if self._fields is None:
            return f"<Row({', '.join(map(repr, self._values))})>"
        return f"Row({', '.join(f'{n}={v!r}' for n, v in zip(self._fields, self._values, strict=False))})"

    def __reduce_ex__(self, protocol: Any) -> str | tuple[Any, ...]:
        if type(self) is not Row:  # The class and its own attributes are kept.
            return super().__reduce_ex__(max(2, protocol))
        if self._row_kind is _INSERT:
            return make_row, (self._values, self._fields)
        return make_row, (self._values, self._fields, self._row_kind.value)


def make_row(values: list[Any], fields: tuple[str, ...] | None = None, kind: int | RowKind = _INSERT) -> Row:
    """Creates a Row around this list of values without copying it: for the engine and pickle, cheaper than
    ``Row(...)``.
    """
    row = _new(Row)
    row._values = values
    row._fields = fields
    row._row_kind = kind if kind.__class__ is RowKind else RowKind(kind)
    return row


def make_rows(blocks: Iterable[Iterable[Any]], fields: tuple[str, ...] | None) -> list[Row]:
    """Creates a Row with these field names for each sequence of values."""
    rows = []
    for values in blocks:
        row = _new(Row)
        row._values = list(values)
        row._fields = fields
        row._row_kind = _INSERT
        rows.append(row)
    return rows


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        return value.as_dict(True) if value._fields is not None else value
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(_plain(item) for item in value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value
