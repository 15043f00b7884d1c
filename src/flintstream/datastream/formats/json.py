"""JSON lines files as a source, and JSON messages."""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from flintstream.common.serialization import DeserializationSchema, SerializationSchema
from flintstream.common.typeinfo import (
    BasicTypeInfo,
    MapTypeInfo,
    PickledBytesTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    Types,
)
from flintstream.common.types import Row, make_row
from flintstream.connectors.files.formats import LineFormat
from flintstream.datastream.formats.text_values import element_type_of, parse_date_time, parser

__all__ = ["JsonLinesFormat", "JsonRowDeserializationSchema", "JsonRowSerializationSchema"]

Converter = Callable[[Any], Any]

_BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())
_TEXT_FORMATS: dict[str, TypeInformation] = {
    "date": Types.SQL_DATE(),
    "time": Types.SQL_TIME(),
    "date-time": Types.SQL_TIMESTAMP(),
}
_SIMPLE: dict[str | None, TypeInformation] = {
    "number": Types.BIG_DEC(),
    "integer": Types.BIG_INT(),
    "boolean": Types.BOOLEAN(),
}


class JsonLinesFormat(LineFormat):
    """Files with one JSON value per line: dicts, or Rows if a type is given. Empty lines are skipped.

    Example::

        row_type = Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])
        source = FileSource.for_record_stream_format(JsonLinesFormat(row_type), "/data/in").build()

    :param type_info: the type of the records. Fields that a line lacks are None, fields that the type lacks
        are left out.
    :param charset_name: the encoding of the files.
    """

    def __init__(self, type_info: TypeInformation | None = None, charset_name: str = "UTF-8") -> None:
        super().__init__(charset_name)
        self._type = type_info
        self._convert: Converter | None = None
        if type_info is not None:
            json_converter(type_info)  # raises for types without a JSON form

    @property
    def produced_type(self) -> TypeInformation | None:
        return self._type

    def decode(self, lines: list[str]) -> list[Any]:
        if "" in lines:
            lines = [line for line in lines if line]
        values = list(map(json.loads, lines))
        if self._type is None:
            return values
        if self._convert is None:
            self._convert = json_converter(self._type)
        return list(map(self._convert, values))

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_convert": None}


class JsonRowDeserializationSchema(DeserializationSchema):
    """Deserialises a JSON message to a Row.

    Example::

        schema = JsonRowDeserializationSchema.builder() \\
            .type_info(Types.ROW_NAMED(["id"], [Types.INT()])).build()
        schema.deserialize(b'{"id": 1}')  # Row(id=1)
    """

    def __init__(
        self,
        row_type: TypeInformation,
        fail_on_missing_field: bool = False,
        ignore_parse_errors: bool = False,
    ) -> None:
        self._arguments = (row_type, fail_on_missing_field, ignore_parse_errors)
        self._type = row_type
        self._ignore_parse_errors = ignore_parse_errors
        self._convert = json_converter(row_type, fail_on_missing_field)

    def __reduce__(self) -> Any:
        return JsonRowDeserializationSchema, self._arguments

    @staticmethod
    def builder() -> JsonRowDeserializationSchema.Builder:
        """Returns a builder without a type."""
        return JsonRowDeserializationSchema.Builder()

    def deserialize(self, message: bytes) -> Any:
        try:
            return self._convert(json.loads(message))
        except (ValueError, TypeError, ArithmeticError) as error:
            if self._ignore_parse_errors:
                return None
            raise ValueError(f"cannot read the JSON message {bytes(message)[:200]!r}: {error}") from error

    def get_produced_type(self) -> TypeInformation:
        return self._type

    class Builder:
        """Settings of a `JsonRowDeserializationSchema`."""

        def __init__(self) -> None:
            self._type: TypeInformation | None = None
            self._fail_on_missing_field = False
            self._ignore_parse_errors = False

        def type_info(self, type_info: TypeInformation) -> JsonRowDeserializationSchema.Builder:
            """Sets the type of the rows."""
            self._type = type_info
            return self

        def json_schema(self, json_schema: str) -> JsonRowDeserializationSchema.Builder:
            """Sets the type of the rows, given as a JSON schema."""
            if json_schema is None:
                raise TypeError("The json_schema must not be None.")
            self._type = type_of_json_schema(json.loads(json_schema))
            return self

        def fail_on_missing_field(self) -> JsonRowDeserializationSchema.Builder:
            """Refuses messages with missing fields; by default a missing field is None."""
            self._fail_on_missing_field = True
            return self

        def ignore_parse_errors(self) -> JsonRowDeserializationSchema.Builder:
            """Skips messages that cannot be parsed."""
            self._ignore_parse_errors = True
            return self

        def build(self) -> JsonRowDeserializationSchema:
            """Returns the schema."""
            if self._type is None:
                raise TypeError("Typeinfo should be set.")
            if self._fail_on_missing_field and self._ignore_parse_errors:
                raise ValueError("JSON format doesn't support failOnMissingField and ignoreParseErrors are both true.")
            return JsonRowDeserializationSchema(self._type, self._fail_on_missing_field, self._ignore_parse_errors)


