"""The environment variables read by several modules, and a way to set variables temporarily."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

CONF_OVERRIDES = "FLINT_CONF_OVERRIDES"
"""Settings of the command line for the program it runs, as JSON."""
PLAN_ONLY = "FLINT_PLAN_ONLY"
"""Whether a program only shows its plan (1), and runs no job."""
ARCHIVE_DIRECTORY = "FLINT_ARCHIVE_DIR"
"""Where a driver leaves the last details of its jobs, for the job server that started it."""
PLAN_FILE = "FLINT_PLAN_FILE"
"""Where a program that only shows its plan also writes it, as JSON."""
SPARK_MASTERS = ("FLINT_SPARK_MASTER", "SPARK_MASTER", "MASTER")
"""The Spark master if the configuration sets none; the first variable that is set counts."""


def spark_master() -> str | None:
    """Returns the Spark master set in the environment."""
    return next((os.environ[name] for name in SPARK_MASTERS if os.environ.get(name)), None)


@contextmanager
def environment_variables(variables: Mapping[str, str]) -> Iterator[None]:
    """Sets variables for this process and its children; restores the previous values on exit."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
