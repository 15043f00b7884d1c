"""Environment variables: the names of those that several modules read, and variables that are set for a while."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

CONF_OVERRIDES = "FLINT_CONF_OVERRIDES"
"""Settings of the command line for the program that it runs, as JSON."""
PLAN_ONLY = "FLINT_PLAN_ONLY"
"""Whether a program only shows its plan (1), and runs no job."""
SPARK_MASTERS = ("FLINT_SPARK_MASTER", "SPARK_MASTER", "MASTER")
"""Which Spark a job runs on where the configuration does not say; the first that is set counts."""


def spark_master() -> str | None:
    """The Spark master that the environment names."""
    return next((os.environ[name] for name in SPARK_MASTERS if os.environ.get(name)), None)


@contextmanager
def environment_variables(variables: Mapping[str, str]) -> Iterator[None]:
    """Sets variables of this process and of those that it starts; what there was before is put back afterwards."""
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
