from __future__ import annotations

import os
from pathlib import Path

import pytest

from flintstream.spark import class_archive
from flintstream.spark.class_archive import archive_options, archive_path
from flintstream.spark.java import JavaRuntime


@pytest.fixture
def spark_home(tmp_path: Path) -> Path:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "a.jar").write_text("a")
    return tmp_path


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JavaRuntime:
    monkeypatch.setattr(class_archive.sys, "prefix", str(tmp_path / "prefix"))
    command = tmp_path / "java"
    command.write_text("java")
    return JavaRuntime(command, 17, "test")


def test_an_archive_fits_one_java_and_one_set_of_jars(java: JavaRuntime, spark_home: Path) -> None:
    first = archive_path(java, spark_home)
    assert archive_path(java, spark_home) == first
    (spark_home / "jars" / "b.jar").write_text("b")
    second = archive_path(java, spark_home)
    os.utime(java.executable, (1, 1))
    assert len({first, second, archive_path(java, spark_home)}) == 3


def test_an_archive_is_used_where_there_is_one(java: JavaRuntime, spark_home: Path) -> None:
    assert archive_options(java, spark_home) == []
    path = archive_path(java, spark_home)
    path.parent.mkdir(parents=True)
    path.write_text("")
    assert archive_options(java, spark_home) == [f"-XX:SharedArchiveFile={path}"]


def test_a_missing_java_is_no_reason_to_fail(spark_home: Path) -> None:
    assert archive_options(JavaRuntime(spark_home / "gone", 17, "test"), spark_home) == []


def test_the_recording_process_writes_one(
    java: JavaRuntime, spark_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLINT_CLASS_ARCHIVE_RECORD", "there.jsa")
    assert archive_options(java, spark_home) == ["-XX:ArchiveClassesAtExit=there.jsa"]
