"""Job settings by Flink's keys, and the file they are loaded from."""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, overload

import yaml

from .config_options import ConfigOption
from .config_values import (
    parse_boolean,
    parse_duration,
    parse_float,
    parse_integer,
    parse_list,
    parse_memory_size,
    to_text,
)
from .deprecated_keys import find_key
from .java import add_jars_to_context_class_loader, get_gateway
from .known_keys import refusal
from .time import Duration

__all__ = ["Configuration", "add_jars_to_context_class_loader", "get_gateway", "load_configuration"]

T = TypeVar("T")
D = TypeVar("D")

CONF_DIR_VARIABLE = "FLINT_CONF_DIR"
CONF_FILES = ("flint.yaml", "config.yaml")


class Configuration:
    """Settings by key. Values are stored as given; getters convert them, and resolve deprecated keys.

    Example::

        >>> config = Configuration().set_string("parallelism.default", "4")
        >>> config.get_integer("parallelism.default", 1)
        4
    """

    def __init__(self, other: Configuration | None = None) -> None:
        self._values: dict[str, Any] = {} if other is None else dict(other._values)

    @classmethod
    def from_dict(cls, map: Mapping[str, Any]) -> Configuration:
        """Creates a configuration from a dict; nested dicts become dotted keys."""
        config = cls()
        config._values.update(_flat(map))
        return config

    def get_string(self, key: str, default_value: D) -> str | D:
        """Returns the value as a string, or the default if not set."""
        return self._read(key, default_value, lambda value, _: to_text(value))

    def set_string(self, key: str, value: str) -> Configuration:
        """Sets a string."""
        return self._set(key, value, str)

    def get_integer(self, key: str, default_value: D) -> int | D:
        """Returns the value as an int, or the default if not set."""
        return self._read(key, default_value, parse_integer)

    def set_integer(self, key: str, value: int) -> Configuration:
        """Sets an int."""
        return self._set(key, value, int)

    def get_boolean(self, key: str, default_value: D) -> bool | D:
        """Returns the value as a bool (``true`` or ``false`` in any case), or the default if not set."""
        return self._read(key, default_value, parse_boolean)

    def set_boolean(self, key: str, value: bool) -> Configuration:
        """Sets a bool."""
        return self._set(key, value, bool)

    def get_float(self, key: str, default_value: D) -> float | D:
        """Returns the value as a float, or the default if not set."""
        return self._read(key, default_value, parse_float)

    def set_float(self, key: str, value: float) -> Configuration:
        """Sets a float."""
        return self._set(key, value, (int, float))

    def get_bytearray(self, key: str, default_value: D) -> bytearray | D:
        """Returns the bytes, or the default if not set."""
        return self._read(key, default_value, _bytes)

    def set_bytearray(self, key: str, value: bytearray | bytes) -> Configuration:
        """Sets bytes."""
        return self._set(key, value, (bytes, bytearray))

    def get_duration(self, key: str, default_value: D) -> Duration | D:
        """Returns the value as a Duration (``10 s``, ``PT10S``), or the default if not set."""
        return self._read(key, default_value, parse_duration)

    def get_memory_size(self, key: str, default_value: D) -> int | D:
        """Returns the value in bytes (from ``64mb``), or the default if not set."""
        return self._read(key, default_value, parse_memory_size)

    def get_list(self, key: str) -> list[str]:
        """Returns the items of a list value (``a;b`` or ``[a, b]``); empty if not set."""
        return self._read(key, [], lambda value, _: parse_list(value))

    @overload
    def get(self, option: ConfigOption[T]) -> T | None: ...
    @overload
    def get(self, option: str, default: Any = None) -> Any: ...
    def get(self, option: Any, default: Any = None) -> Any:
        """Returns the value of an option, converted to its type, or its default; by key, the value as given."""
        if isinstance(option, ConfigOption):
            return self._read(option.key, option.default_value, lambda value, _: option.parse(value))
        return self._read(option, default, lambda value, _: value)

    def set(self, option: ConfigOption[Any] | str, value: Any) -> Configuration:
        """Sets the value of an option or key."""
        if isinstance(option, ConfigOption):
            option.parse(value)
            option = option.key
        self._values[_checked_key(option)] = value
        return self

    def key_set(self) -> builtins.set[str]:
        """Returns the keys that are set."""
        return set(self._values)

    def add_all_to_dict(self, target_dict: dict[str, Any]) -> None:
        """Copies all settings, as given, into a dict."""
        target_dict.update(self._values)

    def add_all(self, other: Configuration, prefix: str | None = None) -> Configuration:
        """Adds all settings of another configuration, with an optional prefix for their keys."""
        self._values.update({(prefix or "") + key: value for key, value in other._values.items()})
        return self

    def contains_key(self, key: str) -> bool:
        """Returns whether the key is set."""
        return key in self._values

    def to_dict(self) -> dict[str, str]:
        """Returns all settings as strings."""
        return {key: to_text(value) for key, value in self._values.items()}

    def remove_config(self, key: str) -> bool:
        """Removes a key; returns whether it was set."""
        return self._values.pop(key, self) is not self

    @staticmethod
    def parse_list_value(value: str | None) -> list[Any]:
        """Parses a list: YAML, on one line or several, or ``a;b;c``.

        Example::

            >>> Configuration.parse_list_value("[a, b]")
            ['a', 'b']
        """
        if not value:
            return []
        try:
            items = yaml.safe_load(value)
        except yaml.YAMLError:
            items = None
        return items if isinstance(items, list) else value.split(";")

    def _read(self, key: str, default: D, parse: Callable[[Any, str], T]) -> T | D:
        found = find_key(self._values, key)
        return default if found is None else parse(self._values[found], found)

    def _set(self, key: str, value: Any, kind: type | tuple[type, ...]) -> Configuration:
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            names = " or ".join(k.__name__ for k in kind) if isinstance(kind, tuple) else kind.__name__
            raise TypeError(f"The value {value!r} for '{key}' must be of type {names}, not {type(value).__name__}.")
        self._values[_checked_key(key)] = value
        return self

    def __eq__(self, other: object) -> bool:
        return self.to_dict() == other.to_dict() if isinstance(other, Configuration) else NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self.to_dict().items()))

    def __len__(self) -> int:
        return len(self._values)

    def __bool__(self) -> bool:
        return True  # an empty configuration is a configuration

    def __str__(self) -> str:
        return "{" + ", ".join(f"{key}={value}" for key, value in self.to_dict().items()) + "}"

    def __repr__(self) -> str:
        return f"Configuration({self._values!r})"


