"""The serialisers of the types of :class:`~flintstream.common.typeinfo.Types`.

They work on columns: a block of values is packed, level by level of its type, into ints, floats, strings, bytes,
tuples, lists and dicts, and written at once. Most values are of these types already, so a block costs little more than
pickling it.

Single values, which may be keys, are written by marshal, whose bytes depend on the value alone, and by default in
canonical form, so that equal values have equal bytes: 0.0 and -0.0, the decimals 1.5 and 1.50, and equal dicts in any
order. In a block every value keeps its form, and pickle writes repeated objects once.
"""

from __future__ import annotations

import io
import marshal
import pickle
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import chain, islice
from operator import attrgetter, index
from typing import IO, TYPE_CHECKING, Any, cast

from .pickling import dumps
from .serializer import TypeSerializer
from .serializer_snapshot import TypeSerializerSnapshot
from .types import Row, RowKind, make_rows

if TYPE_CHECKING:
    from .basic_typeinfo import TypeInformation
    from .typeinfo import MapTypeInfo, RowTypeInfo, TupleTypeInfo, _Elements

__all__ = [
    "ConvertedSerializer",
    "DecimalSerializer",
    "FloatSerializer",
    "IntegerSerializer",
    "ListSerializer",
    "MapSerializer",
    "PickledSerializer",
    "RowSerializer",
    "TextSerializer",
    "TupleSerializer",
    "TypedSerializer",
]

# Version 2 of marshal has neither references nor interning, so its bytes depend on the value alone, and every Python
# reads it. It writes any buffer (a bytearray, a NumPy scalar) as plain bytes, so only values of exact types may reach
# it.
_VERSION = 2
_NONE = type(None)


class TypedSerializer(TypeSerializer[Any]):
    """The serialiser of a declared type; this base class serves types whose values are plain.

    Values are converted and refused like in :meth:`TypeInformation.coerce`. Unlike there, any value, field, element or
    key may be None, except in primitive arrays.
    """

    plain = True
    """Whether values are packed unchanged, and so need no unpacking."""

    def __init__(self, type_info: TypeInformation, exact: type | None = None) -> None:
        self.type_info = type_info
        self._exact = exact
        """The class, if any, of which every object is a valid value and packed unchanged."""

    def pack(self, values: list[Any], canonical: bool) -> list[Any]:
        """Converts values, none of which is None, to plain values; returns the same list if nothing changes."""
        return self.type_info.coerce(values)

    def unpack(self, packed: list[Any]) -> list[Any]:
        """Restores values from their packed form."""
        return packed

    def pack_one(self, value: Any, canonical: bool) -> Any:
        """:meth:`pack` for a single value that may be None."""
        if value is None or type(value) is self._exact:
            return value
        return self.pack([value], canonical)[0]

    def pack_nullable(self, values: list[Any], canonical: bool) -> list[Any]:
        """:meth:`pack` for values that may be None."""
        if _NONE not in set(map(type, values)):
            return self.pack(values, canonical)
        present = [value for value in values if value is not None]
        packed = self.pack(present, canonical)
        return values if packed is present else _with_none(values, packed)

    def unpack_nullable(self, packed: list[Any]) -> list[Any]:
        """:meth:`unpack` for values that may be None."""
        if self.plain:
            return packed
        if _NONE not in set(map(type, packed)):
            return self.unpack(packed)
        return _with_none(packed, self.unpack([item for item in packed if item is not None]))

    def serialize(self, element: Any, stream: IO[bytes]) -> None:
        stream.write(self.to_bytes(element))

    def deserialize(self, stream: IO[bytes]) -> Any:
        return self.unpack_nullable([marshal.load(stream)])[0]

    def to_bytes(self, element: Any, canonical: bool = True) -> bytes:
        return marshal.dumps(self.pack_one(element, canonical), _VERSION)

    def from_bytes(self, data: bytes) -> Any:
        return self.unpack_nullable([marshal.loads(data)])[0]

    def serialize_all(self, values: list[Any]) -> bytes:
        return pickle.dumps(self.pack_nullable(values, False), 5)

    def deserialize_all(self, data: bytes) -> list[Any]:
        return self.unpack_nullable(pickle.loads(data))

    def snapshot_configuration(self) -> TypeSerializerSnapshot:
        # Imported here: that module imports the types, which import this one.
        from .serializer_types import TypeSnapshot

        return TypeSnapshot(self.type_info)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.type_info})"


