"""Redis commands of records: which command, with which keys, and with which time-to-live."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic

from flintstream.common.arguments import positive
from flintstream.common.type_variables import IN

__all__ = ["RedisCommand", "RedisCommandDescription", "RedisDataType", "RedisMapper"]

Command = tuple[Any, ...]
"""A command as sent to the server: its name and arguments."""

_PLAIN = (str, bytes, int, float)


class RedisDataType(Enum):
    """The data type of a Redis key."""

    STRING = "string"
    HASH = "hash"
    LIST = "list"
    SET = "set"
    SORTED_SET = "sorted set"
    HYPER_LOG_LOG = "HyperLogLog"
    PUBSUB = "channel"
    STREAM = "stream"


class RedisCommand(Enum):
    """A command for the key and the value of a record."""

    SET = "SET"
    """Sets the key to the value."""
    SETEX = "SETEX"
    """Sets the key to the value, with a time-to-live."""
    INCRBY = "INCRBY"
    """Increments the number at the key by the value."""
    INCRBY_EX = "INCRBY_EX"
    """As `INCRBY`, and restarts the time-to-live of the key."""
    DECRBY = "DECRBY"
    """Decrements the number at the key by the value."""
    DECRBY_EX = "DECRBY_EX"
    """As `DECRBY`, and restarts the time-to-live of the key."""
    DESCRBY_EX = DECRBY_EX
    """`DECRBY_EX` as Flink spells it."""
    HSET = "HSET"
    """Sets the field `key` of the hash `additional_key` to the value."""
    HINCRBY = "HINCRBY"
    """Increments the number in the field `key` of the hash `additional_key` by the value."""
    LPUSH = "LPUSH"
    """Prepends the value to the list at the key."""
    RPUSH = "RPUSH"
    """Appends the value to the list at the key."""
    SADD = "SADD"
    """Adds the value to the set at the key."""
    ZADD = "ZADD"
    """Adds the key to the sorted set `additional_key`, with the value as its score."""
    ZINCRBY = "ZINCRBY"
    """Increments the score of the member `key` in the sorted set `additional_key` by the value."""
    ZREM = "ZREM"
    """Removes the member `key` from the sorted set `additional_key`; the value is not used."""
    PFADD = "PFADD"
    """Adds the value to the HyperLogLog at the key."""
    PUBLISH = "PUBLISH"
    """Publishes the value on the channel `key`."""
    XADD = "XADD"
    """Appends an entry to the stream `additional_key`: the fields of a dict, or the value as the field `key`."""

    def get_redis_data_type(self) -> RedisDataType:
        """Returns the data type of the key that the command writes."""
        return _FORMS[self].data_type

    @property
    def idempotent(self) -> bool:
        """Returns whether repeating the command changes nothing."""
        return _FORMS[self].idempotent


@dataclass(frozen=True)
class _Form:
    """How a command is built from the additional key, the key and the value."""

    data_type: RedisDataType
    idempotent: bool
    make: Callable[[Any, Any, Any], Command]
    needs_additional_key: bool = False
    needs_ttl: bool = False
    takes_value: bool = True


def _entry(stream: Any, key: Any, value: Any) -> Command:
    fields = [part for field in value.items() for part in field] if isinstance(value, Mapping) else [key, value]
    return ("XADD", stream, "*", *fields)


_T = RedisDataType
_FORMS = {
    RedisCommand.SET: _Form(_T.STRING, True, lambda _, key, value: ("SET", key, value)),
    RedisCommand.SETEX: _Form(_T.STRING, True, lambda _, key, value: ("SET", key, value), needs_ttl=True),
    RedisCommand.INCRBY: _Form(_T.STRING, False, lambda _, key, value: ("INCRBY", key, value)),
    RedisCommand.INCRBY_EX: _Form(_T.STRING, False, lambda _, key, value: ("INCRBY", key, value), needs_ttl=True),
    RedisCommand.DECRBY: _Form(_T.STRING, False, lambda _, key, value: ("DECRBY", key, value)),
    RedisCommand.DECRBY_EX: _Form(_T.STRING, False, lambda _, key, value: ("DECRBY", key, value), needs_ttl=True),
    RedisCommand.HSET: _Form(_T.HASH, True, lambda name, key, value: ("HSET", name, key, value), True),
    RedisCommand.HINCRBY: _Form(_T.HASH, False, lambda name, key, value: ("HINCRBY", name, key, value), True),
    RedisCommand.LPUSH: _Form(_T.LIST, False, lambda _, key, value: ("LPUSH", key, value)),
    RedisCommand.RPUSH: _Form(_T.LIST, False, lambda _, key, value: ("RPUSH", key, value)),
    RedisCommand.SADD: _Form(_T.SET, True, lambda _, key, value: ("SADD", key, value)),
    RedisCommand.ZADD: _Form(_T.SORTED_SET, True, lambda name, key, score: ("ZADD", name, score, key), True),
    RedisCommand.ZINCRBY: _Form(_T.SORTED_SET, False, lambda name, key, by: ("ZINCRBY", name, by, key), True),
    RedisCommand.ZREM: _Form(_T.SORTED_SET, True, lambda name, key, _: ("ZREM", name, key), True, takes_value=False),
    RedisCommand.PFADD: _Form(_T.HYPER_LOG_LOG, True, lambda _, key, value: ("PFADD", key, value)),
    RedisCommand.PUBLISH: _Form(_T.PUBSUB, False, lambda _, key, value: ("PUBLISH", key, value)),
    RedisCommand.XADD: _Form(_T.STREAM, False, _entry, True),
}


@dataclass(frozen=True)
class RedisCommandDescription:
    """A command and what all records share: the name of the hash, sorted set or stream, and the time-to-live.

    Example::

        RedisCommandDescription(RedisCommand.HSET, "counts", 3600)

    :param command: the command for the key and the value of a record.
    :param additional_key: the name of the hash, sorted set or stream. An integer is taken as the time-to-live, as in
        Flink.
    :param additional_ttl: the time-to-live of the key after its last record, in seconds; by default none.
    :param max_length: for `XADD`: the approximate maximum length of the stream; by default unlimited.
    """

    command: RedisCommand
    additional_key: str | int | None = None
    additional_ttl: int | None = None
    max_length: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.command, RedisCommand):
            raise TypeError(f"RedisCommandDescription: command must be a RedisCommand, got {self.command!r}")
        if isinstance(self.additional_key, int) and self.additional_ttl is None:
            object.__setattr__(self, "additional_ttl", self.additional_key)
            object.__setattr__(self, "additional_key", None)
        if not isinstance(self.additional_key, (str, type(None))):
            raise TypeError(f"RedisCommandDescription: additional_key must be a string, got {self.additional_key!r}")
        if self.additional_ttl is not None:
            positive("RedisCommandDescription: additional_ttl", self.additional_ttl)
            if self.command is RedisCommand.PUBLISH:
                raise ValueError("RedisCommandDescription: PUBLISH writes no key, so additional_ttl has no meaning")
        if self.max_length is not None:
            positive("RedisCommandDescription: max_length", self.max_length)
            if self.command is not RedisCommand.XADD:
                raise ValueError(f"RedisCommandDescription: max_length is for XADD, not for {self.command.name}")

    def get_command(self) -> RedisCommand:
        """Returns the command."""
        return self.command

    def get_additional_key(self) -> str | None:
        """Returns the name of the hash, sorted set or stream."""
        assert not isinstance(self.additional_key, int)
        return self.additional_key

    def get_additional_ttl(self) -> int | None:
        """Returns the time-to-live in seconds; None for none."""
        return self.additional_ttl


class RedisMapper(ABC, Generic[IN]):
    """Maps records to a command. Keys and values are strings, bytes or numbers.

    Example::

        class Counts(RedisMapper):
            def get_command_description(self):
                return RedisCommandDescription(RedisCommand.HSET, "counts")

            def get_key_from_data(self, data):
                return data[0]

            def get_value_from_data(self, data):
                return data[1]
    """

    @abstractmethod
    def get_command_description(self) -> RedisCommandDescription:
        """Returns the command of all records; called once, when the graph is built."""

    @abstractmethod
    def get_key_from_data(self, data: IN) -> Any:
        """Returns the key of a record."""

    @abstractmethod
    def get_value_from_data(self, data: IN) -> Any:
        """Returns the value of a record."""

    def get_additional_key(self, data: IN) -> Any:
        """Returns the name of the hash, sorted set or stream for this record; None for that of the description."""
        return None

    def get_additional_ttl(self, data: IN) -> int | None:
        """Returns the time-to-live (seconds) of this record's key; None for that of the description."""
        return None


