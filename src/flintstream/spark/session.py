"""The Spark session a job runs on: the user's own, or a small and quiet one that Flintstream starts.

Starting is done once a process. What is set here and why:

- the JVM only moves blocks, so its heap is small; the records live in Python;
- it says nothing on stderr unless asked (``flint.spark.log-level``, ``FLINT_SPARK_LOG``);
- it leaves nothing in the user's directory: all it writes goes to one temporary directory, removed at exit, or by the
  next start if the process was killed;
- a local one listens on the loopback interface only, to those who know a random secret, and talks to Python over Unix
  sockets in a private directory;
- what goes between machines is encrypted if the job wants that (``flint.network.encryption``).
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from flintstream.common.environment_variables import environment_variables, spark_master
from flintstream.common.flint_options import SPARK_LOG_LEVEL
from flintstream.common.owned_directories import LONGEST_SOCKET_PATH, owned_directory
from flintstream.spark.encryption import check_encrypted, encrypting_settings, is_encrypted, require_package
from flintstream.spark.ending import before_ending, handle_signals
from flintstream.spark.java import create_launcher, find_java
from flintstream.spark.jvm import broken_off_cleanly, end_of_jvm, forget_spark, hush, kill_jvm, let_go
from flintstream.spark.refused_settings import REFUSED, SessionError, check_settings

__all__ = [
    "SessionError",
    "SparkLoss",
    "check_session",
    "get_or_create_session",
    "is_local",
    "job_session",
    "loss_of",
    "session_like",
    "work_directory",
]

TASK_LOG_LEVEL = "flint.spark.task-log-level"
_DEFAULT_LOG_LEVEL = "error"
LOG_LEVEL_VARIABLE = "FLINT_SPARK_LOG"

_LOG_CONFIGURATION = Path(__file__).with_name("log4j2.properties")
# Spark appends "/.<uuid>.sock" to the directory.
_LONGEST_SOCKET_DIRECTORY = LONGEST_SOCKET_PATH - 43

# The JVM's own warnings go to stdout unless told otherwise.
_JVM_OPTIONS = "-Xms64m -XX:-UsePerfData -Xlog:disable -Xlog:all=error:stderr"
# Spark refuses to start with less than 450 MB of heap beside a survivor space. For so small a heap the serial
# collector with a small young generation takes the least memory, at the same speed; a user who asks for
# another size gets Java's own choice.
_SMALL_HEAP = {"spark.driver.memory": "464m"}
_SMALL_HEAP_OPTIONS = "-XX:+UseSerialGC -Xmn64m -XX:MinHeapFreeRatio=10 -XX:MaxHeapFreeRatio=20"
_LAUNCHER_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData -Xshare:auto"

_DEFAULTS = {
    "spark.app.name": "flintstream",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.scheduler.mode": "FAIR",
    "spark.python.worker.reuse": "true",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.driver.maxResultSize": "0",
}
_LOCAL_DEFAULTS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.unix.domain.socket.enabled": "true",
    # With a secret that Spark makes up: other users of the machine reach the loopback interface too.
    "spark.authenticate": "true",
}

# What an epoch's plan needs; on the job's own session, so that the user's queries keep their settings.
_JOB_SETTINGS = {
    # An adaptive plan may coalesce or skip the partitions of a level; a level has one task a subtask, always.
    "spark.sql.adaptive.enabled": "false",
    # A row is a block of up to 1 MB: few of them make a good Arrow batch, and the first goes out early.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16",
    "spark.sql.execution.pythonUDF.arrow.enabled": "true",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
    # The files of an epoch's exchanges go when it ends, not when the JVM's collector happens to find them.
    "spark.sql.classic.shuffleDependency.fileCleanup.enabled": "true",
    # Columns are looked up in error messages only; the call site of each is costly to record.
    "spark.sql.dataFrameQueryContext.enabled": "false",
}

_lock = threading.Lock()
_work_directory: Path | None = None
_own: _OwnSpark | None = None
"""The Spark that this process has started for its jobs."""
_once_own: set[SparkContext] = set()
"""That one, and those before it that have died."""


@dataclass(frozen=True)
class SparkLoss:
    """Nothing can run on a session any more."""

    reason: str
    replaceable: bool
    """Whether there may be another: the session was ours, and nobody has stopped it on purpose."""


@dataclass(frozen=True)
class _OwnSpark:
    """A Spark of our own."""

    context: SparkContext
    gateway: Any
    directory: Path
    may_be_killed: bool
    """All that a local JVM leaves lies in its directory, unless it has an event log to finish."""


def get_or_create_session(config: Mapping[str, str] | None = None) -> SparkSession:
    """Returns the process's Spark session: the user's if there is one, else a new one.

    ``config`` is the job's configuration; its ``spark.*`` keys are given to a new session and override every
    default here.
    Raises :class:`SessionError` for a session that cannot run jobs,
    :class:`~flintstream.spark.encryption.EncryptionError` for one that is to encrypt and does not, and
    :class:`~flintstream.spark.java.JavaNotFoundError` where no Java is installed.
    """
    config = config or {}
    if is_encrypted(config):
        require_package()
    with _lock:
        _forget_the_dead()
        spark = _existing_session()
        if spark is None:
            spark = _start_session(config)
    _use_this_python(spark.sparkContext)
    check_session(spark)
    if is_encrypted(config) and not is_local(spark):
        check_encrypted(spark.sparkContext.getConf().get)
    return spark


def job_session(spark: SparkSession) -> SparkSession:
    """Returns a new session of the same Spark application, with the settings that epochs need."""
    session = spark.newSession()
    for key, value in _JOB_SETTINGS.items():
        session.conf.set(key, value)
    return session


def session_like(spark: SparkSession) -> SparkSession:
    """Returns a new session of the same Spark application, with the SQL settings of ``spark``."""
    session = spark.newSession()
    for key, value in spark.conf.getAll.items():
        if key.startswith("spark.sql.") and session.conf.isModifiable(key):
            session.conf.set(key, value)
    return session


def check_session(spark: SparkSession) -> None:
    """Raises :class:`SessionError` when exactly-once processing is impossible on ``spark``."""
    if not isinstance(spark, SparkSession):
        raise SessionError(
            "Flintstream needs a classic Spark session, and this one is Spark Connect's: "
            "unset SPARK_REMOTE, and stop that session before the job starts."
        )
    conf = spark.sparkContext.getConf()
    check_settings({key: conf.get(key, "false") for key in REFUSED})


def loss_of(spark: SparkSession) -> SparkLoss | None:
    """Why nothing can run on a session any more; None if it can. Waits some seconds at most."""
    context = spark.sparkContext
    own = context in _once_own
    if context is SparkContext._active_spark_context:
        how = end_of_jvm(SparkContext._gateway)
        return None if how is None else SparkLoss(f"Spark's JVM {how}", own)
    if getattr(context, "_jsc", None) is None:
        return SparkLoss("its Spark session was stopped", False)
    # Another job has noticed it before, or the user's program has.
    return SparkLoss("Spark's JVM has died", own)


def is_local(spark: SparkSession) -> bool:
    """Says whether driver and executors are one process (``local``, ``local[4]``, not ``local-cluster``)."""
    return _is_local_master(spark.sparkContext.master)


def _forget_the_dead() -> None:
    """Makes room for a new JVM if that of our own session has died. What was the user's is never replaced."""
    global _own
    how = None if SparkContext._gateway is None else end_of_jvm(SparkContext._gateway)
    if how is None:
        return
    context = SparkContext._active_spark_context
    if context is not None and context not in _once_own:
        raise SessionError(
            f"Spark's JVM {how}, and with it the program's own Spark session: start the program again, or make a new "
            "session before the next job."
        )
    forget_spark()
    if _own is not None:
        shutil.rmtree(_own.directory, ignore_errors=True)
        _own = None


