"""Parses option values in Flink's notation: durations (``10 s``), memory sizes (``64mb``), lists and maps."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from typing import Any, NoReturn, TypeVar

from .time import Duration, Time

__all__ = [
    "one_of",
    "parse_boolean",
    "parse_duration",
    "parse_enum",
    "parse_float",
    "parse_integer",
    "parse_list",
    "parse_memory_size",
]

_Choice = TypeVar("_Choice", bound=Enum)

_NANOS = {
    1: ("ns", "nano", "nanos", "nanosecond", "nanoseconds"),
    1_000: ("us", "µs", "micro", "micros", "microsecond", "microseconds"),
    1_000_000: ("", "ms", "milli", "millis", "millisecond", "milliseconds"),
    1_000_000_000: ("s", "sec", "secs", "second", "seconds"),
    60_000_000_000: ("m", "min", "mins", "minute", "minutes"),
    3_600_000_000_000: ("h", "hour", "hours"),
    86_400_000_000_000: ("d", "day", "days"),
}
_TIME_UNITS = {label: nanos for nanos, labels in _NANOS.items() for label in labels}
_MEMORY_UNITS = {
    label: 1024**power
    for power, labels in enumerate(
        (
            ("", "b", "bytes"),
            ("k", "kb", "kibibytes"),
            ("m", "mb", "mebibytes"),
            ("g", "gb", "gibibytes"),
            ("t", "tb", "tebibytes"),
        )
    )
    for label in labels
}
_NUMBER_AND_UNIT = re.compile(r"\s*(\d+)\s*([^\W\d_]*)\s*")
_ISO_8601 = re.compile(
    r"\s*(?P<sign>[-+]?)P(?:(?P<d>[-+]?\d+)D)?"
    r"(?:T(?:(?P<h>[-+]?\d+)H)?(?:(?P<m>[-+]?\d+)M)?(?:(?P<s>[-+]?\d+)(?:[.,](?P<f>\d{0,9}))?S)?)?\s*",
    re.IGNORECASE,
)


def parse_duration(value: Any, key: str = "duration") -> Duration:
    """Parses a duration: ``1 s``, ``500ms``, ``1 min``, ``PT10S``; a bare number means milliseconds.

    Example::

        >>> parse_duration("1 min")
        Duration.of_millis(60000)
    """
    if isinstance(value, Duration):
        return value
    if isinstance(value, Time):
        return Duration.of_millis(value.to_milliseconds())
    if isinstance(value, int) and not isinstance(value, bool):
        return Duration.of_millis(value)
    if isinstance(value, str):
        match = _NUMBER_AND_UNIT.fullmatch(value)
        if match and match[2].lower() in _TIME_UNITS:
            return Duration(int(match[1]) * _TIME_UNITS[match[2].lower()])
        iso = _ISO_8601.fullmatch(value)
        if iso and any(iso[part] for part in "dhms"):
            return _iso_duration(iso)
    return _refuse(key, value, "a duration, such as '10 s', '500 ms', '1 min', '2 h', '1 d' or 'PT10S'")


def _iso_duration(iso: re.Match[str]) -> Duration:
    days, hours, minutes, seconds = (int(iso[part] or 0) for part in "dhms")
    fraction = int((iso["f"] or "").ljust(9, "0")) * (-1 if (iso["s"] or "").startswith("-") else 1)
    nanos = (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1_000_000_000 + fraction
    return Duration(-nanos if iso["sign"] == "-" else nanos)


def parse_memory_size(value: Any, key: str = "memory size") -> int:
    """Parses a memory size in bytes: ``64mb``, ``1 gb``, ``512 kb``; a bare number means bytes, units are powers of
    1024.

    Example::

        >>> parse_memory_size("64mb")
        67108864
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, str):
        match = _NUMBER_AND_UNIT.fullmatch(value)
        if match and match[2].lower() in _MEMORY_UNITS:
            return int(match[1]) * int(_MEMORY_UNITS[match[2].lower()])
    return _refuse(key, value, "a memory size, such as '512 kb', '64mb' or '1 gb'")


def parse_boolean(value: Any, key: str = "value") -> bool:
    """Parses a boolean: a bool, or ``true`` or ``false`` in any case."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    return _refuse(key, value, "'true' or 'false'")


def parse_integer(value: Any, key: str = "value") -> int:
    """Parses an integer: an int or its digits."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and re.fullmatch(r"\s*[-+]?[0-9]+\s*", value):
        return int(value)
    return _refuse(key, value, "an integer")


def parse_float(value: Any, key: str = "value") -> float:
    """Parses a number: a float, an int or its digits."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            pass
    return _refuse(key, value, "a number")


def parse_list(value: Any) -> list[str]:
    """Parses a list: ``a;b;c``, a YAML list, or a list; empty for None and the empty string."""
    if value is None or value == "":
        return []
    if isinstance(value, (list, tuple)):
        return [to_text(item) for item in value]
    text = to_text(value).strip()
    if text.startswith(("[", "- ")):
        import yaml

        loaded = yaml.load(text, Loader=yaml.BaseLoader)
        return [str(item) for item in loaded]
    return [item.strip() for item in text.split(";") if item.strip()]


def to_text(value: Any) -> str:
    """Formats a value as in a configuration file: ``true`` for True, ``10 s`` for a duration of ten seconds."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Duration):
        millis, rest = divmod(value.to_nanos(), 1_000_000)
        return f"{value.to_nanos()} ns" if rest else f"{millis // 1000} s" if millis % 1000 == 0 else f"{millis} ms"
    if isinstance(value, (list, tuple)):
        return ";".join(map(to_text, value))
    if isinstance(value, dict):
        return ",".join(f"{key}:{to_text(item)}" for key, item in value.items())
    return str(value)


def _refuse(key: str, value: Any, wanted: str) -> NoReturn:
    raise ValueError(f"Could not parse the value {value!r} of '{key}': expected {wanted}.")


def one_of(*names: str) -> Callable[[Any, str], str]:
    """Reads one of some names, in upper or lower case: `one_of("owner", "group")("Group", "permissions")` is `group`."""
    known = {name.lower(): name for name in names}

    def parse(value: Any, key: str) -> str:
        name = known.get(str(value).strip().lower())
        if name is None:
            raise ValueError(f"'{key}' must be one of {', '.join(names)}, got {value!r}")
        return name

    return parse


def parse_enum(kind: type[_Choice], value: Any, key: str) -> _Choice:
    """Reads the name of a member, in upper or lower case, with `-` or `_`."""
    return kind[one_of(*kind.__members__)(str(value).replace("-", "_"), key)]
