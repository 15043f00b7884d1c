"""Types of records: what a user declares with :class:`Types`, and how the engine applies it to blocks of values.

A declared type guarantees what the next operator receives. :meth:`TypeInformation.coerce` enforces it for a whole block
at once: values of the type pass unchanged, others are converted if that is lossless (``True`` as an ``INT`` is 1, a
tuple as a ``ROW`` is a Row), and all others are refused with an error that names the type and the value.
"""

from __future__ import annotations

import datetime
from array import array
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any

from .basic_typeinfo import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    InstantTypeInfo,
    SqlTimeTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TypeInformation,
)
from .serializer import TypeSerializer
from .serializers import (
    ConvertedSerializer,
    ListSerializer,
    MapSerializer,
    RowSerializer,
    TupleSerializer,
    TypedSerializer,
)
from .type_variables import K, T, V
from .types import Row, RowKind, make_row, make_rows

__all__ = [
    "BasicArrayTypeInfo",
    "BasicType",
    "BasicTypeInfo",
    "DateTypeInfo",
    "ExternalTypeInfo",
    "InstantTypeInfo",
    "ListTypeInfo",
    "LocalTimeTypeInfo",
    "MapTypeInfo",
    "ObjectArrayTypeInfo",
    "PickledBytesTypeInfo",
    "PrimitiveArrayTypeInfo",
    "RowTypeInfo",
    "SqlTimeTypeInfo",
    "TimeTypeInfo",
    "TimestampTypeInfo",
    "TupleTypeInfo",
    "TypeInformation",
    "Types",
]


class LocalTimeTypeInfo(TypeInformation):
    """Dates and times without a zone, as in tables; values are not converted."""

    class TimeType(Enum):
        """The three local time types."""

        LOCAL_DATE = 0
        LOCAL_TIME = 1
        LOCAL_DATE_TIME = 2

    def __init__(self, time_type: LocalTimeTypeInfo.TimeType) -> None:
        self._time_type = time_type

    def to_internal_type(self, obj: Any) -> Any:
        kind, internal = _LOCAL[self._time_type.name]
        if type(obj) is not kind or getattr(obj, "tzinfo", None) is not None:
            self._refuse(obj, f"it holds a datetime.{kind.__name__} without a time zone")
        return internal.to_internal_type(obj)

    def from_internal_type(self, obj: Any) -> Any:
        return _LOCAL[self._time_type.name][1].from_internal_type(obj)

    def create_serializer(self) -> TypeSerializer[Any]:
        return ConvertedSerializer(self)

    def _identity(self) -> tuple[Any, ...]:
        return (self._time_type,)

    def __repr__(self) -> str:
        return f"LocalTimeTypeInfo<{self._time_type.name}>"


_LOCAL: dict[str, tuple[type, TypeInformation]] = {
    "LOCAL_DATE": (datetime.date, DateTypeInfo()),
    "LOCAL_TIME": (datetime.time, TimeTypeInfo()),
    "LOCAL_DATE_TIME": (datetime.datetime, TimestampTypeInfo()),
}


class PickledBytesTypeInfo(TypeInformation):
    """Any Python object: the type of undeclared streams. Values are not converted."""

    def __repr__(self) -> str:
        return "PickledByteArrayTypeInfo"


class ExternalTypeInfo(TypeInformation):
    """Wraps another type at the boundary to tables; here it is that type."""

    def __init__(self, type_info: TypeInformation) -> None:
        self._type_info = _checked(type_info)

    def coerce(self, values: list[Any]) -> list[Any]:
        return self._type_info.coerce(values)

    def create_serializer(self) -> TypeSerializer[Any]:
        return self._type_info.create_serializer()

    def _identity(self) -> tuple[Any, ...]:
        return (self._type_info,)

    def __repr__(self) -> str:
        return f"ExternalTypeInfo<{self._type_info}>"


