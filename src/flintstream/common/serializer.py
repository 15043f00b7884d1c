"""TypeSerializer: the interface of serialisers."""

from __future__ import annotations

import io
import pickle
from abc import ABC, abstractmethod
from typing import IO, Generic

from .serializer_snapshot import ClassSnapshot, TypeSerializerSnapshot
from .type_variables import T

__all__ = ["TypeSerializer"]


class TypeSerializer(ABC, Generic[T]):
    """Writes values of a type to a binary stream, and reads them back.

    A user-defined serialiser needs only the two methods for single values. It is used for the values of a type whose
    :meth:`~flintstream.common.typeinfo.TypeInformation.create_serializer` returns it; None never reaches it there.

    Equal values should have equal bytes, so that they can be keys; reading may return another of the equal values, such
    as 0.0 for -0.0. The methods for blocks of values are not used for keys: they preserve every detail of a value.

    Example::

        class Text(TypeSerializer[str]):
            def serialize(self, element, stream):
                data = element.encode()
                stream.write(len(data).to_bytes(4, "big") + data)

            def deserialize(self, stream):
                return stream.read(int.from_bytes(stream.read(4), "big")).decode()
    """

    @abstractmethod
    def serialize(self, element: T, stream: IO[bytes]) -> None:
        """Writes one value."""

    @abstractmethod
    def deserialize(self, stream: IO[bytes]) -> T:
        """Reads one value, consuming exactly its bytes."""

    def to_bytes(self, element: T, canonical: bool = True) -> bytes:
        """Returns the bytes that :meth:`serialize` writes.

        Without `canonical`, equal values may have different bytes, and every detail of a value is preserved.
        """
        stream = io.BytesIO()
        self.serialize(element, stream)
        return stream.getvalue()

    def from_bytes(self, data: bytes) -> T:
        """Returns the value of these bytes."""
        return self.deserialize(io.BytesIO(data))

    def serialize_all(self, values: list[T | None]) -> bytes:
        """Returns the bytes of a block of values, any of which may be None."""
        encode = self.to_bytes
        return pickle.dumps([None if value is None else encode(value) for value in values], 5)

    def deserialize_all(self, data: bytes) -> list[T | None]:
        """Returns the values of a block."""
        decode = self.from_bytes
        # Each value has its own stream, so that a serialiser that reads to the end does not consume the bytes of
        # others.
        return [None if item is None else decode(item) for item in pickle.loads(data)]

    def snapshot_configuration(self) -> TypeSerializerSnapshot:
        """Returns the snapshot to store with the values, which describes how they were written."""
        return ClassSnapshot(self)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return type(self).__name__
