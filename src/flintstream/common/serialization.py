"""Serialisation of records for connectors: schemas, encoders for files, and bulk writers."""

from __future__ import annotations

import codecs
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NoReturn

from .java import java_only
from .typeinfo import TypeInformation, Types
from .types import Row

__all__ = [
    "BulkWriterFactory",
    "ByteArraySchema",
    "DeserializationSchema",
    "Encoder",
    "RowFieldExtractorSchema",
    "SerializationSchema",
    "SimpleStringSchema",
    "TypeInformationSerializationSchema",
]


class SerializationSchema(ABC):
    """Serialises records for a sink.

    Example::

        class Lines(SerializationSchema):
            def serialize(self, element):
                return f"{element};".encode()
    """

    def open(self) -> None:
        """Called once per slot, before the first record."""

    @abstractmethod
    def serialize(self, element: Any) -> bytes | None:
        """Returns the bytes of a record; None drops it."""

    def serialize_block(self, elements: list[Any]) -> list[bytes | None]:
        """Serialises a block of records."""
        return list(map(self.serialize, elements))


class DeserializationSchema(ABC):
    """Deserialises records for a source.

    Example::

        class Numbers(DeserializationSchema):
            def deserialize(self, message):
                return int(message)
    """

    def open(self) -> None:
        """Called once per slot, before the first message."""

    @abstractmethod
    def deserialize(self, message: bytes) -> Any:
        """Returns the record in a message; None drops the message."""

    def deserialize_block(self, messages: list[bytes]) -> list[Any]:
        """Deserialises a block of messages."""
        return list(map(self.deserialize, messages))

    def is_end_of_stream(self, next_element: Any) -> bool:
        """Returns whether the source ends with this record."""
        return False

    def get_produced_type(self) -> TypeInformation:
        """Returns the type of the records."""
        return Types.PICKLED_BYTE_ARRAY()


class SimpleStringSchema(SerializationSchema, DeserializationSchema):
    """Strings in a character encoding.

    Example::

        >>> SimpleStringSchema().serialize("é")
        b'\\xc3\\xa9'
    """

    def __init__(self, charset: str = "UTF-8") -> None:
        self.charset = _checked_charset(charset)

    def serialize(self, element: Any) -> bytes | None:
        if not isinstance(element, str):
            raise TypeError(f"SimpleStringSchema writes strings, not {element!r} ({type(element).__name__}).")
        return element.encode(self.charset)

    def serialize_block(self, elements: list[Any]) -> list[bytes | None]:
        charset = self.charset
        try:
            return [str.encode(element, charset) for element in elements]
        except TypeError:
            return super().serialize_block(elements)

    def deserialize(self, message: bytes) -> Any:
        # As in Java, undecodable bytes become replacement characters: a malformed message must not stop a job.
        return str(message, self.charset, "replace")

    def deserialize_block(self, messages: list[bytes]) -> list[Any]:
        charset = self.charset
        return [str(message, charset, "replace") for message in messages]

    def get_produced_type(self) -> TypeInformation:
        return Types.STRING()


class ByteArraySchema(SerializationSchema, DeserializationSchema):
    """Bytes, unchanged.

    Example::

        >>> ByteArraySchema().deserialize(b"ab")
        b'ab'
    """

    def serialize(self, element: Any) -> bytes | None:
        if not isinstance(element, (bytes, bytearray, memoryview)):
            raise TypeError(f"ByteArraySchema writes bytes, not {element!r} ({type(element).__name__}).")
        return bytes(element)

    def deserialize(self, message: bytes) -> Any:
        return bytes(message)

    def get_produced_type(self) -> TypeInformation:
        return Types.PRIMITIVE_ARRAY(Types.BYTE())