class _Elements(TypeInformation[list[T]]):
    """Lists and arrays: a list of values of one type."""

    _nullable = True

    def __init__(self, element_type: TypeInformation[T]) -> None:
        self.elem_type = _checked(element_type)

    @property
    def element_type(self) -> TypeInformation[T]:
        """Returns the type of the elements."""
        return self.elem_type

    def coerce(self, values: list[Any]) -> list[Any]:
        lists = self._shaped(values)
        each = self.elem_type._coerce_nullable if self._nullable else self.elem_type.coerce
        result = [each(items) for items in lists]
        if lists is values and all(new is old for new, old in zip(result, values, strict=True)):
            return values
        return result

    def create_serializer(self) -> TypeSerializer[Any]:
        return ListSerializer(self)

    def _shaped(self, values: list[Any]) -> list[Any]:
        """Converts the values to lists, without their elements; returns the same list if all are."""
        if {list}.issuperset(map(type, values)):
            return values
        return [self._list(value) for value in values]

    def _list(self, value: Any) -> list[Any]:
        if isinstance(value, (list, tuple, array)) or type(value).__name__ == "ndarray":
            return value.tolist() if hasattr(value, "tolist") else list(value)
        return self._refuse(value, "it holds lists")

    def _identity(self) -> tuple[Any, ...]:
        return (self.elem_type,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}<{self.elem_type}>"


class ListTypeInfo(_Elements[T]):
    """A list of values of one type: ``Types.LIST(Types.INT())``. Elements may be None."""


class BasicArrayTypeInfo(_Elements[T]):
    """An array of values of a basic type, a list in Python. Elements may be None."""


class ObjectArrayTypeInfo(_Elements[T]):
    """An array of values of any type, a list in Python. Elements may be None."""


class PrimitiveArrayTypeInfo(_Elements):
    """An array of numbers or booleans, a list in Python; of bytes, it is ``bytes``. Elements cannot be
    None."""

    _nullable = False

    def coerce(self, values: list[Any]) -> list[Any]:
        if self.elem_type != Types.BYTE():
            return super().coerce(values)
        if {bytes}.issuperset(map(type, values)):
            return values
        for value in values:
            if not isinstance(value, (bytes, bytearray, memoryview)):
                self._refuse(value, "it holds bytes")
        return [bytes(value) for value in values]

    def create_serializer(self) -> TypeSerializer[Any]:
        return TypedSerializer(self) if self.elem_type == Types.BYTE() else super().create_serializer()


class MapTypeInfo(TypeInformation[dict[K, V]]):
    """A dict with keys of one type and values of another. Values may be None, keys may not.

    Example::

        >>> Types.MAP(Types.STRING(), Types.DOUBLE()).coerce([{"a": 1}])
        [{'a': 1.0}]
    """

    def __init__(self, key_type_info: TypeInformation[K], value_type_info: TypeInformation[V]) -> None:
        self._key_type_info = _checked(key_type_info)
        self._value_type_info = _checked(value_type_info)

    @property
    def key_type(self) -> TypeInformation[K]:
        """Returns the type of the keys."""
        return self._key_type_info

    @property
    def value_type(self) -> TypeInformation[V]:
        """Returns the type of the values."""
        return self._value_type_info

    def coerce(self, values: list[Any]) -> list[Any]:
        result = [self._convert(value) for value in values]
        return values if all(new is old for new, old in zip(result, values, strict=True)) else result

    def create_serializer(self) -> TypeSerializer[Any]:
        return MapSerializer(self)

    def _shaped(self, values: list[Any]) -> list[Any]:
        """Converts the values to exact dicts, without their contents; returns the same list if all are."""
        if {dict}.issuperset(map(type, values)):
            return values
        return [dict(value) if isinstance(value, dict) else self._refuse(value, "it holds dicts") for value in values]

    def _convert(self, value: Any) -> Any:
        if not isinstance(value, dict):
            self._refuse(value, "it holds dicts")
        keys, items = list(value), list(value.values())
        new_keys = self._key_type_info.coerce(keys)
        new_items = self._value_type_info._coerce_nullable(items)
        if new_keys is keys and new_items is items:
            return value
        return dict(zip(new_keys, new_items, strict=True))

    def _identity(self) -> tuple[Any, ...]:
        return (self._key_type_info, self._value_type_info)

    def __repr__(self) -> str:
        return f"MapTypeInfo<{self._key_type_info}, {self._value_type_info}>"