class TextSerializer(TypedSerializer):
    """Strings and characters."""

    def pack(self, values: list[Any], canonical: bool) -> list[Any]:
        texts = self.type_info.coerce(values)
        return texts if {str}.issuperset(map(type, texts)) else list(map(str.__str__, texts))


class IntegerSerializer(TypedSerializer):
    """Integers of a fixed number of bits, or of any size."""

    def __init__(self, type_info: TypeInformation, bits: int | None) -> None:
        super().__init__(type_info, int if bits is None else None)
        self._bits = bits or 0

    def pack_one(self, value: Any, canonical: bool) -> Any:
        if type(value) is int and value.bit_length() < self._bits:
            return value
        return super().pack_one(value, canonical)


class FloatSerializer(TypedSerializer):
    """Floating point numbers."""

    def pack_one(self, value: Any, canonical: bool) -> Any:
        if type(value) is float and self._exact is float:
            return value + 0.0 if canonical else value
        return super().pack_one(value, canonical)

    def pack(self, values: list[Any], canonical: bool) -> list[Any]:
        numbers = self.type_info.coerce(values)
        return [number + 0.0 for number in numbers] if canonical else numbers  # -0.0 becomes 0.0, which it equals


class DecimalSerializer(TypedSerializer):
    """Decimal numbers, as text; in canonical form without trailing zeros."""

    plain = False

    def pack(self, values: list[Any], canonical: bool) -> list[Any]:
        numbers = self.type_info.coerce(values)
        return list(map(_canonical_decimal if canonical else Decimal.__str__, numbers))

    def unpack(self, packed: list[Any]) -> list[Any]:
        return list(map(Decimal, packed))


class ConvertedSerializer(TypedSerializer):
    """Dates, times and instants, as the int of their internal form."""

    plain = False

    def pack(self, values: list[Any], canonical: bool) -> list[Any]:
        return list(map(index, map(self.type_info.to_internal_type, self.type_info.coerce(values))))

    def unpack(self, packed: list[Any]) -> list[Any]:
        return list(map(self.type_info.from_internal_type, packed))


class PickledSerializer(TypedSerializer):
    """Any Python object.

    The bytes of a single value do not depend on object identity. Still, equal values have equal bytes only if they have
    the same types (unlike 1 and True) and their dicts and sets the same order.
    """

    plain = False

    def pack(self, values: list[Any], canonical: bool) -> list[Any]:
        return list(map(_pickle_by_value if canonical else dumps, self.type_info.coerce(values)))

    def unpack(self, packed: list[Any]) -> list[Any]:
        return list(map(pickle.loads, packed))

    def deserialize(self, stream: IO[bytes]) -> Any:
        return pickle.load(stream)

    def to_bytes(self, element: Any, canonical: bool = True) -> bytes:
        packed = self.pack_one(element, canonical)
        return _pickle_by_value(None) if packed is None else cast("bytes", packed)

    def from_bytes(self, data: bytes) -> Any:
        return pickle.loads(data)

    def serialize_all(self, values: list[Any]) -> bytes:
        return dumps(self.type_info._coerce_nullable(values))

    def deserialize_all(self, data: bytes) -> list[Any]:
        return cast("list[Any]", pickle.loads(data))


