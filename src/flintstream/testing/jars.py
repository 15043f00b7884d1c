"""Servers written in Java: their jars from a Maven repository, by the Ivy that Spark brings along."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.sax.saxutils import quoteattr

import pyspark

from flintstream.spark.java import JavaNotFoundError, find_java
from flintstream.testing.servers import NotAvailable

_DOWNLOAD_SECONDS = 240
_TRIES = 2
_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m")
_PATTERN = "[artifact]-[revision](-[classifier]).[ext]"


def java() -> Path:
    """The Java that Spark would run on."""
    try:
        return find_java().executable
    except JavaNotFoundError as reason:
        raise NotAvailable(str(reason)) from reason


def jars_of(name: str, coordinates: tuple[str, ...], cache: Path) -> Path:
    """A directory with the jars of `group:artifact:version` coordinates and of all that they need.

    It stays in `cache` under a name, for as long as the coordinates are these.
    """
    digest = hashlib.sha256("\n".join(coordinates).encode()).hexdigest()[:12]
    place = cache / f"{name}-{digest}"
    if place.is_dir():
        return place
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / f"{name}.lock"):  # Tests in another process may want the same jars.
        if not place.is_dir():
            for earlier in cache.glob(f"{name}-*"):
                shutil.rmtree(earlier, ignore_errors=True)
            _download(name, coordinates, place)
    return place


def class_path(*directories: Path) -> str:
    """What Java's `-cp` takes for all jars of directories."""
    return ":".join(f"{directory}/*" for directory in directories)


def _download(name: str, coordinates: tuple[str, ...], place: Path) -> None:
    work = place.with_name(f"{place.name}.part")
    shutil.rmtree(work, ignore_errors=True)
    try:
        for remaining in reversed(range(_TRIES)):
            shutil.rmtree(work / "jars", ignore_errors=True)
            (work / "jars").mkdir(parents=True)
            try:
                _retrieve(name, coordinates, work)
                (work / "jars").rename(place)
                return
            except NotAvailable:  # The next attempt finds in Ivy's cache what this one has downloaded.
                if not remaining:
                    raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _retrieve(name: str, coordinates: tuple[str, ...], work: Path) -> None:
    """Ivy checks what it downloads against the repository's checksums."""
    wanted = work / "ivy.xml"
    wanted.write_text(_ivy_module(name, coordinates))
    (ivy,) = (Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar")
    command = [java(), *_JVM, "-jar", ivy, "-cache", work / "cache", "-ivy", wanted, "-confs", "default"]
    command += ["-retrieve", work / "jars" / _PATTERN]
    try:
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=_DOWNLOAD_SECONDS)
    except subprocess.TimeoutExpired:
        raise NotAvailable(f"the download of the jars of {name} took longer than {_DOWNLOAD_SECONDS} s") from None
    if done.returncode or not any((work / "jars").glob("*.jar")):
        raise NotAvailable(f"the jars of {name} could not be downloaded: {(done.stdout + done.stderr)[-2000:]}")


def _ivy_module(name: str, coordinates: tuple[str, ...]) -> str:
    dependencies = ""
    for coordinate in coordinates:
        group, artifact, version = map(quoteattr, coordinate.split(":"))
        dependencies += f'<dependency org={group} name={artifact} rev={version} conf="default->default"/>'
    return (
        f'<ivy-module version="2.0"><info organisation="flintstream" module={quoteattr(name)}/>'
        f'<configurations><conf name="default"/></configurations><dependencies>{dependencies}</dependencies></ivy-module>'
    )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds the lock of a file; whoever has it may have to download first."""
    limit = _TRIES * _DOWNLOAD_SECONDS + 60
    deadline = time.monotonic() + limit
    with path.open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise NotAvailable(f"another process has held {path} for {limit} s") from None
            time.sleep(0.1)
        yield
