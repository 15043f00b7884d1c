"""Configuration options: a key, the type of its value, and a default."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from .config_values import (
    parse_boolean,
    parse_duration,
    parse_float,
    parse_integer,
    parse_memory_size,
    to_text,
)
from .time import Duration

__all__ = ["ConfigOption", "ConfigOptions"]

T = TypeVar("T")
_Parser = Callable[[Any, str], Any]


class ConfigOption(Generic[T]):
    """An option to read from a :class:`~flintstream.common.Configuration` with ``get``.

    Example::

        >>> retries = ConfigOptions.key("my.retries").int_type().default_value(3)
        >>> retries.key, retries.default_value
        ('my.retries', 3)
    """

    def __init__(self, key: str, parser: _Parser, default_value: T | None = None) -> None:
        self.key = key
        self.default_value = default_value
        self._parser = parser

    def parse(self, value: Any) -> T:
        """Converts a value to the option's type; raises a ValueError with the key and the value if it cannot."""
        parsed: T = self._parser(value, self.key)
        return parsed

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConfigOption):
            return NotImplemented
        return (self.key, self.default_value, self._parser) == (other.key, other.default_value, other._parser)

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"ConfigOption({self.key!r}, default={self.default_value!r})"


class ConfigOptions:
    """The start of an option: ``ConfigOptions.key("my.timeout").duration_type().no_default_value()``."""

    def __init__(self, key: str) -> None:
        self._key = key

    @staticmethod
    def key(key: str) -> ConfigOptions.OptionBuilder:
        """Starts an option with this key."""
        return ConfigOptions.OptionBuilder(key)

    class OptionBuilder:
        """An option with a key but no type yet."""

        def __init__(self, key: str) -> None:
            self._key = key

        def boolean_type(self) -> ConfigOptions.TypedConfigOptionBuilder[bool]:
            """True or False."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, parse_boolean)

        def int_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """An integer."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, parse_integer)

        def long_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """An integer."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, parse_integer)

        def float_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            """A number."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, parse_float)

        def double_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            """A number."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, parse_float)

        def string_type(self) -> ConfigOptions.TypedConfigOptionBuilder[str]:
            """A string."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, _text)

        def duration_type(self) -> ConfigOptions.TypedConfigOptionBuilder[Duration]:
            """A duration, such as ``10 s``."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, parse_duration)

        def memory_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """A memory size in bytes, such as ``64mb``."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, parse_memory_size)

    class TypedConfigOptionBuilder(Generic[T]):
        """An option with a key and a type but no default yet."""

        def __init__(self, key: str, parser: _Parser) -> None:
            self._key = key
            self._parser = parser

        def default_value(self, value: T) -> ConfigOption[T]:
            """Returns the option with a default value."""
            return ConfigOption(self._key, self._parser, value)

        def no_default_value(self) -> ConfigOption[T]:
            """Returns the option without a default: None if not set."""
            return ConfigOption(self._key, self._parser)


def _text(value: Any, key: str) -> str:
    return to_text(value)