class JsonRowSerializationSchema(SerializationSchema):
    """Serialises a Row to a JSON message.

    Example::

        schema = JsonRowSerializationSchema.builder() \\
            .with_type_info(Types.ROW_NAMED(["id"], [Types.INT()])).build()
        schema.serialize(Row(id=1))  # b'{"id":1}'
    """

    def __init__(self, row_type: TypeInformation) -> None:
        self._type = row_type

    @staticmethod
    def builder() -> JsonRowSerializationSchema.Builder:
        """Returns a builder without a type."""
        return JsonRowSerializationSchema.Builder()

    def serialize(self, element: Any) -> bytes | None:
        return self.serialize_block([element])[0]

    def serialize_block(self, elements: list[Any]) -> list[bytes | None]:
        encode = _ENCODER.encode
        return [encode(row).encode() for row in self._type.coerce(elements)]

    class Builder:
        """Settings of a `JsonRowSerializationSchema`."""

        def __init__(self) -> None:
            self._type: TypeInformation | None = None

        def with_type_info(self, type_info: TypeInformation) -> JsonRowSerializationSchema.Builder:
            """Sets the type of the rows."""
            self._type = type_info
            return self

        def build(self) -> JsonRowSerializationSchema:
            """Returns the schema."""
            if self._type is None:
                raise TypeError("Typeinfo should be set.")
            return JsonRowSerializationSchema(self._type)


def json_converter(type_info: TypeInformation, strict: bool = False) -> Converter:
    """Returns a function that converts a parsed JSON value to a value of that type.

    :param strict: whether to refuse rows with missing fields, which are None otherwise.
    """
    if isinstance(type_info, PickledBytesTypeInfo):
        return lambda value: value
    if isinstance(type_info, RowTypeInfo):
        return _row_converter(type_info, strict)
    if isinstance(type_info, TupleTypeInfo):
        fields = [json_converter(kind, strict) for kind in type_info.get_field_types()]
        return _nullable(lambda value: tuple(to(item) for to, item in zip(fields, value, strict=True)))
    if isinstance(type_info, MapTypeInfo):
        to_value = json_converter(type_info.value_type, strict)
        return _nullable(lambda value: {key: to_value(item) for key, item in value.items()})
    element = element_type_of(type_info)
    if element is not None and type_info != _BYTES:
        to_element = json_converter(element, strict)
        return _nullable(lambda value: [to_element(item) for item in value])
    return _nullable(_single(type_info))


def type_of_json_schema(schema: Any) -> TypeInformation:
    """Returns the type that a JSON schema describes, by the rules of Flink's JsonRowSchemaConverter."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    if isinstance(kind, list):
        kinds = [each for each in kind if each != "null"]
        kind = kinds[0] if len(kinds) == 1 else None
    if kind == "object":
        properties = schema.get("properties", {})
        return Types.ROW_NAMED(list(properties), [type_of_json_schema(each) for each in properties.values()])
    if kind == "array" and isinstance(schema.get("items"), dict):
        return Types.OBJECT_ARRAY(type_of_json_schema(schema["items"]))
    if kind == "string":
        if schema.get("contentEncoding") == "base64":
            return _BYTES
        return _TEXT_FORMATS.get(schema.get("format", ""), Types.STRING())
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    raise ValueError(f"this part of the JSON schema is not supported: {json.dumps(schema)[:200]}")


def _row_converter(type_info: RowTypeInfo, strict: bool) -> Converter:
    names = tuple(type_info.get_field_names())
    fields = [
        (name, json_converter(kind, strict)) for name, kind in zip(names, type_info.get_field_types(), strict=True)
    ]

    def convert(value: Any) -> Row | None:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise TypeError(f"expected an object with the fields {', '.join(names)}, got {value!r:.100}")
        if strict and not value.keys() >= set(names):
            missing = ", ".join(repr(name) for name in names if name not in value)
            raise ValueError(f"the field {missing} is missing in {value!r:.100}")
        return make_row([_field(name, to, value.get(name)) for name, to in fields], names)

    return convert


def _field(name: str, convert: Converter, value: Any) -> Any:
    try:
        return convert(value)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise ValueError(f"field {name!r}: {error}") from error


def _single(type_info: TypeInformation) -> Converter:
    if type_info == Types.STRING():
        return lambda value: value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    if type_info == Types.BIG_DEC():
        return lambda value: Decimal(str(value))
    if type_info == Types.SQL_TIMESTAMP():
        return lambda value: parse_date_time(value).replace(tzinfo=None)
    if isinstance(type_info, BasicTypeInfo) and type_info != Types.INSTANT():
        parse = parser(type_info)
        return lambda value: parse(value) if isinstance(value, str) else type_info.coerce([value])[0]
    if type_info in (Types.SQL_DATE(), Types.SQL_TIME(), _BYTES):
        return parser(type_info)
    raise TypeError(f"values of type {type_info} cannot be read from JSON")


def _nullable(convert: Converter) -> Converter:
    return lambda value: None if value is None else convert(value)


def _plain(value: Any) -> Any:
    """Converts a value without a JSON form to one that has one."""
    if isinstance(value, Row):
        names = value._fields
        return list(value) if names is None else dict(zip(names, value, strict=True))
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    raise TypeError(f"{value!r} ({type(value).__name__}) cannot be written as JSON")


_ENCODER = json.JSONEncoder(default=_plain, ensure_ascii=False, separators=(",", ":"))
