"""The contract of a serialiser: how values of a type become bytes, and values again."""

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

    A serialiser of your own needs only the two methods for single values. It is used for the values of a type whose
    :meth:`~flintstream.common.typeinfo.TypeInformation.create_serializer` returns it; None never reaches it there.

    Values that are equal should have equal bytes, so that they can be keys; what is read back may be another of the
    equal values, such as 0.0 for -0.0. The methods for whole blocks of values are not for keys: there a value is read
    back in every detail.

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
        """Write one value."""

    @abstractmethod
    def deserialize(self, stream: IO[bytes]) -> T:
        """Read the value that was written: exactly its bytes."""

    def to_bytes(self, element: T, canonical: bool = True) -> bytes:
        """The bytes that :meth:`serialize` writes.

        Without `canonical`, the value may have other bytes than one that it equals, and is read back in every detail.
        """
        stream = io.BytesIO()
        self.serialize(element, stream)
        return stream.getvalue()

    def from_bytes(self, data: bytes) -> T:
        """The value whose bytes these are."""
        return self.deserialize(io.BytesIO(data))

    def serialize_all(self, values: list[T | None]) -> bytes:
        """The bytes of a block of values, any of which may be None."""
        encode = self.to_bytes
        return pickle.dumps([None if value is None else encode(value) for value in values], 5)

    def deserialize_all(self, data: bytes) -> list[T | None]:
        """The values of a block."""
        decode = self.from_bytes
        # Each value has a stream of its own, so that one that reads to the end of it takes no other's bytes.
        return [None if item is None else decode(item) for item in pickle.loads(data)]

    def snapshot_configuration(self) -> TypeSerializerSnapshot:
        """What is stored beside the values to know how they were written."""
        return ClassSnapshot(self)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return type(self).__name__
