"""All ``flint.*`` options: key, parser, default and description.

Every setting specific to Flintstream is declared here and read with :meth:`FlintOption.of`. The table in
``docs/guide/configuration.md`` is checked against these declarations, and an undeclared ``flint.*`` key is refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from .config_values import one_of, parse_boolean, parse_duration, parse_memory_size
from .time import Duration

__all__ = ["FLINT_OPTIONS", "FlintOption"]

T = TypeVar("T")


@dataclass(frozen=True)
class FlintOption(Generic[T]):
    """An option specific to Flintstream."""

    key: str
    parse: Callable[[Any, str], T]
    """Parses the value; raises a ValueError with the key, the value and what is expected."""
    default: str
    """The default, as shown in the documentation."""
    meaning: str
    """One line for the documentation."""

    def of(self, configuration: Mapping[str, Any]) -> T | None:
        """Returns the value in a configuration; None if not set and without default."""
        given = configuration.get(self.key)
        return None if given is None else self.parse(given, self.key)


def _positive_duration(value: Any, key: str) -> Duration:
    duration = parse_duration(value, key)
    if duration.to_nanos() <= 0:
        raise ValueError(f"{key} must be greater than 0, got {value!r}")
    return duration


def _job_id(value: Any, key: str) -> str:
    if not re.fullmatch("[0-9a-fA-F]{32}", str(value)):
        raise ValueError(f"{key} must be 32 hexadecimal digits, got {value!r}")
    return str(value)


def _names(value: Any, key: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in str(value).split(",") if name.strip())


EPOCH_TARGET = FlintOption(
    "flint.epoch.target-duration",
    _positive_duration,
    "`1 s`, and up to `4 s` [while there is a backlog](how-it-works.md); `4 s` in batch mode",
    "how long an epoch should last where there is enough to read. What is set holds with a backlog, too",
)
EPOCH_LEAST_INTERVAL = FlintOption(
    "flint.epoch.min-interval", parse_duration, "`100 ms`", "epochs do not start more often than this"
)
TRANSPORT = FlintOption(
    "flint.transport",
    one_of("auto", "pipelined", "epochs"),
    "`auto`",
    "how blocks travel between slots: `pipelined`, as they come, in one standing Spark job; or in `epochs`, each a Spark "
    "job, which is what `auto` chooses for now; or `FLINT_TRANSPORT`",
)
MAX_MEMORY_STATE_SIZE = FlintOption(
    "flint.checkpointing.max-memory-state-size",
    parse_memory_size,
    "`5 mb`",
    "the most state of one subtask in a checkpoint that is kept in the driver's memory",
)
CHECKPOINT_PERMISSIONS = FlintOption(
    "flint.checkpoints.permissions",
    one_of("owner", "group", "umask"),
    "`owner`",
    "who may read checkpoints and savepoints in a directory: `owner` (0600, directories 0700), `group` (0640, 0750), "
    "or "
    "what the `umask` leaves",
)
SIGNING_KEY_FILE = FlintOption(
    "flint.checkpoints.signing-key-file",
    lambda value, key: str(value),
    "none",
    "a file with the keys by which checkpoints and savepoints are signed; others are not restored then, see "
    "[checkpoints](checkpoints.md#whom-you-trust)",
)
NETWORK_ENCRYPTION = FlintOption(
    "flint.network.encryption",
    parse_boolean,
    "`false`",
    "whether all that goes between the machines of a job is encrypted, see "
    "[deployment](deployment.md#who-may-connect-and-what-is-encrypted)",
)
JOB_ID = FlintOption(
    "flint.job-id",
    _job_id,
    "a new one",
    "the id of the job: 32 hexadecimal digits; the first job of a program takes it, later ones get new ids",
)
SLOT_CALL_TIMEOUT = FlintOption(
    "flint.slot.call-timeout",
    _positive_duration,
    "`5 min`",
    "how long a slot may take to answer the driver where no code of the program runs; then the job fails",
)
REPORT_AFTER = FlintOption(
    "flint.slot.report-after",
    _positive_duration,
    "`1 min`",
    "when slots have worked on one epoch, or one call, for that long, the operator and its stack are logged; again "
    "after "
    "twice the time, and so on",
)
PROGRESS = FlintOption(
    "flint.progress", parse_boolean, "`true`", "whether a terminal shows the live line; or `FLINT_PROGRESS=0`"
)
SPARK_LOG_LEVEL = FlintOption(
    "flint.spark.log-level",
    one_of("all", "trace", "debug", "info", "warn", "error", "fatal", "off"),
    "`error`",
    "what the JVM logs on standard error: `off` to `all`; or `FLINT_SPARK_LOG`",
)

RECOVER = FlintOption(
    "flint.recover",
    parse_boolean,
    "`false`",
    "whether a job with a `flint.job-id` continues from the newest checkpoint in its own directory, if there is one; the "
    "[job server](server.md) sets it when it starts a driver again",
)
SERVER_DATA = FlintOption(
    "flint.server.data",
    lambda value, key: str(value),
    "`~/.local/share/flint-server`",
    "the directory where the [job server](server.md) stores everything; `--data`",
)
SERVER_TOKEN_FILE = FlintOption(
    "flint.server.token-file",
    lambda value, key: str(value),
    "none",
    "the file of the token that requests to the job server must carry, see [security](security.md)",
)
SERVER_MAX_UPLOAD_SIZE = FlintOption(
    "flint.server.max-upload-size",
    parse_memory_size,
    "`100 mb`",
    "the largest program, with its files, that the job server accepts",
)
SERVER_ALLOWED_HOSTS = FlintOption(
    "flint.server.allowed-hosts",
    _names,
    "none",
    "further names by which clients may address the job server, separated by commas; needed behind a proxy",
)


def wanted_transport(configuration: Mapping[str, Any]) -> str:
    """Returns the transport that a configuration, or else the environment, asks for."""
    return TRANSPORT.of(configuration) or TRANSPORT.parse(os.environ.get("FLINT_TRANSPORT", "auto"), "FLINT_TRANSPORT")


FLINT_OPTIONS: tuple[FlintOption[Any], ...] = (
    EPOCH_TARGET,
    EPOCH_LEAST_INTERVAL,
    TRANSPORT,
    MAX_MEMORY_STATE_SIZE,
    CHECKPOINT_PERMISSIONS,
    SIGNING_KEY_FILE,
    NETWORK_ENCRYPTION,
    SLOT_CALL_TIMEOUT,
    REPORT_AFTER,
    JOB_ID,
    RECOVER,
    PROGRESS,
    SPARK_LOG_LEVEL,
    SERVER_DATA,
    SERVER_TOKEN_FILE,
    SERVER_MAX_UPLOAD_SIZE,
    SERVER_ALLOWED_HOSTS,
)
"""All options, in the order of the documentation."""
