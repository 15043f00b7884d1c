"""The contract of a serialiser written by a user."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import IO, Generic, TypeVar

__all__ = ["TypeSerializer"]

T = TypeVar("T")


class TypeSerializer(ABC, Generic[T]):
    """Writes values of a type to a binary stream, and reads them back.

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

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return type(self).__name__