def _existing_session() -> SparkSession | None:
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    if SparkContext._active_spark_context is not None:
        # Another thread's session, or a bare SparkContext.
        return SparkSession.builder.getOrCreate()
    return None


def _start_session(config: Mapping[str, str]) -> SparkSession:
    check_settings(config)
    # A program that logs at INFO does not mean the connections to the JVM.
    logging.getLogger("py4j").setLevel(logging.ERROR)
    directory = _jvm_directory()
    builder = SparkSession.builder
    for key, value in _settings(config, directory).items():
        builder = builder.config(key, value)
    with environment_variables(_jvm_environment(directory)), broken_off_cleanly(directory):
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel(_log_level(config).upper())
        _own_it(spark, directory)
    return spark


def _own_it(spark: SparkSession, directory: Path) -> None:
    global _own
    if not _once_own:  # Jobs, which end with the process too, end before their Spark: they come later.
        atexit.register(_stop, os.getpid())
        before_ending(_kill)
    context = spark.sparkContext
    keeps_log = _is_true(context.getConf().get("spark.eventLog.enabled"))
    _own = _OwnSpark(context, SparkContext._gateway, directory, is_local(spark) and not keeps_log)
    _once_own.add(context)
    hush(context)


def _settings(config: Mapping[str, str], work: Path) -> dict[str, str]:
    given = {key: str(value) for key, value in config.items() if key.startswith("spark.")}
    master = given.get("spark.master") or spark_master() or "local[*]"
    settings = {**_DEFAULTS, "spark.master": master}
    settings["spark.sql.warehouse.dir"] = (work / "warehouse").as_uri()
    if _is_local_master(master):
        settings.update(_LOCAL_DEFAULTS | _SMALL_HEAP)
        settings["spark.local.dir"] = str(work / "local")
        sockets = work / "s"
        sockets.mkdir(mode=0o700, exist_ok=True)
        settings["spark.python.unix.domain.socket.dir"] = str(sockets)
        if len(os.fsencode(sockets)) > _LONGEST_SOCKET_DIRECTORY:
            settings["spark.python.unix.domain.socket.enabled"] = "false"
    elif is_encrypted(config):
        settings.update(encrypting_settings(given))
    settings.update(given)
    options = [_logging_options(config), f"-Djava.io.tmpdir={work}"]
    if _is_local_master(master):
        options.insert(0, _JVM_OPTIONS)
        if not _SMALL_HEAP.keys() & given.keys():
            options.insert(0, _SMALL_HEAP_OPTIONS)
    options.append(given.get("spark.driver.extraJavaOptions", ""))
    settings["spark.driver.extraJavaOptions"] = " ".join(options).strip()
    return settings


