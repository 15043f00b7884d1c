"""Settings of file sinks: bucket assigners, rolling policies, file names."""

from __future__ import annotations

import datetime
import re
import zoneinfo
from typing import NoReturn, Protocol

from flintstream.common.arguments import positive
from flintstream.common.java import java_only

__all__ = [
    "BucketAssigner",
    "DefaultRollingPolicy",
    "NoJavaObject",
    "OnCheckpointRollingPolicy",
    "OutputFileConfig",
    "RollingPolicy",
]


class NoJavaObject:
    """Base class of settings without a Java object."""

    def get_java_object(self) -> NoReturn:
        """Not supported: there is no Java object."""
        java_only(f"{type(self).__name__}.get_java_object()", "Pass the object itself.")


class BucketContext(Protocol):
    """What a bucket assigner can access about the current record."""

    def timestamp(self) -> int | None:
        """Returns the record's timestamp in milliseconds; None if it has none."""

    def current_watermark(self) -> int:
        """Returns the current watermark of the sink."""

    def current_processing_time(self) -> int:
        """Returns the slot's clock, in milliseconds since 1970."""


class BucketAssigner(NoJavaObject):
    """Assigns records to directories below the sink's path.

    Besides the two predefined ones, you can write your own::

        class ByCountry(BucketAssigner):
            def get_bucket_id(self, element, context):
                return f"country={element.country}"
    """

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner:
        """Writes all files to the sink's path itself."""
        return _BasePath()

    @staticmethod
    def date_time_bucket_assigner(format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None) -> BucketAssigner:
        """Writes to a directory per hour, or per other period given by the format, by the sink's clock.

        :param format_str: a pattern of Java's DateTimeFormatter: `yyyy`, `MM`, `dd`, `HH`, `mm`, `ss`,
            `SSS`, and texts in single quotes.
        :param timezone_id: e.g. `Europe/Berlin` or `GMT-08:00`; the machine's own by default.
        """
        return _DateTime(format_str, timezone_id)

    def get_bucket_id(self, element: object, context: BucketContext) -> str:
        """Returns the name of the directory, relative to the sink's path; empty for that path itself."""
        raise NotImplementedError(f"{type(self).__name__} does not define get_bucket_id(element, context)")

    def bucket_at(self, millis: int) -> str | None:
        """Returns the common bucket of all records written at this time; None if it depends on the record."""
        return None


class _BasePath(BucketAssigner):
    def bucket_at(self, millis: int) -> str | None:
        return ""

    def get_bucket_id(self, element: object, context: BucketContext) -> str:
        return ""


_PATTERN = re.compile(r"'(?P<text>(?:[^']|'')*)'|(?P<letters>([A-Za-z])\3*)|(?P<other>[^A-Za-z'])")
_MILLIS = "\0"
_LETTERS = {
    "yyyy": "%Y",
    "uuuu": "%Y",
    "yy": "%y",
    "MM": "%m",
    "dd": "%d",
    "DDD": "%j",
    "HH": "%H",
    "mm": "%M",
    "ss": "%S",
}


class _DateTime(BucketAssigner):
    def __init__(self, format_str: str, timezone_id: str | None) -> None:
        self._format = _python_format(format_str)
        self._zone = None if timezone_id is None else _zone(timezone_id)

    def bucket_at(self, millis: int) -> str | None:
        moment = datetime.datetime.fromtimestamp(millis // 1000, self._zone)
        return moment.strftime(self._format.replace(_MILLIS, f"{millis % 1000:03}"))

    def get_bucket_id(self, element: object, context: BucketContext) -> str:
        return self.bucket_at(context.current_processing_time()) or ""


def _python_format(pattern: str) -> str:
    parts = []
    position = 0
    while position < len(pattern):
        found = _PATTERN.match(pattern, position)
        if found is None:
            raise ValueError(f"date_time_bucket_assigner: a quote is not closed in the format {pattern!r}")
        position = found.end()
        if found["letters"] is None:
            text = found["other"] or (found["text"].replace("''", "'") if found["text"] else "'")
            parts.append(text.replace("%", "%%"))
        elif found["letters"] == "SSS":
            parts.append(_MILLIS)
        elif found["letters"] in _LETTERS:
            parts.append(_LETTERS[found["letters"]])
        else:
            known = ", ".join([*_LETTERS, "SSS"])
            raise ValueError(
                f"date_time_bucket_assigner: {found['letters']!r} in {pattern!r} is not supported; "
                f"supported are {known}, and texts in single quotes"
            )
    return "".join(parts)


def _zone(timezone_id: str) -> datetime.tzinfo:
    offset = re.fullmatch(r"(?:GMT|UTC|UT)?([+-])(\d{1,2})(?::?(\d{2}))?", timezone_id)
    if offset:
        sign = -1 if offset[1] == "-" else 1
        return datetime.timezone(sign * datetime.timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0)))
    try:
        return zoneinfo.ZoneInfo("UTC" if timezone_id == "Z" else timezone_id)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        raise ValueError(f"date_time_bucket_assigner: unknown time zone {timezone_id!r}") from None