class TupleTypeInfo(TypeInformation[tuple[Any, ...]]):
    """A tuple with a type for each field. Unlike in a Row, fields of a declared type cannot be None.

    Example::

        >>> Types.TUPLE([Types.STRING(), Types.DOUBLE()]).coerce([("a", 1), Row("b", 2.5)])
        [('a', 1.0), ('b', 2.5)]
    """

    def __init__(self, field_types: Sequence[TypeInformation]) -> None:
        self._field_types = _checked_all(field_types)

    def get_field_types(self) -> list[TypeInformation]:
        """Returns the types of the fields, in order."""
        return self._field_types

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, obj: Any) -> Any:
        return None if obj is None else _each(self._field_types, obj, "to_internal_type")

    def from_internal_type(self, obj: Any) -> Any:
        return None if obj is None else _each(self._field_types, obj, "from_internal_type")

    def coerce(self, values: list[Any]) -> list[Any]:
        tuples = self._shaped(values)
        columns = list(map(list, zip(*tuples, strict=True)))
        coerced = [kind.coerce(column) for kind, column in zip(self._field_types, columns, strict=False)]
        if all(new is old for new, old in zip(coerced, columns, strict=True)):
            return tuples
        return list(zip(*coerced, strict=True))

    def create_serializer(self) -> TypeSerializer[Any]:
        return TupleSerializer(self)

    def _shaped(self, values: list[Any]) -> list[Any]:
        """Converts the values to tuples with the right number of fields, without their contents."""
        tuples = values
        if not {tuple}.issuperset(map(type, values)):
            tuples = [value if type(value) is tuple else self._tuple(value) for value in values]
        arity = len(self._field_types)
        if not {arity}.issuperset(map(len, tuples)):
            wrong = next(value for value in tuples if len(value) != arity)
            self._refuse(wrong, f"it has {arity} fields, but the value has {len(wrong)}")
        return tuples

    def _tuple(self, value: Any) -> tuple[Any, ...]:
        if isinstance(value, (tuple, list, Row)):
            return tuple(value)
        return self._refuse(value, "it holds tuples")

    def _identity(self) -> tuple[Any, ...]:
        return tuple(self._field_types)

    def __repr__(self) -> str:
        return f"TupleTypeInfo({', '.join(map(str, self._field_types))})"


