"""Spark's classes, loaded once and mapped into memory by every later JVM (Java's class data sharing).

Most of Spark's start-up is loading and verifying its classes. An archive of them, written by
``python -m flintstream.spark.class_archive``, saves a third of the CPU time up to the end of the first job
(14.0 to 9.3 s, measured once on two busy cores). It is 160 MB, fits one Java and one set of jars, lies in the
Python environment that these jars belong to, and goes away with it. Without one everything works, slower.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from flintstream.spark.java import JavaRuntime

__all__ = ["archive_options", "archive_path", "build_archive"]

_RECORD_VARIABLE = "FLINT_CLASS_ARCHIVE_RECORD"
_TIMEOUT_SECONDS = 300


def archive_path(java: JavaRuntime, spark_home: Path) -> Path:
    """Returns where the archive for this Java and these jars lies, or would lie."""
    identity = hashlib.sha256()
    command = java.executable.resolve()
    files = [command, *sorted((spark_home / "jars").glob("*.jar"))]
    for file in files:
        status = file.stat()
        identity.update(f"{file}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return Path(sys.prefix) / "var" / "flintstream" / f"spark-{identity.hexdigest()[:16]}.jsa"


def archive_options(java: JavaRuntime, spark_home: Path) -> list[str]:
    """Returns the JVM options that use the archive, or record it when this process was started to do that."""
    recording = os.environ.get(_RECORD_VARIABLE)
    if recording:
        return [f"-XX:ArchiveClassesAtExit={recording}"]
    with suppress(OSError):
        path = archive_path(java, spark_home)
        if path.is_file():
            return [f"-XX:SharedArchiveFile={path}"]
    return []


def build_archive(path: Path) -> Path:
    """Writes the archive to ``path`` by running a small job in a process of its own; returns ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}.partial")
    try:
        subprocess.run(
            [sys.executable, "-m", __spec__.name, "--record"],
            env={**os.environ, _RECORD_VARIABLE: str(partial)},
            stdout=subprocess.DEVNULL,
            timeout=_TIMEOUT_SECONDS,
            check=True,
        )
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path


def _record() -> None:
    """Runs the kind of job an epoch is, and waits until the JVM has written its classes down."""
    from pyspark import SparkContext

    from flintstream.spark.session import get_or_create_session, job_session

    spark = get_or_create_session({})
    session = job_session(spark)
    rows = session.range(64).selectExpr(
        "cast(id % 2 as int) as subtask", "cast(string(id) as binary) as block"
    )
    for _ in range(2):
        rows = rows.repartition(2, "subtask").sortWithinPartitions("subtask")
        rows = rows.mapInArrow(lambda batches: batches, rows.schema)
    rows.collect()
    process = SparkContext._gateway.proc  # type: ignore[union-attr]
    spark.stop()
    process.stdin.close()  # PySpark's JVM ends when its standard input does
    process.wait(timeout=_TIMEOUT_SECONDS)


def _main() -> int:
    from pyspark.find_spark_home import _find_spark_home

    from flintstream.spark.java import JavaNotFoundError, find_java

    if "--record" in sys.argv[1:]:
        _record()
        return 0
    try:
        path = archive_path(find_java(), Path(_find_spark_home()))
        if not path.exists():
            build_archive(path)
    except (JavaNotFoundError, OSError, subprocess.SubprocessError) as error:
        print(f"Spark's classes were not archived, so it starts slower: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_main())
