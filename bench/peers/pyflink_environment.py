"""The environment that PyFlink's sides run in."""

from __future__ import annotations

import sys

from pyflink.common import Configuration
from pyflink.datastream import StreamExecutionEnvironment

from bench.functions import KEYS


def environment(mode: str = "process", **settings: str) -> StreamExecutionEnvironment:
    """Parallelism 2; the caches and bundles are larger than PyFlink's defaults, which helps it.

    `settings` are further options.
    """
    configuration = Configuration()
    configuration.set_string("python.execution-mode", mode)
    configuration.set_string("python.executable", sys.executable)
    configuration.set_string("python.client.executable", sys.executable)
    configuration.set_string("python.fn-execution.bundle.size", "10000")
    configuration.set_string("python.state.cache-size", str(2 * KEYS))
    for key, value in settings.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    return env
