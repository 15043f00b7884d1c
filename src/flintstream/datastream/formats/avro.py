"""Avro: the names are here, reading and writing it is not available yet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

from flintstream.common.serialization import DeserializationSchema, SerializationSchema
from flintstream.common.typeinfo import TypeInformation
from flintstream.datastream.utils import ResultTypeQueryable

__all__ = [
    "AvroBulkWriters",
    "AvroInputFormat",
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
    "GenericRecordAvroTypeInfo",
]


def _not_yet(what: str) -> NoReturn:
    raise NotImplementedError(f"{what} is not available yet: Flintstream cannot read or write Avro")


class AvroSchema:
    """An Avro schema.

    Example::

        AvroSchema.parse_string('{"type": "record", "name": "A", "fields": [{"name": "x", "type": "int"}]}')
    """

    def __init__(self, schema: Any) -> None:
        self.schema = schema

    @staticmethod
    def parse_string(json_schema: str) -> AvroSchema:
        """From JSON."""
        try:
            return AvroSchema(json.loads(json_schema))
        except ValueError as error:
            raise ValueError(f"AvroSchema: this is no JSON: {error}") from error

    @staticmethod
    def parse_file(file_path: str) -> AvroSchema:
        """From a file with JSON in it."""
        return AvroSchema.parse_string(Path(file_path).read_text(encoding="utf-8"))


class GenericRecordAvroTypeInfo(TypeInformation):
    """The type of records of an Avro schema: dicts, which pass as they are."""

    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema

    def _identity(self) -> tuple[Any, ...]:
        return (json.dumps(self._schema.schema, sort_keys=True),)


class AvroBulkWriters:
    """Not available yet: writing Avro files."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> NoReturn:
        """Not available yet."""
        _not_yet("AvroBulkWriters")


class AvroInputFormat(ResultTypeQueryable):
    """Not available yet: reading Avro files."""

    def __init__(self, path: str, schema: AvroSchema) -> None:
        _not_yet("AvroInputFormat")

    def get_java_object(self) -> NoReturn:
        """Not available."""
        _not_yet("AvroInputFormat")

    def get_produced_type(self) -> TypeInformation:
        """Not available yet."""
        _not_yet("AvroInputFormat")


class AvroRowDeserializationSchema(DeserializationSchema):
    """Not available yet: rows from Avro messages."""

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None) -> None:
        _not_yet("AvroRowDeserializationSchema")

    def deserialize(self, message: bytes) -> Any:
        _not_yet("AvroRowDeserializationSchema")


class AvroRowSerializationSchema(SerializationSchema):
    """Not available yet: Avro messages from rows."""

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None) -> None:
        _not_yet("AvroRowSerializationSchema")

    def serialize(self, element: Any) -> bytes | None:
        _not_yet("AvroRowSerializationSchema")