def _logging_options(config: Mapping[str, str]) -> str:
    level = _log_level(config)
    options = f"-Dlog4j2.configurationFile={_LOG_CONFIGURATION.as_uri()} -D{SPARK_LOG_LEVEL.key}={level}"
    # Failed tasks are told of by the job itself; Spark's own account of them is for those who ask for it.
    return options if level == _DEFAULT_LOG_LEVEL else f"{options} -D{TASK_LOG_LEVEL}={level}"


def _log_level(config: Mapping[str, str]) -> str:
    given = SPARK_LOG_LEVEL.of(config)
    if given is not None:
        return given
    return SPARK_LOG_LEVEL.parse(os.environ.get(LOG_LEVEL_VARIABLE) or _DEFAULT_LOG_LEVEL, f"${LOG_LEVEL_VARIABLE}")


def _jvm_environment(directory: Path) -> dict[str, str]:
    """Returns the environment variables with which PySpark starts its JVM."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit has started it already
        return {}
    return {
        # The malloc arenas of the JVM's many threads are a large part of its resident size.
        "MALLOC_ARENA_MAX": "2",
        "JAVA_HOME": str(create_launcher(find_java(), directory / "java")),
        "SPARK_HOME": _find_spark_home(),
        "SPARK_LAUNCHER_OPTS": os.environ.get("SPARK_LAUNCHER_OPTS", _LAUNCHER_OPTIONS),
    }


def _use_this_python(context: SparkContext) -> None:
    # PySpark's default is the "python3" on PATH: another one, unless the virtual environment is activated.
    if _is_local_master(context.master) and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable


def work_directory() -> Path:
    """Returns this process's private temporary directory, which is removed when the process exits."""
    global _work_directory
    if _work_directory is None or not _work_directory.is_dir():
        _work_directory = owned_directory()
        handle_signals()
    return _work_directory


def _jvm_directory() -> Path:
    """A new directory for all that a JVM writes."""
    return Path(tempfile.mkdtemp(prefix="jvm-", dir=work_directory()))


def _stop(owner: int) -> None:
    """Ends the JVM with its process, quickly and quietly: stopping a Spark takes seconds, and its workers complain."""
    if (
        os.getpid() != owner or _own is None
    ):  # a forked child inherits the handler, and must not stop its parent's Spark
        return
    with suppress(Exception):  # this process ends anyway
        if _own.may_be_killed:
            let_go(_own.gateway)
        if not _kill() and end_of_jvm(_own.gateway) is None:
            _own.context.stop()


def _kill() -> bool:
    process = None if _own is None else getattr(_own.gateway, "proc", None)
    if _own is None or process is None or not _own.may_be_killed:
        return False
    kill_jvm(process)
    return True


def _is_local_master(master: str | None) -> bool:
    return master is not None and (master == "local" or master.startswith("local["))


def _is_true(value: str | None) -> bool:
    return (value or "").strip().lower() == "true"