class RollingPolicy(NoJavaObject):
    """When a part file is closed, so that the next record starts another one.

    Example::

        RollingPolicy.default_rolling_policy(part_size=1024 ** 3, rollover_interval=15 * 60 * 1000)
    """

    @staticmethod
    def default_rolling_policy(
        part_size: int = 1024 * 1024 * 128,
        rollover_interval: int = 60 * 1000,
        inactivity_interval: int = 60 * 1000,
    ) -> DefaultRollingPolicy:
        """Rolls by size (bytes), age and inactivity (milliseconds)."""
        return DefaultRollingPolicy(part_size, rollover_interval, inactivity_interval)

    @staticmethod
    def on_checkpoint_rolling_policy() -> OnCheckpointRollingPolicy:
        """Rolls at each checkpoint, and at the end."""
        return OnCheckpointRollingPolicy()


class DefaultRollingPolicy(RollingPolicy):
    """Rolls by size (bytes), age and inactivity (milliseconds)."""

    def __init__(self, part_size: int, rollover_interval: int, inactivity_interval: int) -> None:
        self.part_size = positive("default_rolling_policy: part_size", part_size)
        self.rollover_interval = positive("default_rolling_policy: rollover_interval", rollover_interval)
        self.inactivity_interval = positive("default_rolling_policy: inactivity_interval", inactivity_interval)


class OnCheckpointRollingPolicy(RollingPolicy):
    """Rolls at each checkpoint, and at the end."""


class OutputFileConfig(NoJavaObject):
    """How part files are named.

    Example::

        OutputFileConfig.builder().with_part_prefix("orders").with_part_suffix(".txt").build()
    """

    def __init__(self, part_prefix: str, part_suffix: str) -> None:
        for what, value in (("part_prefix", part_prefix), ("part_suffix", part_suffix)):
            if not isinstance(value, str) or "/" in value:
                raise ValueError(f"OutputFileConfig: {what} must be a string without slashes, got {value!r}")
        if part_prefix.startswith((".", "_")):
            raise ValueError(
                f"OutputFileConfig: part_prefix {part_prefix!r} would hide the files: it must not start with '.' or '_'"
            )
        self._part_prefix = part_prefix
        self._part_suffix = part_suffix

    @staticmethod
    def builder() -> OutputFileConfig.OutputFileConfigBuilder:
        """Returns a builder with the prefix `part` and no suffix."""
        return OutputFileConfig.OutputFileConfigBuilder()

    def get_part_prefix(self) -> str:
        """Returns the prefix of file names."""
        return self._part_prefix

    def get_part_suffix(self) -> str:
        """Returns the suffix of file names."""
        return self._part_suffix

    class OutputFileConfigBuilder:
        """Builds an `OutputFileConfig`."""

        def __init__(self) -> None:
            self.part_prefix = "part"
            self.part_suffix = ""

        def with_part_prefix(self, prefix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Sets the prefix of file names."""
            self.part_prefix = prefix
            return self

        def with_part_suffix(self, suffix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Sets the suffix of file names, such as `.txt`."""
            self.part_suffix = suffix
            return self

        def build(self) -> OutputFileConfig:
            """Returns the settings."""
            return OutputFileConfig(self.part_prefix, self.part_suffix)
