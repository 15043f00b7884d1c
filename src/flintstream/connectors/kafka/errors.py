"""Errors of the Kafka connector, and the messages of confluent-kafka."""

from __future__ import annotations

import importlib
from typing import Any

from flintstream.runtime.faults import PermanentError


class KafkaConnectorError(Exception):
    """Kafka could not be reached, or has refused a request; the message says which."""


class LostTransactionError(PermanentError):
    """A transaction of a completed checkpoint was aborted, and its records are lost."""


def check_packages(what: str, *names: str) -> None:
    """Raises an error that says what to install if one of the Python packages is missing."""
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise ImportError(
                f"{what} needs the Python package {name.replace('_', '-')}, also where the slots run: "
                "pip install 'flintstream[kafka]'"
            ) from error


def reason_of(error: Any) -> str:
    """Returns the reason of an error of confluent-kafka, with its name: `UNKNOWN_TOPIC_OR_PART: …`."""
    found = error.args[0] if isinstance(error, Exception) and error.args else error
    if hasattr(found, "name") and hasattr(found, "str"):
        return f"{found.name()}: {found.str()}"
    return f"{type(error).__name__}: {error}" if isinstance(error, Exception) else str(error)
