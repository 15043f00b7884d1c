"""Archives of the classes of Spark's JVM: when one is used or made, and that a bad one does no harm."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flintstream.spark import class_archive_maker
from flintstream.spark.class_archive import (
    CLASS_ARCHIVE_VARIABLE,
    ClassArchive,
    archive_directory,
    find_archive,
)
from flintstream.spark.java import JavaNotFoundError, JavaRuntime, find_java
from flintstream.spark.session import _JVM_OPTIONS

MOST_SECONDS = 600.0
"""A limit for what takes seconds on a machine that has nothing else to do."""


@pytest.fixture
def spark_home(tmp_path: Path) -> Path:
    home = tmp_path / "spark"
    (home / "jars").mkdir(parents=True)
    (home / "jars" / "spark-core.jar").write_bytes(b"jar")
    return home


@pytest.fixture
def java(tmp_path: Path) -> JavaRuntime:
    command = tmp_path / "jdk" / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text("#!/bin/sh\nexit 1\n")
    command.chmod(0o755)
    (tmp_path / "jdk" / "release").write_text('JAVA_VERSION="17.0.15"\n')
    return JavaRuntime(command, 17, "PATH")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "archives"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    path.mkdir()
    return path


@pytest.fixture
def environ(place: Path) -> dict[str, str]:
    return {CLASS_ARCHIVE_VARIABLE: str(place)}


def found(java: JavaRuntime, spark_home: Path, work: Path, environ: dict[str, str], **settings: str) -> ClassArchive:
    archive = find_archive(java, spark_home, settings, work, environ)
    assert archive is not None
    return archive


# --- which one, and when ---


def test_the_first_jvm_records_its_classes_and_the_next_one_maps_the_archive(
    java: JavaRuntime, spark_home: Path, work: Path, environ: dict[str, str], place: Path
) -> None:
    first = found(java, spark_home, work, environ)
    assert first.options == f"-XX:DumpLoadedClassList={work / 'classes'}"
    assert place.stat().st_mode & 0o777 == 0o700
    first.path.write_bytes(b"archive")
    assert found(java, spark_home, work, environ).options == f"-XX:SharedArchiveFile={first.path} -Xshare:auto"


def test_another_java_spark_or_jar_has_another_archive(
    java: JavaRuntime, spark_home: Path, work: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    paths = [found(java, spark_home, work, environ).path]
    (tmp_path / "jdk" / "release").write_text('JAVA_VERSION="17.0.16"\n')
    paths.append(found(java, spark_home, work, environ).path)
    (spark_home / "jars" / "another.jar").write_bytes(b"jar")
    paths.append(found(java, spark_home, work, environ).path)
    (spark_home / "jars" / "another.jar").write_bytes(b"newer")
    paths.append(found(java, spark_home, work, environ).path)
    spark_home.rename(tmp_path / "elsewhere")
    paths.append(found(java, tmp_path / "elsewhere", work, environ).path)
    assert len(set(paths)) == len(paths)


@pytest.mark.parametrize(
    "settings",
    [
        {"spark.driver.extraJavaOptions": "-Xmx1g -XX:SharedArchiveFile=mine.jsa"},
        {"spark.driver.extraJavaOptions": "-Xshare:off"},
        {"spark.driver.defaultJavaOptions": "-javaagent:agent.jar"},
        {"spark.driver.extraClassPath": "mine.jar"},
        {"spark.driver.memory": "40g"},
        {"spark.driver.memory": "much"},
    ],
)
def test_settings_that_do_not_go_with_an_archive(
    java: JavaRuntime, spark_home: Path, work: Path, environ: dict[str, str], settings: dict[str, str]
) -> None:
    assert find_archive(java, spark_home, settings, work, environ) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("JAVA_TOOL_OPTIONS", "-agentlib:jdwp"),
        ("SPARK_SUBMIT_OPTS", "-Xshare:off"),
        ("PYSPARK_SUBMIT_ARGS", "--driver-class-path mine.jar pyspark-shell"),
        ("HADOOP_CONF_DIR", "/etc/hadoop"),
    ],
)
def test_variables_that_do_not_go_with_an_archive(
    java: JavaRuntime, spark_home: Path, work: Path, environ: dict[str, str], name: str, value: str
) -> None:
    assert find_archive(java, spark_home, {}, work, environ | {name: value}) is None


def test_a_configuration_directory_on_the_class_path_does_not_go_with_an_archive(
    java: JavaRuntime, spark_home: Path, work: Path, environ: dict[str, str]
) -> None:
    (spark_home / "conf").mkdir()
    assert find_archive(java, spark_home, {}, work, environ) is not None
    (spark_home / "conf" / "spark-defaults.conf").write_text("spark.driver.extraClassPath x.jar\n")
    assert find_archive(java, spark_home, {}, work, environ) is None


def test_ordinary_options_and_sizes_go_with_an_archive(
    java: JavaRuntime, spark_home: Path, work: Path, environ: dict[str, str]
) -> None:
    settings = {"spark.driver.extraJavaOptions": "-XX:+UseSerialGC -Dmine=1", "spark.driver.memory": "2g"}
    assert find_archive(java, spark_home, settings, work, environ) is not None


# --- the directory ---


def test_it_can_be_turned_off(place: Path) -> None:
    for value in ("off", "OFF", "0", "false"):
        assert archive_directory({CLASS_ARCHIVE_VARIABLE: value}) is None
    assert not place.exists()


def test_the_default_is_the_cache_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert archive_directory({}) == tmp_path / ".cache" / "flintstream" / "classes"
    assert archive_directory({"XDG_CACHE_HOME": str(tmp_path / "x")}) == tmp_path / "x" / "flintstream" / "classes"


def test_a_directory_that_others_may_write_to_is_not_used(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    place.mkdir(mode=0o700)
    place.chmod(0o777)
    assert archive_directory({CLASS_ARCHIVE_VARIABLE: str(place)}) is None
    assert "is not a private directory" in caplog.text


def test_a_link_to_a_directory_is_not_used(place: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    place.symlink_to(tmp_path / "real")
    assert archive_directory({CLASS_ARCHIVE_VARIABLE: str(place)}) is None


def test_a_directory_whose_name_cannot_be_an_option_is_not_used(tmp_path: Path) -> None:
    assert archive_directory({CLASS_ARCHIVE_VARIABLE: str(tmp_path / "with space")}) is None


def test_a_relative_directory_is_one_of_the_present_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert archive_directory({CLASS_ARCHIVE_VARIABLE: "archives"}) == tmp_path / "archives"


def test_a_spark_whose_jars_cannot_be_listed_has_no_archive(
    java: JavaRuntime, tmp_path: Path, work: Path, environ: dict[str, str]
) -> None:
    assert find_archive(java, tmp_path / "built" / "elsewhere", {}, work, environ) is None


def test_a_home_that_cannot_be_written_to_means_no_archive(
    java: JavaRuntime, spark_home: Path, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "mkdir", refuse)
    assert find_archive(java, spark_home, {}, work, {}) is None


def test_an_archive_in_a_directory_that_became_read_only_is_used_but_none_is_made(
    java: JavaRuntime, spark_home: Path, work: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = found(java, spark_home, work, environ).path
    monkeypatch.setattr(os, "access", lambda *args: False)
    assert find_archive(java, spark_home, {}, work, environ) is None
    path.write_bytes(b"archive")
    archive = found(java, spark_home, work, environ)
    assert (archive.path, archive.recorded) == (path, None)


def test_a_link_in_place_of_an_archive_is_not_used(
    java: JavaRuntime, spark_home: Path, work: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    found(java, spark_home, work, environ).path.symlink_to(tmp_path / "foreign")
    assert find_archive(java, spark_home, {}, work, environ) is None


# --- what the JVM refuses ---


def test_an_archive_that_the_jvm_refuses_is_replaced_but_not_for_ever(
    java: JavaRuntime, spark_home: Path, work: Path, environ: dict[str, str], place: Path
) -> None:
    archive = found(java, spark_home, work, environ)
    archive.path.write_bytes(b"broken")
    found(java, spark_home, work, environ).check_use("mixed mode, sharing")
    assert archive.path.exists()

    found(java, spark_home, work, environ).check_use("mixed mode")
    assert not archive.path.exists()
    assert found(java, spark_home, work, environ).recorded is not None

    archive.path.write_bytes(b"also broken")
    programs = [found(java, spark_home, work, environ) for _ in range(2)]
    (place / "new").write_bytes(b"made in the meantime")
    programs[0].check_use("mixed mode")
    (place / "new").replace(archive.path)
    programs[1].check_use("mixed mode")
    assert archive.path.read_bytes() == b"made in the meantime"
    archive.path.unlink()
    assert find_archive(java, spark_home, {}, work, environ) is None

    long_ago = time.time() - 60 * 24 * 3600
    os.utime(archive.path.with_suffix(".failures"), (long_ago, long_ago))
    assert found(java, spark_home, work, environ).recorded is not None


# --- making one ---


def recorded_by(java: Path, place: Path, work: Path) -> ClassArchive:
    """An archive to be made of three classes of Java's; the JVM was killed while it wrote the name of the fourth."""
    place.mkdir(mode=0o700, exist_ok=True)
    work.mkdir(exist_ok=True)
    classes = ["java/lang/Object id: 0", "java/lang/String id: 1", "java/util/ArrayList id: 2"]
    (work / "classes").write_text("\n".join(classes) + "\njava/util/Has")
    return ClassArchive(place / "test.jsa", java, recorded=work / "classes")