class ListSerializer(TypedSerializer):
    """Lists and arrays. The elements of all lists of a block are packed as one column."""

    type_info: _Elements

    def __init__(self, type_info: _Elements) -> None:
        super().__init__(type_info)
        self.element = _column(type_info.elem_type)
        self.plain = self.element.plain

    def pack(self, values: list[Any], canonical: bool) -> list[Any]:
        lists = self.type_info._shaped(values)
        items = list(chain.from_iterable(lists))
        packed = (self.element.pack_nullable if self.type_info._nullable else self.element.pack)(items, canonical)
        return lists if packed is items else list(_cut(packed, map(len, lists)))

    def unpack(self, packed: list[Any]) -> list[Any]:
        items = self.element.unpack_nullable(list(chain.from_iterable(packed)))
        return list(_cut(items, map(len, packed)))


class MapSerializer(TypedSerializer):
    """Dicts. In canonical form their keys are sorted by their bytes."""

    type_info: MapTypeInfo

    def __init__(self, type_info: MapTypeInfo) -> None:
        super().__init__(type_info)
        self.key = _column(type_info.key_type)
        self.value = _column(type_info.value_type)
        self.plain = self.key.plain and self.value.plain

    def pack(self, values: list[Any], canonical: bool) -> list[Any]:
        dicts = self.type_info._shaped(values)
        keys = list(chain.from_iterable(dicts))
        items = list(chain.from_iterable(map(dict.values, dicts)))
        new_keys, new_items = self.key.pack_nullable(keys, canonical), self.value.pack_nullable(items, canonical)
        if new_keys is not keys or new_items is not items:
            dicts = list(_dicts(new_keys, new_items, map(len, dicts)))
        return list(map(_in_key_order, dicts)) if canonical else dicts

    def unpack(self, packed: list[Any]) -> list[Any]:
        keys = self.key.unpack_nullable(list(chain.from_iterable(packed)))
        items = self.value.unpack_nullable(list(chain.from_iterable(map(dict.values, packed))))
        return list(_dicts(keys, items, map(len, packed)))


class _FieldsSerializer(TypedSerializer):
    """Tuples and rows: one column per field."""

    def __init__(self, type_info: TypeInformation, field_types: Sequence[TypeInformation]) -> None:
        super().__init__(type_info)
        self.fields = [_column(field_type) for field_type in field_types]
        self._plain_fields = all(field.plain for field in self.fields)

    def _pack_record(self, record: Iterable[Any], canonical: bool) -> tuple[Any, ...]:
        return tuple([field.pack_one(value, canonical) for field, value in zip(self.fields, record, strict=True)])

    def _pack_fields(self, records: Sequence[Any], canonical: bool) -> list[Any] | None:
        """Returns a tuple of packed fields for each record, or None if the fields are packed already."""
        columns = list(map(list, zip(*records, strict=True)))
        packed = [field.pack_nullable(column, canonical) for field, column in zip(self.fields, columns, strict=False)]
        if all(new is old for new, old in zip(packed, columns, strict=True)):
            return None
        return list(zip(*packed, strict=True))

    def _unpack_fields(self, records: list[Any]) -> list[Any]:
        if self._plain_fields or not records:
            return records
        columns = [
            field.unpack_nullable(list(column)) for field, column in zip(self.fields, zip(*records, strict=True))
        ]
        return list(zip(*columns, strict=True))


class TupleSerializer(_FieldsSerializer):
    """Tuples."""

    type_info: TupleTypeInfo

    def __init__(self, type_info: TupleTypeInfo) -> None:
        super().__init__(type_info, type_info.get_field_types())
        self.plain = self._plain_fields

    def pack_one(self, value: Any, canonical: bool) -> Any:
        if type(value) is tuple and len(value) == len(self.fields):
            return self._pack_record(value, canonical)
        return super().pack_one(value, canonical)

    def pack(self, values: list[Any], canonical: bool) -> list[Any]:
        tuples = self.type_info._shaped(values)
        packed = self._pack_fields(tuples, canonical)
        return tuples if packed is None else packed

    def unpack(self, packed: list[Any]) -> list[Any]:
        return self._unpack_fields(packed)