class RowTypeInfo(TypeInformation[Row]):
    """A Row with a type and a name for each field; fields may be None. Values without names are matched by position.

    Example::

        >>> Types.ROW([Types.INT(), Types.STRING()]).coerce([(1, "a"), Row(f1="b", f0=2)])
        [Row(f0=1, f1='a'), Row(f0=2, f1='b')]
    """

    def __init__(self, field_types: Sequence[TypeInformation], field_names: Sequence[str] | None = None) -> None:
        self._field_types = _checked_all(field_types)
        names = [f"f{i}" for i in range(len(field_types))] if field_names is None else list(field_names)
        if len(names) != len(self._field_types):
            raise ValueError(f"{len(names)} field names {names} for {len(self._field_types)} field types.")
        if len(set(names)) != len(names):
            raise ValueError(f"The field names {names} are not unique.")
        self._field_names = tuple(names)

    def get_field_names(self) -> list[str]:
        """Returns the names of the fields, in order."""
        return list(self._field_names)

    def get_field_index(self, field_name: str) -> int:
        """Returns the position of a field, or -1 if there is none of that name."""
        return self._field_names.index(field_name) if field_name in self._field_names else -1

    def get_field_types(self) -> list[TypeInformation]:
        """Returns the types of the fields, in order."""
        return self._field_types

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, obj: Any) -> Any:
        if obj is None:
            return None
        kind = obj.get_row_kind().value if isinstance(obj, Row) else RowKind.INSERT.value
        return (kind, *_each(self._field_types, self._values(obj), "to_internal_type"))

    def from_internal_type(self, obj: Any) -> Any:
        if obj is None or len(obj) != len(self._field_types) + 1:
            return obj
        return make_row(list(_each(self._field_types, obj[1:], "from_internal_type")), self._field_names, obj[0])

    def coerce(self, values: list[Any]) -> list[Any]:
        fields, ready = self._shaped(values)
        columns = list(map(list, zip(*fields, strict=True)))
        coerced = [kind._coerce_nullable(col) for kind, col in zip(self._field_types, columns, strict=False)]
        if any(new is not old for new, old in zip(coerced, columns, strict=True)):
            fields = list(zip(*coerced, strict=True))
        elif ready:
            return values
        rows = make_rows(fields, self._field_names)
        if Row in set(map(type, values)):
            for row, value in zip(rows, values, strict=True):
                if isinstance(value, Row):
                    row._row_kind = value._row_kind
        return rows

    def create_serializer(self) -> TypeSerializer[Any]:
        return RowSerializer(self)

    def _shaped(self, values: list[Any]) -> tuple[Sequence[Any], bool]:
        """Returns the fields of each value in the order of this type, and whether all values are rows with its names."""
        names = self._field_names
        kinds = set(map(type, values))
        seen: set[Any] = {row._fields for row in values} if kinds <= {Row} else {"not only rows"}
        if seen <= {names} or (seen == {None} and {len(names)}.issuperset(map(len, values))):
            return [row._values for row in values], seen <= {names}
        if kinds <= {tuple} and {len(names)}.issuperset(map(len, values)):
            return values, False
        return [self._values(value) for value in values], False

    def _values(self, value: Any) -> Sequence[Any]:
        """Returns the value's fields in the order of this type."""
        names = self._field_names
        if isinstance(value, Row):
            if value._fields is not None and value._fields != names:
                missing = [name for name in names if name not in value._fields]
                if missing:
                    self._refuse(value, f"it lacks the field {', '.join(map(repr, missing))}")
                return value.get_fields_by_names(names)
            found: Sequence[Any] = value._values
        elif isinstance(value, dict):
            unknown = [key for key in value if key not in names]
            if unknown:
                self._refuse(value, f"it has no field {', '.join(map(repr, unknown))}")
            return [value.get(name) for name in names]
        elif isinstance(value, (tuple, list)):
            found = value
        else:
            self._refuse(value, "it holds rows")
        if len(found) != len(names):
            self._refuse(value, f"it has {len(names)} fields, but the value has {len(found)}")
        return found

    def _identity(self) -> tuple[Any, ...]:
        return (self._field_names, *self._field_types)

    def __repr__(self) -> str:
        if self._field_names == tuple(f"f{i}" for i in range(len(self._field_names))):
            return f"RowTypeInfo({', '.join(map(str, self._field_types))})"
        fields = zip(self._field_names, self._field_types, strict=True)
        return f"RowTypeInfo({', '.join(f'{name}: {kind}' for name, kind in fields)})"