def load_configuration(path: str | os.PathLike[str] | None = None) -> Configuration:
    """Loads the settings of a YAML file, or of the first of ``flint.yaml`` and ``config.yaml`` in a directory.

    Without a path, the directory is ``$FLINT_CONF_DIR``; if that is not set, the configuration is empty. Nested
    mappings become dotted keys: ``parallelism: {default: 4}`` sets ``parallelism.default``. A file that cannot be read
    or parsed raises a ValueError with the file and the line.
    """
    file = _find_file(path)
    if file is None:
        return Configuration()
    try:
        document = yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except OSError as error:
        raise ValueError(f"Cannot read the configuration {file}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"Cannot read the configuration {file}: it is not UTF-8.") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{file}, line {mark.line + 1}" if mark else str(file)
        raise ValueError(f"Cannot read the configuration {where}: {getattr(error, 'problem', error)}.") from error
    config = Configuration()
    if document is None or document.value in ("", []):
        return config
    _add_node(file, document, "", config._values)
    return config


def _find_file(path: str | os.PathLike[str] | None) -> Path | None:
    if path is None:
        directory = os.environ.get(CONF_DIR_VARIABLE)
        if not directory:
            return None
        path = directory
        if not Path(path).is_dir():
            raise ValueError(f"${CONF_DIR_VARIABLE} is {directory!r}, which is not a directory.")
    found = Path(path)
    if not found.is_dir():
        return found
    return next((found / name for name in CONF_FILES if (found / name).is_file()), None)


def _add_node(file: Path, node: Any, prefix: str, values: dict[str, Any]) -> None:
    line = node.start_mark.line + 1
    if not isinstance(node, yaml.MappingNode):
        raise ValueError(f"Cannot read the configuration {file}, line {line}: expected 'key: value'.")
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            raise ValueError(f"Cannot read the configuration {file}, line {line}: a key must be plain text.")
        key = prefix + key_node.value
        if isinstance(value_node, yaml.MappingNode) and value_node.value:
            _add_node(file, value_node, key + ".", values)
            continue
        if key in values:
            raise ValueError(f"Cannot read the configuration {file}, line {line}: '{key}' is set twice.")
        wrong = refusal(key)
        if wrong is not None:
            raise ValueError(f"Cannot read the configuration {file}, line {line}: {wrong}")
        value = _construct(value_node)
        if value is not None:
            values[key] = value


def _construct(node: Any) -> Any:
    # YAML reads 'yes' as a boolean and '1:30' as a sexagesimal number; Flink does neither. Only unambiguous values are
    # converted.
    if isinstance(node, yaml.SequenceNode):
        return [_construct(item) for item in node.value]
    if isinstance(node, yaml.MappingNode):
        return None
    text = node.value
    if node.style is None:
        if text in ("", "~", "null"):
            return None
        for parse in (parse_integer, parse_boolean):
            try:
                return parse(text)
            except ValueError:
                continue
        if node.tag == "tag:yaml.org,2002:float":
            try:
                return float(text)
            except ValueError:
                return text
    return text


def _bytes(value: Any, key: str) -> bytearray:
    if not isinstance(value, (bytes, bytearray)):
        raise ValueError(f"Could not parse the value {value!r} of '{key}': expected bytes.")
    return bytearray(value)


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{prefix}{key}."))
        else:
            flat[_checked_key(f"{prefix}{key}")] = value
    return flat


def _checked_key(key: Any) -> str:
    if not isinstance(key, str) or not key:
        raise TypeError(f"A configuration key must be a non-empty string, not {key!r}.")
    return key
