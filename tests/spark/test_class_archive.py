"""The class archive with a real Spark: one program records its classes, the next ones map their archive."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

MOST_SECONDS = 900.0

PROGRAM = """
from flintstream.spark.class_archive import ClassArchive
from flintstream.spark.session import get_or_create_session

start_making = ClassArchive.start_making

def start_with_a_part(archive, class_path):
    # An archive of all classes takes a minute.
    if archive.recorded is not None:
        lines = archive.recorded.read_text().splitlines()
        assert any(line.startswith("org/apache/spark/SparkContext") for line in lines)
        archive.recorded.write_text("\\n".join(lines[:500]) + "\\n")
    start_making(archive, class_path)

ClassArchive.start_making = start_with_a_part
spark = get_or_create_session({"spark.master": "local[1]"})
system = spark.sparkContext._jvm.java.lang.System
print(f"{spark.range(3).count()} rows; {system.getProperty('java.vm.info')};", end=" ")
print([str(option) for option in spark.sparkContext.getConf().get("spark.driver.extraJavaOptions").split()])
"""


def ran(archives: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | {"FLINT_CLASS_ARCHIVE": str(archives)},
        capture_output=True,
        text=True,
        timeout=MOST_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def made(archives: Path) -> list[Path]:
    deadline = time.monotonic() + MOST_SECONDS
    while list(archives.glob("making-*")) and time.monotonic() < deadline:
        time.sleep(0.1)
    return list(archives.glob("*.jsa"))


def test_a_program_leaves_an_archive_that_the_next_one_uses_and_a_broken_one_is_replaced(tmp_path: Path) -> None:
    archives = tmp_path / "archives"
    assert "DumpLoadedClassList" in ran(archives)
    [archive] = made(archives)

    told = ran(archives)
    assert told.startswith("3 rows")
    assert "sharing" in told and f"-XX:SharedArchiveFile={archive}" in told

    archive.write_bytes(b"broken" * 1000)
    told = ran(archives)
    assert told.startswith("3 rows") and "sharing" not in told.partition("[")[0]
    assert not archive.exists()

    assert "DumpLoadedClassList" in ran(archives)
    assert made(archives) == [archive]
