"""Arrow types of declared types, for columnar formats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from flintstream.common.basic_typeinfo import DecimalTypeInfo
from flintstream.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    ExternalTypeInfo,
    LocalTimeTypeInfo,
    MapTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    Types,
    _Elements,
)

__all__ = ["Converter", "arrow_schema_of_avro", "arrow_type"]

Converter = Callable[[Any], Any]
"""Converts a value, never None, to one that pyarrow accepts."""

_BASIC: dict[BasicType, Any] = {
    BasicType.STRING: pa.string(),
    BasicType.CHAR: pa.string(),
    BasicType.BOOLEAN: pa.bool_(),
    BasicType.BYTE: pa.int8(),
    BasicType.SHORT: pa.int16(),
    BasicType.INT: pa.int32(),
    BasicType.LONG: pa.int64(),
    BasicType.FLOAT: pa.float32(),
    BasicType.DOUBLE: pa.float64(),
    BasicType.BIG_INT: pa.decimal128(38, 0),
    BasicType.BIG_DEC: pa.decimal128(38, 18),
    BasicType.INSTANT: pa.timestamp("ns", "UTC"),
}
_LOCAL: dict[str, TypeInformation] = {
    "LOCAL_DATE": DateTypeInfo(),
    "LOCAL_TIME": TimeTypeInfo(),
    "LOCAL_DATE_TIME": TimestampTypeInfo(),
}


def arrow_type(type_info: TypeInformation, zone: str | None = None) -> tuple[Any, Converter | None]:
    """Returns the Arrow type of a declared type, and a converter of its values; None if pyarrow accepts them as they
    are.

    :param zone: the time zone for timestamps without one.
    """
    if isinstance(type_info, ExternalTypeInfo):
        return arrow_type(type_info._type_info, zone)
    if isinstance(type_info, LocalTimeTypeInfo):
        return arrow_type(_LOCAL[type_info._time_type.name], zone)
    if isinstance(type_info, DecimalTypeInfo):
        return pa.decimal128(type_info.precision, type_info.scale), None
    if isinstance(type_info, BasicTypeInfo):
        kind = _BASIC[type_info.basic_type]
        return kind, _instant if type_info.basic_type is BasicType.INSTANT else None
    if isinstance(type_info, DateTypeInfo):
        return pa.date32(), None
    if isinstance(type_info, TimeTypeInfo):
        return pa.time32("ms"), None
    if isinstance(type_info, TimestampTypeInfo):
        return pa.timestamp("ms", zone), None
    if isinstance(type_info, PrimitiveArrayTypeInfo) and type_info.elem_type == Types.BYTE():
        return pa.binary(), None
    if isinstance(type_info, _Elements):
        kind, convert = arrow_type(type_info.elem_type, zone)
        return pa.list_(kind), None if convert is None else _each(convert)
    if isinstance(type_info, MapTypeInfo):
        return _map(type_info, zone)
    if isinstance(type_info, (RowTypeInfo, TupleTypeInfo)):
        return _struct(type_info, zone)
    raise TypeError(
        f"values of type {type_info} cannot be stored in a column: declare a specific type, such as Types.STRING()"
    )


def _map(type_info: MapTypeInfo, zone: str | None) -> tuple[Any, Converter | None]:
    keys, convert_key = arrow_type(type_info.key_type, zone)
    items, convert_item = arrow_type(type_info.value_type, zone)
    key, item = _nullable(convert_key), _nullable(convert_item)
    return pa.map_(keys, items), lambda value: [(key(each), item(other)) for each, other in value.items()]


def _struct(type_info: RowTypeInfo | TupleTypeInfo, zone: str | None) -> tuple[Any, Converter | None]:
    types = [arrow_type(field, zone) for field in type_info.get_field_types()]
    if isinstance(type_info, RowTypeInfo):
        names = type_info.get_field_names()
    else:
        names = [f"f{index}" for index in range(len(types))]
    converters = [_nullable(convert) for _, convert in types]
    kind = pa.struct([(name, field) for name, (field, _) in zip(names, types)])
    return kind, lambda value: {
        name: convert(field) for name, convert, field in zip(names, converters, value, strict=True)
    }


def _each(convert: Converter) -> Converter:
    element = _nullable(convert)
    return lambda value: [element(each) for each in value]


def _nullable(convert: Converter | None) -> Converter:
    if convert is None:
        return lambda value: value
    return lambda value: None if value is None else convert(value)


def _instant(value: Any) -> int:
    nanos: int = value.seconds * 1_000_000_000 + value.nanos
    return nanos


# --- Avro ---

_AVRO_PRIMITIVE = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
_AVRO_LOGICAL = {
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
}


def arrow_schema_of_avro(schema: Any) -> Any:
    """Returns the Arrow schema of an Avro record schema, given as parsed JSON."""
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise TypeError(f"the Avro schema of a file must be a record, got {schema!r}")
    return pa.schema(_avro_fields(schema))


def _avro_fields(schema: dict[str, Any]) -> list[Any]:
    fields = []
    for field in schema["fields"]:
        branches = field["type"] if isinstance(field["type"], list) else [field["type"]]
        kinds = [branch for branch in branches if branch != "null"]
        if len(kinds) != 1:
            raise TypeError(
                f"field {field['name']!r}: only unions of one type and null are supported, got {field['type']!r}"
            )
        fields.append(pa.field(field["name"], _avro_type(kinds[0]), nullable="null" in branches))
    return fields


def _avro_type(schema: Any) -> Any:
    if isinstance(schema, list):
        (field,) = _avro_fields({"fields": [{"name": "item", "type": schema}]})
        return field.type
    if not isinstance(schema, dict):
        schema = {"type": schema}
    kind, logical = schema["type"], schema.get("logicalType")
    if logical == "decimal":
        return pa.decimal128(schema["precision"], schema.get("scale", 0))
    if logical in _AVRO_LOGICAL:
        return _AVRO_LOGICAL[logical]
    if kind == "array":
        return pa.list_(_avro_type(schema["items"]))
    if kind == "map":
        return pa.map_(pa.string(), _avro_type(schema["values"]))
    if kind == "record":
        return pa.struct(_avro_fields(schema))
    if kind == "fixed":
        return pa.binary(schema["size"])
    if isinstance(kind, dict):
        return _avro_type(kind)
    if kind in _AVRO_PRIMITIVE:
        return _AVRO_PRIMITIVE[kind]
    raise TypeError(f"the Avro type {kind!r} cannot be stored in a column; only primitive types can be given by name")
