"""An archive of the classes that Spark's JVM loads (Java's class-data sharing), so that it starts in less time.

Loading and verifying some 14,000 classes of Spark is the largest part of its start. The first Spark of a user records
which classes it loads; when its program ends, a background process of low priority makes an archive of them
(:mod:`flintstream.spark.class_archive_maker`), which later JVMs map into memory.

The archive is never needed: the JVM checks that it is of the same Java and class path, and otherwise starts without.
It contains code, so it is only used in a private directory of the user.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pyspark import __version__ as spark_version

from flintstream.common.config_values import parse_memory_size
from flintstream.spark.class_archive_maker import MAKING, failures, note_failure, unfinished
from flintstream.spark.java import JavaRuntime

__all__ = ["CLASS_ARCHIVE_VARIABLE", "ClassArchive", "archive_directory", "find_archive"]

CLASS_ARCHIVE_VARIABLE = "FLINT_CLASS_ARCHIVE"
"""`off`, or the directory of the archives."""
_OFF = ("off", "0", "false", "no")
_MOST_FAILURES = 2
"""After so many archives that could not be made, or that the JVM would not use, no other is made for a month. Those that are
being made count too, and those whose makers were killed.
"""
_LEAST_FREE_BYTES = 1 << 30
_LEAST_UNCOMPRESSED_HEAP = 31 << 30
"""A JVM with a heap of about 32 GB represents references in another way than the archive does."""

# The user's own class-data sharing; agents, which want to see each class as it is loaded; and what makes the JVM refuse
# an archive that was made without it.
_CONFLICTS = re.compile(
    r"-Xshare|SharedArchive|SharedClassList|DumpLoadedClassList|ArchiveClasses|AOT|-agent|-javaagent|-Xbootclasspath"
    r"|--patch-module|--upgrade-module|--limit-modules|CompressedOops|CompressedClass|ObjectAlignment|UseZGC|-cp |-classpath"
    r"|CompactObjectHeaders"
)
_JAVA_OPTIONS = ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
# They add to the class path: directories with files, which an archive cannot have, or jars unknown here.
_CLASS_PATH_VARIABLES = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH", "SPARK_PREPEND_CLASSES")
_NO_SUBMIT_ARGS = "pyspark-shell"
_CLASS_PATH_SETTING = "spark.driver.extraClassPath"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ClassArchive:
    """The archive for one Java, Spark and class path; it exists, or the JVM records what is needed to make it."""

    path: Path
    java: Path
    recorded: Path | None = None
    """Where the JVM lists the classes that it loads, if the archive does not exist yet."""
    identity: tuple[int, int] | None = None
    """Tells the file of the archive from a later one of the same name."""

    @property
    def options(self) -> str:
        """Returns the options of the JVM."""
        if self.recorded is not None:
            return f"-XX:DumpLoadedClassList={self.recorded}"
        return f"-XX:SharedArchiveFile={self.path} -Xshare:auto"

    def check_use(self, vm_info: str) -> None:
        """Removes an archive that the JVM, whose property `java.vm.info` is given, has refused: it is made anew."""
        if self.recorded is not None or "sharing" in vm_info:
            return
        with suppress(OSError):
            if _identity(self.path.lstat()) == self.identity:  # Else another program has found the same.
                note_failure(self.path)
                self.path.unlink()

    def start_making(self, class_path: str) -> subprocess.Popen[bytes] | None:
        """Starts a process that makes the archive of what was recorded, and outlives this one. `class_path` is the
        JVM's. Returns None where there is nothing to do.
        """
        if self.recorded is None or self.path.exists() or not self.recorded.is_file():
            return None
        making = Path(tempfile.mkdtemp(prefix=MAKING, dir=self.path.parent))
        shutil.move(self.recorded, making / "classes")
        task = {"java": str(self.java), "class_path": class_path, "archive": str(self.path)}
        (making / "task.json").write_text(json.dumps(task))
        environment = {name: value for name, value in os.environ.items() if name not in _JAVA_OPTIONS}
        environment["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if entry)
        command = "import sys; from flintstream.spark.class_archive_maker import main; main(sys.argv[1])"
        return subprocess.Popen(
            [sys.executable, "-c", command, str(making)],
            cwd=making,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def find_archive(
    java: JavaRuntime,
    spark_home: Path,
    settings: Mapping[str, str],
    work: Path,
    environ: Mapping[str, str] | None = None,
) -> ClassArchive | None:
    """Returns the archive for a JVM with those settings, whose files are in `work`; None where there can be none."""
    environ = os.environ if environ is None else environ
    try:
        directory = archive_directory(environ) if _suits(settings, spark_home, environ) else None
        if directory is None:
            return None
        return _existing_or_new(directory / f"{_key(java, spark_home)}.jsa", java.executable, work)
    except OSError:  # Such as a directory of Spark's that cannot be listed.
        return None


def archive_directory(environ: Mapping[str, str]) -> Path | None:
    """Returns the directory of the archives, which it creates; None where they are off, or it is not private."""
    given = environ.get(CLASS_ARCHIVE_VARIABLE, "")
    if given.lower() in _OFF:
        return None
    try:
        path = Path(given).absolute() if given else _cache(environ) / "flintstream" / "classes"
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.lstat()
    except (OSError, RuntimeError):  # A file system that is full or read-only, or a user without a home.
        return None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        _log.warning("%s is not a private directory of this user (0700): Java's class archive is not used", path)
        return None
    # Options are separated by spaces, and Spark knows quotes and backslashes in them.
    return None if re.search(r"[\s\"'\\,]", str(path)) else path


def _cache(environ: Mapping[str, str]) -> Path:
    given = Path(environ.get("XDG_CACHE_HOME", ""))
    return given if given.is_absolute() else Path.home() / ".cache"


def _suits(settings: Mapping[str, str], spark_home: Path, environ: Mapping[str, str]) -> bool:
    """Returns whether class path and options of the JVM are such that an archive can be used."""
    options = [settings.get("spark.driver.extraJavaOptions", ""), settings.get("spark.driver.defaultJavaOptions", "")]
    if any(_CONFLICTS.search(text) for text in (*options, *(environ.get(name, "") for name in _JAVA_OPTIONS))):
        return False
    if settings.get(_CLASS_PATH_SETTING) or any(environ.get(name) for name in _CLASS_PATH_VARIABLES):
        return False
    # What PySpark adds to the command line, which may have options of its own.
    if environ.get("PYSPARK_SUBMIT_ARGS", _NO_SUBMIT_ARGS).strip() != _NO_SUBMIT_ARGS:
        return False
    # It is on the class path, and may have a spark-defaults.conf that changes anything.
    conf = Path(environ.get("SPARK_CONF_DIR") or spark_home / "conf")
    if conf.is_dir() and any(conf.iterdir()):
        return False
    try:
        return int(parse_memory_size(settings.get("spark.driver.memory", "1g"), "")) < _LEAST_UNCOMPRESSED_HEAP
    except ValueError:
        return False


def _key(java: JavaRuntime, spark_home: Path) -> str:
    """Returns what distinguishes archives: Java, Spark, and the jars of the class path."""
    executable = java.executable.resolve()
    try:
        release = (executable.parent.parent / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        release = str(executable.stat().st_mtime_ns)
    with os.scandir(spark_home / "jars") as entries:
        jars = sorted((entry.name, entry.stat().st_size, entry.stat().st_mtime_ns) for entry in entries)
    what = [str(executable), release, spark_version, str(spark_home), jars]
    return f"java{java.version}-spark{spark_version}-{hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]}"


def _existing_or_new(path: Path, java: Path, work: Path) -> ClassArchive | None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return _to_be_made(path, java, work)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        return None
    with suppress(OSError):  # One that is not used for long is removed.
        os.utime(path, ns=(time.time_ns(), found.st_mtime_ns))
    return ClassArchive(path, java, identity=_identity(found))


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_ino, found.st_mtime_ns


def _to_be_made(path: Path, java: Path, work: Path) -> ClassArchive | None:
    directory = path.parent
    if failures(path) + unfinished(directory) >= _MOST_FAILURES or not os.access(directory, os.W_OK):
        return None
    if shutil.disk_usage(directory).free < _LEAST_FREE_BYTES:
        return None
    return ClassArchive(path, java, recorded=work / "classes")