class RowSerializer(_FieldsSerializer):
    """Rows, as the tuple of their fields, followed by the row kind unless it is an insertion."""

    plain = False
    type_info: RowTypeInfo

    def __init__(self, type_info: RowTypeInfo) -> None:
        super().__init__(type_info, type_info.get_field_types())
        self._names = tuple(type_info.get_field_names())

    def pack_one(self, value: Any, canonical: bool) -> Any:
        if type(value) is Row and value._fields == self._names and value._row_kind is RowKind.INSERT:
            return self._pack_record(value._values, canonical)
        return super().pack_one(value, canonical)

    def pack(self, values: list[Any], canonical: bool) -> list[Any]:
        records, only_rows = self.type_info._shaped(values)
        packed = self._pack_fields(records, canonical)
        if packed is None:
            packed = list(map(tuple, records))
        kinds = list(map(_kind, values)) if only_rows else list(map(_kind_of_any, values))
        if kinds.count(RowKind.INSERT) == len(kinds):
            return packed
        return [
            record if kind is RowKind.INSERT else (*record, kind.value)
            for record, kind in zip(packed, kinds, strict=True)
        ]

    def unpack(self, packed: list[Any]) -> list[Any]:
        arity = len(self._names)
        if {arity}.issuperset(map(len, packed)):
            return make_rows(self._unpack_fields(packed), self._names)
        rows = make_rows(self._unpack_fields([record[:arity] for record in packed]), self._names)
        for row, record in zip(rows, packed, strict=True):
            if len(record) > arity:
                row._row_kind = RowKind(record[arity])
        return rows


class _ForeignColumn(TypedSerializer):
    """A user-defined serialiser inside a declared type: each value is stored as its bytes."""

    plain = False

    def __init__(self, type_info: TypeInformation, serializer: TypeSerializer[Any]) -> None:
        super().__init__(type_info)
        self._serializer = serializer

    def pack(self, values: list[Any], canonical: bool) -> list[Any]:
        return [self._serializer.to_bytes(value, canonical) for value in values]

    def unpack(self, packed: list[Any]) -> list[Any]:
        return list(map(self._serializer.from_bytes, packed))


def _column(type_info: TypeInformation) -> TypedSerializer:
    serializer = type_info.create_serializer()
    return serializer if isinstance(serializer, TypedSerializer) else _ForeignColumn(type_info, serializer)


_kind: Any = attrgetter("_row_kind")


def _kind_of_any(value: Any) -> RowKind:
    return value._row_kind if isinstance(value, Row) else RowKind.INSERT


def _with_none(values: list[Any], others: Iterable[Any]) -> list[Any]:
    """Returns the values with those that are not None replaced."""
    following = iter(others)
    return [None if value is None else next(following) for value in values]


def _cut(items: list[Any], lengths: Iterable[int]) -> Iterator[list[Any]]:
    following = iter(items)
    return (list(islice(following, length)) for length in lengths)


def _dicts(keys: list[Any], items: list[Any], lengths: Iterable[int]) -> Iterator[dict[Any, Any]]:
    pairs = zip(keys, items, strict=True)
    return (dict(islice(pairs, length)) for length in lengths)


def _in_key_order(packed: dict[Any, Any]) -> dict[Any, Any]:
    return dict(sorted(packed.items(), key=lambda pair: marshal.dumps(pair[0], _VERSION)))


def _canonical_decimal(number: Decimal) -> str:
    # Not Decimal.normalize, which rounds to the context's precision.
    sign, digits, exponent = number.as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    stripped = text.rstrip("0")
    if not stripped:
        return "0"
    return f"{'-' if sign else ''}{stripped}E{cast('int', exponent) + len(text) - len(stripped)}"


def _pickle_by_value(value: Any) -> bytes:
    stream = io.BytesIO()
    pickler = pickle.Pickler(stream, 5)
    # Otherwise an object that occurs twice is written as a reference, and an equal but distinct one is not.
    pickler.fast = True
    try:
        pickler.dump(value)
    except (AttributeError, TypeError, ValueError, RecursionError, pickle.PicklingError):
        return dumps(value)  # it contains itself, or is of a local class
    return stream.getvalue()