class CommandsOfRecords:
    """Builds the commands of records with a mapper. Created on the driver, where it checks the description."""

    def __init__(self, owner: str, mapper: RedisMapper[Any]) -> None:
        description = mapper.get_command_description()
        if not isinstance(description, RedisCommandDescription):
            raise TypeError(
                f"{owner}: {type(mapper).__name__}.get_command_description() must return a RedisCommandDescription, "
                f"got {description!r}"
            )
        self._mapper = mapper
        self._description = description
        self._own_keys = _overridden(mapper, "get_additional_key")
        self._own_ttls = _overridden(mapper, "get_additional_ttl")
        self._check(owner)

    @property
    def command(self) -> RedisCommand:
        """Returns the command of all records."""
        return self._description.command

    def of(self, record: Any) -> list[Command]:
        """Returns the commands of a record: one, or two with a time-to-live."""
        mapper, description, form = self._mapper, self._description, _FORMS[self._description.command]
        key = _plain(mapper.get_key_from_data(record), "get_key_from_data")
        value = mapper.get_value_from_data(record) if form.takes_value else None
        if form.takes_value and not (form.data_type is RedisDataType.STREAM and isinstance(value, Mapping)):
            _plain(value, "get_value_from_data")
        name, ttl = description.additional_key, description.additional_ttl
        if form.needs_additional_key and self._own_keys:
            own = mapper.get_additional_key(record)
            name = name if own is None else own
            _plain(name, "get_additional_key")
        if self._own_ttls:
            own_ttl = mapper.get_additional_ttl(record)
            ttl = ttl if own_ttl is None else positive("get_additional_ttl: the time-to-live", own_ttl)
        made = form.make(name, key, value)
        if description.max_length is not None:
            made = (*made[:2], "MAXLEN", "~", description.max_length, *made[2:])
        if ttl is None and not form.needs_ttl:
            return [made]
        if ttl is None:
            raise ValueError(f"get_additional_ttl returned None, but {self.command.name} needs a time-to-live")
        return [(*made, "EX", ttl)] if made[0] == "SET" else [made, ("EXPIRE", made[1], ttl)]

    def _check(self, owner: str) -> None:
        description, form = self._description, _FORMS[self._description.command]
        name = description.command.name
        if form.needs_additional_key and not description.additional_key and not self._own_keys:
            raise ValueError(
                f"{owner}: {name} needs the name of a {form.data_type.value}: RedisCommandDescription(RedisCommand.{name}, "
                "'name'), or get_additional_key in the mapper"
            )
        if form.needs_ttl and description.additional_ttl is None and not self._own_ttls:
            raise ValueError(
                f"{owner}: {name} needs a time-to-live: RedisCommandDescription(RedisCommand.{name}, None, seconds), "
                "or get_additional_ttl in the mapper"
            )
        if description.command is RedisCommand.PUBLISH and self._own_ttls:
            raise ValueError(f"{owner}: PUBLISH writes no key, so get_additional_ttl in the mapper has no meaning")


def _overridden(mapper: RedisMapper[Any], method: str) -> bool:
    return getattr(type(mapper), method) is not getattr(RedisMapper, method)


def _plain(value: Any, method: str) -> Any:
    """Returns a key or value, if the server supports its type."""
    if not isinstance(value, _PLAIN) or isinstance(value, bool):
        raise TypeError(f"{method} must return a string, bytes or a number, got {value!r}")
    return value
