"""Compatibility of a stored type with the type declared now.

==========================================  =======================================================================
what changed                                values of old state
==========================================  =======================================================================
nothing                                     as is
a number's type, to one that holds every    after migration: ``INT`` to ``LONG``, ``FLOAT`` to ``DOUBLE``, ``CHAR`` to
value of the old one                        ``STRING`` and the like
fields of a row, by name                    after migration: new fields are None, those gone are dropped, the order may
                                            change; incompatible if no field is left, since nothing would be
fields of a tuple, by position              after migration: fields are added and dropped at the end
the elements of a list or array, the keys   as these; keys that might become equal are incompatible
or values of a map
a declared type to pickled objects          after migration: any value can be pickled
pickled objects to a declared type          after migration, in which each value is checked: one that the type cannot
                                            hold unchanged is refused. What was pickled, only the values can tell
a serialiser of the user's own              as its own snapshot says
anything else                               incompatible
==========================================  =======================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from typing import IO, Any

from .basic_typeinfo import BasicTypeInfo, DateTypeInfo, TimestampTypeInfo, TimeTypeInfo, TypeInformation
from .serializer import TypeSerializer
from .serializer_snapshot import SchemaCompatibility, TypeSerializerSnapshot
from .serializers import PickledSerializer, TypedSerializer
from .typeinfo import (
    BasicArrayTypeInfo,
    ListTypeInfo,
    LocalTimeTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    Types,
)
from .types import Row, make_rows

__all__ = ["StoredType", "kind_and_type", "resolve"]

_Convert = Callable[[list[Any]], list[Any]]


class StoredType(TypeInformation):
    """A placeholder, inside a stored type, for a type with a user-defined serialiser."""

    def __init__(self, snapshot: TypeSerializerSnapshot) -> None:
        self.snapshot = snapshot

    def create_serializer(self) -> TypeSerializer[Any]:
        return _StoredSerializer(self.snapshot)

    def _identity(self) -> tuple[Any, ...]:
        return (self.snapshot,)

    def __repr__(self) -> str:
        return f"StoredType({self.snapshot})"


class _StoredSerializer(TypeSerializer[Any]):
    """Restored on first use, so that types can be compared even if the class of a serialiser no longer exists."""

    def __init__(self, snapshot: TypeSerializerSnapshot) -> None:
        self._snapshot = snapshot

    @cached_property
    def _serializer(self) -> TypeSerializer[Any]:
        return self._snapshot.restore_serializer()

    def serialize(self, element: Any, stream: IO[bytes]) -> None:
        self._serializer.serialize(element, stream)

    def deserialize(self, stream: IO[bytes]) -> Any:
        return self._serializer.deserialize(stream)

    def snapshot_configuration(self) -> TypeSerializerSnapshot:
        return self._snapshot


_KINDS: list[tuple[type[TypeInformation], str]] = [
    (DateTypeInfo, "SQL_DATE"),
    (TimeTypeInfo, "SQL_TIME"),
    (TimestampTypeInfo, "SQL_TIMESTAMP"),
    (ListTypeInfo, "LIST"),
    (BasicArrayTypeInfo, "BASIC_ARRAY"),
    (ObjectArrayTypeInfo, "OBJECT_ARRAY"),
    (PrimitiveArrayTypeInfo, "PRIMITIVE_ARRAY"),
    (MapTypeInfo, "MAP"),
    (TupleTypeInfo, "TUPLE"),
    (RowTypeInfo, "ROW"),
]


def kind_and_type(type_info: TypeInformation) -> tuple[str, Any]:
    """Returns the kind of a type, which determines how values are written, and the type itself.

    Types with a user-defined serialiser are ``"USER"``; pickled ones are ``"PICKLED_BYTE_ARRAY"``.
    """
    serializer = type_info.create_serializer()
    if not isinstance(serializer, TypedSerializer):
        return "USER", type_info
    written = serializer.type_info
    if isinstance(serializer, PickledSerializer):
        return "PICKLED_BYTE_ARRAY", written
    if isinstance(written, BasicTypeInfo):
        return written.basic_type.name, written
    if isinstance(written, LocalTimeTypeInfo):
        return written._time_type.name, written
    if isinstance(written, PrimitiveArrayTypeInfo) and written.elem_type == Types.BYTE():
        return "BYTES", written
    return next(name for kind, name in _KINDS if isinstance(written, kind)), written


def resolve(old: TypeInformation, new: TypeInformation) -> SchemaCompatibility:
    """Returns whether and how values of the old type fit the new one."""
    (old_kind, old), (new_kind, new) = kind_and_type(old), kind_and_type(new)
    if old_kind == "USER":
        snapshot = old.create_serializer().snapshot_configuration()
        return snapshot.resolve_schema_compatibility(new.create_serializer())
    if old_kind == new_kind:
        same = _SAME_KIND.get(old_kind)
        return SchemaCompatibility.compatible_as_is() if same is None else same(old, new)
    became = f"{old} became {new}"
    if new_kind == "PICKLED_BYTE_ARRAY":
        return SchemaCompatibility.compatible_after_migration(became)
    if old_kind == "PICKLED_BYTE_ARRAY" and new_kind != "USER":
        return SchemaCompatibility.compatible_after_migration(became, _Checked(new))
    if (old_kind, new_kind) in _WIDER:
        return SchemaCompatibility.compatible_after_migration(became, _WIDER[old_kind, new_kind])
    return SchemaCompatibility.incompatible(became)


def _floats(values: list[Any]) -> list[Any]:
    return list(map(float, values))


def _decimals(values: list[Any]) -> list[Any]:
    return list(map(Decimal, values))


# Only lossless conversions: an INT as a FLOAT, or a LONG as a DOUBLE, would lose digits.
_INTS = ["BYTE", "SHORT", "INT", "LONG", "BIG_INT"]
_WIDER: dict[tuple[str, str], _Convert | None] = {
    **{(small, large): None for i, small in enumerate(_INTS) for large in _INTS[i + 1 :]},
    **{(kind, "BIG_DEC"): _decimals for kind in _INTS},
    **{(kind, "DOUBLE"): _floats for kind in ("BYTE", "SHORT", "INT")},
    **{(kind, "FLOAT"): _floats for kind in ("BYTE", "SHORT")},
    ("FLOAT", "DOUBLE"): None,
    ("CHAR", "STRING"): None,
    ("SQL_DATE", "LOCAL_DATE"): None,
    ("LOCAL_DATE", "SQL_DATE"): None,
    ("SQL_TIME", "LOCAL_TIME"): None,
    ("SQL_TIMESTAMP", "LOCAL_DATE_TIME"): None,
}


def _combined(
    old: TypeInformation,
    new: TypeInformation,
    parts: Sequence[SchemaCompatibility],
    notes: list[str],
    convert: _Convert,
) -> SchemaCompatibility:
    """Combines the answers for the parts of a type; the notes list all differences."""
    if not notes:
        return SchemaCompatibility.compatible_as_is()
    text = f"{old} became {new}: {'; '.join(notes)}"
    if any(part.is_incompatible() for part in parts):
        return SchemaCompatibility.incompatible(text)
    return SchemaCompatibility.compatible_after_migration(text, convert, all(part.distinct for part in parts))


def _noted(parts: Iterable[tuple[str, SchemaCompatibility]]) -> list[str]:
    return [f"{name}: {part.text}" for name, part in parts if not part.is_compatible_as_is()]


def _elements(old: Any, new: Any) -> SchemaCompatibility:
    part = resolve(old.elem_type, new.elem_type)
    return _combined(old, new, [part], _noted([("elements", part)]), _Elementwise(part))


def _map(old: Any, new: Any) -> SchemaCompatibility:
    key, value = resolve(old.key_type, new.key_type), resolve(old.value_type, new.value_type)
    if not key.distinct:
        key = SchemaCompatibility.incompatible(f"{key.text}; keys that differ could become equal")
    return _combined(old, new, [key, value], _noted([("keys", key), ("values", value)]), _Pairwise(key, value))


def _tuple(old: Any, new: Any) -> SchemaCompatibility:
    return _fields(old, new, dict(enumerate(old.get_field_types())), dict(enumerate(new.get_field_types())), None)


def _row(old: Any, new: Any) -> SchemaCompatibility:
    before, now = (dict(zip(kind.get_field_names(), kind.get_field_types(), strict=True)) for kind in (old, new))
    return _fields(old, new, before, now, tuple(now))


def _fields(
    old: TypeInformation,
    new: TypeInformation,
    before: dict[Any, TypeInformation],
    now: dict[Any, TypeInformation],
    names: tuple[str, ...] | None,
) -> SchemaCompatibility:
    kept = {name: resolve(before[name], now[name]) for name in now if name in before}
    removed = [name for name in before if name not in now]
    notes = _noted((f"field {name!r}", part) for name, part in kept.items())
    notes += [f"field {name!r} was added, and is None in old values" for name in now if name not in before]
    notes += [f"field {name!r} was removed" for name in removed]
    if list(kept) != [name for name in before if name in now]:
        notes.append("the order of the fields changed")
    if before and not kept:
        return SchemaCompatibility.incompatible(f"{old} became {new}: {'; '.join(notes)}; no field is left")
    places = {name: place for place, name in enumerate(before)}
    convert = _Fieldwise(tuple((places[name], kept[name]) if name in kept else None for name in now), names)
    answer = _combined(old, new, list(kept.values()), notes, convert)
    return replace(answer, distinct=answer.distinct and not removed)


_SAME_KIND: dict[str, Callable[[Any, Any], SchemaCompatibility]] = {
    "LIST": _elements,
    "BASIC_ARRAY": _elements,
    "OBJECT_ARRAY": _elements,
    "PRIMITIVE_ARRAY": _elements,
    "MAP": _map,
    "TUPLE": _tuple,
    "ROW": _row,
}

# Converters are objects, not closures, so that an answer can be pickled.


@dataclass(frozen=True)
class _Elementwise:
    part: SchemaCompatibility

    def __call__(self, values: list[Any]) -> list[Any]:
        return [self.part.migrate(items) for items in values]


@dataclass(frozen=True)
class _Pairwise:
    key: SchemaCompatibility
    value: SchemaCompatibility

    def __call__(self, values: list[Any]) -> list[Any]:
        return [
            dict(zip(self.key.migrate(list(items)), self.value.migrate(list(items.values())), strict=True))
            for items in values
        ]


@dataclass(frozen=True)
class _Fieldwise:
    """Converts tuples, or rows with names, to other fields."""

    sources: tuple[tuple[int, SchemaCompatibility] | None, ...]
    """For each new field, the index of the old one and its compatibility."""
    names: tuple[str, ...] | None

    def __call__(self, values: list[Any]) -> list[Any]:
        columns = list(map(list, zip(*values, strict=True)))
        if not values or not self.sources:
            records: list[Any] = [() for _ in values]
        else:
            records = list(zip(*(self._column(source, columns, len(values)) for source in self.sources), strict=True))
        if self.names is None:
            return records
        rows = make_rows(records, self.names)
        for row, value in zip(rows, values, strict=True):
            row._row_kind = value._row_kind
        return rows

    @staticmethod
    def _column(source: tuple[int, SchemaCompatibility] | None, columns: list[list[Any]], count: int) -> list[Any]:
        return [None] * count if source is None else source[1].migrate(columns[source[0]])


@dataclass(frozen=True)
class _Checked:
    """Converts unpickled objects to a declared type, and refuses those that are not of it."""

    type_info: TypeInformation

    def __call__(self, values: list[Any]) -> list[Any]:
        serializer = self.type_info.create_serializer()
        typed = serializer.deserialize_all(serializer.serialize_all(values))
        for old, new in zip(values, typed, strict=True):
            if not _same(old, new):
                self.type_info._refuse(old, f"it would become {new!r}")
        return typed


def _same(old: Any, new: Any) -> bool:
    """Returns whether two values differ only in the kind of their containers: a tuple may become a row."""
    if isinstance(new, Row):
        if isinstance(old, Row) and old._fields is not None:
            old = old.as_dict()
        if isinstance(old, dict):
            old = [old.get(name) for name in new._fields or ()] if len(old) == len(new) else None
        new = list(new)
    if isinstance(new, (list, tuple)):
        return hasattr(old, "__len__") and len(old) == len(new) and all(map(_same, old, new))
    if isinstance(new, dict):
        return len(old) == len(new) and all(map(_same, old, new)) and all(map(_same, old.values(), new.values()))
    return bool(old == new) or (new != new and old != old)  # a NaN equals nothing