class RowFieldExtractorSchema(SerializationSchema):
    """One field of a row, which holds bytes: for the key of a message whose value has its own schema.

    Example::

        >>> RowFieldExtractorSchema(1).serialize(Row("a", b"xy"))
        b'xy'
    """

    def __init__(self, field_index: int) -> None:
        if isinstance(field_index, bool) or not isinstance(field_index, int) or field_index < 0:
            raise ValueError(f"Field index must be non-negative, got: {field_index!r}")
        self.field_index = field_index

    def __eq__(self, other: object) -> bool:
        return self.field_index == other.field_index if isinstance(other, RowFieldExtractorSchema) else NotImplemented

    def __hash__(self) -> int:
        return hash((RowFieldExtractorSchema, self.field_index))

    def serialize(self, element: Any) -> bytes | None:
        if element is None:
            return b""
        if not isinstance(element, (Row, tuple)):
            raise TypeError(f"RowFieldExtractorSchema reads rows, not {element!r} ({type(element).__name__}).")
        if self.field_index >= len(element):
            raise ValueError(f"The row {element!r} has no field {self.field_index}.")
        field = element[self.field_index]
        if field is None:
            return b""
        if not isinstance(field, (bytes, bytearray)):
            raise TypeError(f"Field {self.field_index} of {element!r} must hold bytes, not {type(field).__name__}.")
        return bytes(field)


class TypeInformationSerializationSchema(SerializationSchema, DeserializationSchema):
    """Records of a declared type, in the bytes of Flintstream's own serialiser of that type.

    For topics and queues between jobs of Flintstream. The bytes are not those of Flink, and reading them trusts whoever
    has written them: they may contain pickled objects.

    Example::

        >>> schema = TypeInformationSerializationSchema(Types.TUPLE([Types.STRING(), Types.LONG()]))
        >>> schema.deserialize(schema.serialize(("a", 1)))
        ('a', 1)
    """

    def __init__(self, type_info: TypeInformation) -> None:
        if not isinstance(type_info, TypeInformation):
            raise TypeError(f"TypeInformationSerializationSchema: type_info must be a type of Types, got {type_info!r}")
        self.type_info = type_info
        self._serializer = type_info.create_serializer()

    def serialize(self, element: Any) -> bytes | None:
        if element is None:
            raise TypeError(f"TypeInformationSerializationSchema writes values of {self.type_info}, not None.")
        return self._serializer.to_bytes(element, canonical=False)

    def deserialize(self, message: bytes) -> Any:
        return self._serializer.from_bytes(message)

    def get_produced_type(self) -> TypeInformation:
        return self.type_info


class Encoder:
    """Writes records into a file, one after another.

    Example::

        >>> Encoder.simple_string_encoder().encode(1.5)
        b'1.5\\n'
    """

    def __init__(self, encode: Callable[[Any], bytes]) -> None:
        self._encode = encode

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        """Writes each record as text, on its own line."""
        return Encoder(_Lines(_checked_charset(charset_name)))

    def encode(self, element: Any) -> bytes:
        """Returns the bytes of a record, including its separator."""
        return self._encode(element)


class _Lines:
    def __init__(self, charset: str) -> None:
        self.charset = charset

    def __call__(self, element: Any) -> bytes:
        return f"{element}\n".encode(self.charset)


class BulkWriterFactory:
    """Creates writers for formats that store many records in one structure, such as Parquet.

    Each format has a subclass that implements :meth:`create`; the sink calls ``add_element``, ``flush`` and ``finish``
    of the writer.
    """

    writes_parquet = False
    """Whether the files are Parquet, so that they can be concatenated by columns."""

    def create(self, stream: Any) -> Any:
        """Returns a writer onto an open binary file."""
        raise NotImplementedError(f"{type(self).__name__} has no writer: use a factory that a format offers.")

    def get_java_object(self) -> NoReturn:
        """Not supported: there is no Java object."""
        java_only("BulkWriterFactory.get_java_object()", "Pass the factory itself.")


def _checked_charset(charset: str) -> str:
    try:
        codecs.lookup(charset)
    except LookupError:
        raise ValueError(f"Unknown charset {charset!r}.") from None
    return charset
