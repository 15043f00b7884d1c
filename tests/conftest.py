"""Fixtures every test may use."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flintstream.datastream import StreamExecutionEnvironment

# How long an example takes says nothing on a machine that has other work. CI tries the same examples each time; a
# developer tries new ones.
settings.register_profile("flintstream", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("flintstream")

_PREFETCH: pytest.StashKey[subprocess.Popen[bytes]] = pytest.StashKey()

# A test's Spark lives for seconds. The optimising compiler of Java would take half of the machine in that time, and pay
# back nothing; the first one is enough. All drivers that tests start inherit this.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")
# Tests leave nothing in the user's cache, and no process that makes an archive behind.
os.environ.setdefault("FLINT_CLASS_ARCHIVE", "off")


def pytest_configure(config: pytest.Config) -> None:
    """Each slot is a new Python: where the tree is to stay free of bytecode, it lies in the cache of the tests."""
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
        place = os.environ.setdefault("PYTHONPYCACHEPREFIX", str(config.rootpath / ".pytest_cache" / "bytecode"))
        sys.dont_write_bytecode, sys.pycache_prefix = False, place


def pytest_collection_finish(session: pytest.Session) -> None:
    """What servers of the tests are made of is downloaded while other tests run, by one process of the run."""
    wanted = any(item.path.is_relative_to(session.config.rootpath / "tests" / "connectors") for item in session.items)
    if not wanted or session.config.option.collectonly or os.environ.get("PYTEST_XDIST_WORKER", "gw0") != "gw0":
        return
    if session.config.getoption("numprocesses", None) and "PYTEST_XDIST_WORKER" not in os.environ:
        return  # The one that only deals the tests out.
    assert session.config.cache is not None
    session.config.stash[_PREFETCH] = subprocess.Popen(
        [sys.executable, "-m", "tests.connectors.prefetch", str(session.config.cache.mkdir("servers"))],
        cwd=session.config.rootpath,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def pytest_unconfigure(config: pytest.Config) -> None:
    """Ends what is still being downloaded."""
    process = config.stash.get(_PREFETCH, None)
    if process is not None and process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    """The one Spark session of this test process; it is stopped when the process exits."""
    from flintstream.spark.session import get_or_create_session

    return get_or_create_session({}, slots=8)


@pytest.fixture
def env(spark: SparkSession) -> StreamExecutionEnvironment:
    """A fresh environment with parallelism 2 on the shared Spark session."""
    from flintstream.datastream import StreamExecutionEnvironment

    environment = StreamExecutionEnvironment.get_execution_environment()
    environment.set_parallelism(2)
    return environment
