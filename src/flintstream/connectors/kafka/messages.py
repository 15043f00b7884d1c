"""Converts the messages of a partition to records, block by block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from flintstream.common.serialization import DeserializationSchema
from flintstream.runtime.batch import NO_TIMESTAMP
from flintstream.runtime.source import SourceError

if TYPE_CHECKING:
    from flintstream.common.typeinfo import TypeInformation

Message = Any
"""A message of confluent-kafka, in whose own type every part is optional."""


class KafkaRecord(NamedTuple):
    """A message of a topic."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    """In milliseconds since 1970; None if the topic has no timestamps."""
    key: bytes | None
    value: bytes | None
    """None for a tombstone, which deletes its key from a compacted topic."""
    headers: tuple[tuple[str, bytes | None], ...]


class RecordDeserializer(ABC):
    """Converts messages to records."""

    @property
    def produced_type(self) -> TypeInformation | None:
        """The type of the records, if known."""
        return None

    def open(self) -> None:
        """Called once in the slot."""

    @abstractmethod
    def records(self, messages: list[Message]) -> tuple[list[Any], list[int]]:
        """Returns the records of messages of one partition, and their timestamps."""


class ValueOnly(RecordDeserializer):
    """Deserialises the value only."""

    def __init__(self, schema: DeserializationSchema) -> None:
        self.schema = schema

    @property
    def produced_type(self) -> TypeInformation | None:
        return self.schema.get_produced_type()

    def open(self) -> None:
        self.schema.open()

    def records(self, messages: list[Message]) -> tuple[list[Any], list[int]]:
        try:
            values = self.schema.deserialize_block([message.value() for message in messages])
        except Exception:
            values = [self._one(message) for message in messages]
        timestamps = [time if kind else NO_TIMESTAMP for kind, time in [message.timestamp() for message in messages]]
        if None in values:
            kept = [index for index, value in enumerate(values) if value is not None]
            return [values[index] for index in kept], [timestamps[index] for index in kept]
        return values, timestamps

    def _one(self, message: Message) -> Any:
        try:
            return self.schema.deserialize(message.value())
        except Exception as error:
            raise unreadable(message, self.schema, error) from error


class WholeRecord(RecordDeserializer):
    """Passes whole messages to the user's code, which yields any number of records."""

    def __init__(self, schema: Any, produced_type: TypeInformation | None) -> None:
        self._schema = schema
        self._type = produced_type

    @property
    def produced_type(self) -> TypeInformation | None:
        return self._type

    def open(self) -> None:
        self._schema.open()

    def records(self, messages: list[Message]) -> tuple[list[Any], list[int]]:
        values: list[Any] = []
        timestamps: list[int] = []
        for message in messages:
            record = record_of(message)
            try:
                made: Iterable[Any] | None = self._schema.deserialize(record)
                found = () if made is None else list(made)
            except Exception as error:
                raise unreadable(message, self._schema, error) from error
            values.extend(found)
            timestamps.extend([NO_TIMESTAMP if record.timestamp is None else record.timestamp] * len(found))
        return values, timestamps


def record_of(message: Message) -> KafkaRecord:
    """Converts a message of the client."""
    kind, time = message.timestamp()
    return KafkaRecord(
        message.topic(),
        message.partition(),
        message.offset(),
        time if kind else None,
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )


def unreadable(message: Message, schema: Any, error: Exception) -> SourceError:
    """Returns the error for a message that cannot be deserialised."""
    value = message.value()
    shown = "no value (a tombstone)" if value is None else f"the value {_short(value)}"
    return SourceError(
        f"{type(schema).__name__} cannot read offset {message.offset()} of partition {message.partition()} of topic "
        f"'{message.topic()}', which has {shown}: {error!r}"
    )


def _short(value: bytes) -> str:
    return repr(value) if len(value) <= 100 else f"{value[:100]!r}... ({len(value):,} bytes)"