def rest_of(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir() if path.suffix != ".lock")


@pytest.fixture
def real_java() -> Path:
    try:
        return find_java().executable
    except JavaNotFoundError:
        pytest.skip("needs Java")


@pytest.fixture
def jar(tmp_path: Path) -> Path:
    import zipfile

    path = tmp_path / "some.jar"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("some.txt", "text")
    return path


def test_makers_at_the_same_time_leave_one_archive_that_java_accepts(
    real_java: Path, place: Path, tmp_path: Path, jar: Path
) -> None:
    begun = [recorded_by(real_java, place, tmp_path / f"work-{each}").start_making(str(jar)) for each in range(3)]
    for maker in begun:
        assert maker is not None
        assert maker.wait(MOST_SECONDS) == 0
    assert rest_of(place) == ["test.jsa"]
    assert (place / "test.jsa").stat().st_mode & 0o777 == 0o600
    options = [str(real_java), f"-XX:SharedArchiveFile={place / 'test.jsa'}", "-Xshare:on", "-cp", str(jar)]
    told = subprocess.run([*options, "-version"], capture_output=True, text=True, timeout=MOST_SECONDS)
    assert told.returncode == 0, told.stderr
    assert "sharing" in told.stderr


def test_java_starts_with_a_broken_archive_and_says_nothing(real_java: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.jsa"
    broken.write_bytes(b"not an archive" * 10_000)
    found = broken.lstat()
    archive = ClassArchive(broken, real_java, identity=(found.st_ino, found.st_mtime_ns))
    told = subprocess.run(
        [str(real_java), *archive.options.split(), *_JVM_OPTIONS.split(), "-version"],
        capture_output=True,
        text=True,
        timeout=MOST_SECONDS,
    )
    assert told.returncode == 0, told.stderr
    assert "archive" not in told.stderr
    archive.check_use(told.stderr.splitlines()[-1])
    assert not broken.exists()


def making(archive: ClassArchive, place: Path, name: str = "making-x") -> Path:
    """The directory of a maker that has not begun."""
    directory = place / name
    directory.mkdir(parents=True)
    (directory / "classes").write_text("java/lang/Object id: 0\n")
    (directory / "task.json").write_text(
        json.dumps({"java": str(archive.java), "class_path": "x.jar", "archive": str(archive.path)})
    )
    return directory


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The maker's priority is not for the process of the tests."""
    monkeypatch.setattr(class_archive_maker.os, "nice", lambda by: 0)


@pytest.mark.usefixtures("unhurried")
def test_a_maker_that_fails_leaves_nothing_and_is_tried_again_once(
    java: JavaRuntime, spark_home: Path, work: Path, environ: dict[str, str], place: Path
) -> None:
    archive = found(java, spark_home, work, environ)
    for _ in range(2):
        assert found(java, spark_home, work, environ).recorded is not None
        with pytest.raises(subprocess.CalledProcessError):
            class_archive_maker.main(str(making(archive, place)))
        assert rest_of(place) == [archive.path.with_suffix(".failures").name]
    assert find_archive(java, spark_home, {}, work, environ) is None


def test_makers_that_are_killed_each_time_are_not_started_for_ever(
    java: JavaRuntime, spark_home: Path, work: Path, environ: dict[str, str], place: Path
) -> None:
    archive = found(java, spark_home, work, environ)
    for number in range(2):
        assert found(java, spark_home, work, environ).recorded is not None
        making(archive, place, f"making-{number}")
    assert find_archive(java, spark_home, {}, work, environ) is None
    long_ago = time.time() - 60 * 24 * 3600
    os.utime(place / "making-0", (long_ago, long_ago))
    assert found(java, spark_home, work, environ).recorded is not None


@pytest.mark.usefixtures("unhurried")
def test_a_maker_leaves_the_work_to_one_that_has_begun(java: JavaRuntime, place: Path) -> None:
    archive = ClassArchive(place / "test.jsa", java.executable, None)
    directory = making(archive, place)
    with (place / "test.lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        class_archive_maker.main(str(directory))  # Java, which would fail here, is not started.
    assert rest_of(place) == []


@pytest.mark.usefixtures("unhurried")
def test_what_nobody_uses_any_more_is_removed(java: JavaRuntime, place: Path) -> None:
    archive = ClassArchive(place / "test.jsa", java.executable, None)
    directory = making(archive, place)
    long_ago = time.time() - 60 * 24 * 3600
    for name in ("old.jsa", "old.failures", "mine.txt"):
        (place / name).write_text("")
        os.utime(place / name, (long_ago, long_ago))
    (place / "new.jsa").write_text("")
    (place / "making-killed").mkdir()
    os.utime(place / "making-killed", (long_ago, long_ago))
    with pytest.raises(subprocess.CalledProcessError):
        class_archive_maker.main(str(directory))
    assert rest_of(place) == ["mine.txt", "new.jsa", "test.failures"]


def test_nothing_is_made_where_nothing_was_recorded(place: Path, work: Path) -> None:
    place.mkdir()
    assert ClassArchive(place / "test.jsa", Path(sys.executable), None).start_making("") is None
    assert ClassArchive(place / "test.jsa", Path(sys.executable), work / "classes").start_making("") is None
    assert rest_of(place) == []