class Types:
    """Creates the types of streams, states and fields.

    Example::

        >>> Types.TUPLE([Types.STRING(), Types.LIST(Types.INT())])
        TupleTypeInfo(String, ListTypeInfo<Integer>)
    """

    STRING = staticmethod(BasicTypeInfo.STRING_TYPE_INFO)
    BYTE = staticmethod(BasicTypeInfo.BYTE_TYPE_INFO)
    BOOLEAN = staticmethod(BasicTypeInfo.BOOLEAN_TYPE_INFO)
    SHORT = staticmethod(BasicTypeInfo.SHORT_TYPE_INFO)
    INT = staticmethod(BasicTypeInfo.INT_TYPE_INFO)
    LONG = staticmethod(BasicTypeInfo.LONG_TYPE_INFO)
    FLOAT = staticmethod(BasicTypeInfo.FLOAT_TYPE_INFO)
    DOUBLE = staticmethod(BasicTypeInfo.DOUBLE_TYPE_INFO)
    CHAR = staticmethod(BasicTypeInfo.CHAR_TYPE_INFO)
    BIG_INT = staticmethod(BasicTypeInfo.BIG_INT_TYPE_INFO)
    BIG_DEC = staticmethod(BasicTypeInfo.BIG_DEC_TYPE_INFO)
    INSTANT = staticmethod(BasicTypeInfo.INSTANT_TYPE_INFO)
    SQL_DATE = staticmethod(SqlTimeTypeInfo.DATE)
    SQL_TIME = staticmethod(SqlTimeTypeInfo.TIME)
    SQL_TIMESTAMP = staticmethod(SqlTimeTypeInfo.TIMESTAMP)

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> TypeInformation:  # noqa: N802
        """Any Python object."""
        return PickledBytesTypeInfo()

    @staticmethod
    def ROW(field_types: Sequence[TypeInformation]) -> RowTypeInfo:  # noqa: N802
        """Rows with the field names f0, f1, and so on."""
        return RowTypeInfo(field_types)

    @staticmethod
    def ROW_NAMED(field_names: Sequence[str], field_types: Sequence[TypeInformation]) -> RowTypeInfo:  # noqa: N802
        """Rows with these field names."""
        return RowTypeInfo(field_types, field_names)

    @staticmethod
    def TUPLE(field_types: Sequence[TypeInformation]) -> TupleTypeInfo:  # noqa: N802
        """Tuples."""
        return TupleTypeInfo(field_types)

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: TypeInformation) -> PrimitiveArrayTypeInfo:  # noqa: N802
        """Arrays of numbers or booleans; of ``Types.BYTE()``: bytes."""
        return PrimitiveArrayTypeInfo(element_type)

    @staticmethod
    def BASIC_ARRAY(element_type: TypeInformation[T]) -> BasicArrayTypeInfo[T]:  # noqa: N802
        """Arrays of a basic type, such as strings."""
        return BasicArrayTypeInfo(element_type)

    @staticmethod
    def OBJECT_ARRAY(element_type: TypeInformation[T]) -> ObjectArrayTypeInfo[T]:  # noqa: N802
        """Arrays of any type."""
        return ObjectArrayTypeInfo(element_type)

    @staticmethod
    def MAP(key_type_info: TypeInformation[K], value_type_info: TypeInformation[V]) -> MapTypeInfo[K, V]:  # noqa: N802
        """Dicts."""
        return MapTypeInfo(key_type_info, value_type_info)

    @staticmethod
    def LIST(element_type_info: TypeInformation[T]) -> ListTypeInfo[T]:  # noqa: N802
        """Lists."""
        return ListTypeInfo(element_type_info)


def _checked(type_info: TypeInformation[T]) -> TypeInformation[T]:
    if not isinstance(type_info, TypeInformation):
        raise TypeError(f"{type_info!r} is not a type: use Types, e.g. Types.STRING() (with parentheses).")
    return type_info


def _checked_all(types: Sequence[TypeInformation]) -> list[TypeInformation]:
    if isinstance(types, TypeInformation):
        raise TypeError(f"Field types must be a list of types, not one type: [{types}].")
    return [_checked(type_info) for type_info in types]


def _each(types: list[TypeInformation], values: Iterable[Any], method: str) -> tuple[Any, ...]:
    return tuple(
        value if value is None else getattr(kind, method)(value) for kind, value in zip(types, values, strict=True)
    )
