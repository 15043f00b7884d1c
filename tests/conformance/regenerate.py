"""Write the expected output of the conformance programs by running them on PyFlink.

    FLINT_PYFLINK_PYTHON=/path/to/venv/bin/python python regenerate.py [--check] [NAME ...]

Without names, every program is run. ``--check`` writes nothing and reports the programs whose output on PyFlink
is not the stored one.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from compare import compare_mode, normalise

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
EXPECTED = HERE / "expected"
VARIABLE = "FLINT_PYFLINK_PYTHON"

_IMPORT = re.compile(r"^(\s*(?:from|import)\s+)flintstream\b", re.MULTILINE)


def to_pyflink(source):
    """A program's source with flintstream's imports turned into PyFlink's."""
    return _IMPORT.sub(r"\1pyflink", source)


def run_on_pyflink(path, python, timeout):
    source = path.read_text(encoding="utf-8")
    environment = dict(os.environ)
    # PyFlink looks for `python` and `java` on the path.
    environment["PATH"] = os.path.dirname(python) + os.pathsep + environment.get("PATH", "")
    environment["PYTHONIOENCODING"] = "utf-8"
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        copy.write_text(to_pyflink(source), encoding="utf-8")
        done = subprocess.run(
            [python, str(copy)],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=timeout,
        )
    return done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8", "replace")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="programs to run, without .py; all when none is given")
    parser.add_argument("--check", action="store_true", help="compare with the stored output, write nothing")
    parser.add_argument("--timeout", type=float, default=180, help="seconds for one program")
    options = parser.parse_args(arguments)

    python = os.environ.get(VARIABLE)
    if not python:
        parser.error("set %s to a Python interpreter that has PyFlink installed" % VARIABLE)
    names = options.names or sorted(path.stem for path in PROGRAMS.glob("*.py"))

    bad = []
    for name in names:
        path = PROGRAMS / (name + ".py")
        if not path.exists():
            parser.error("no program named %s" % name)
        mode = compare_mode(path.read_text(encoding="utf-8"))
        began = time.monotonic()
        try:
            code, output, errors = run_on_pyflink(path, python, options.timeout)
        except subprocess.TimeoutExpired:
            code, output, errors = None, "", "no end after %s seconds" % options.timeout
        took = time.monotonic() - began
        if code != 0:
            bad.append(name)
            print("%s: failed (%s), %.1f s\n%s" % (name, code, took, errors[-4000:]), flush=True)
            continue
        lines = normalise(output, mode)
        stored = EXPECTED / (name + ".txt")
        if options.check:
            old = stored.read_text(encoding="utf-8") if stored.exists() else None
            same = old is not None and normalise(old, "exact") == lines
            if not same:
                bad.append(name)
            print("%s: %s, %.1f s" % (name, "same" if same else "DIFFERENT", took), flush=True)
        else:
            EXPECTED.mkdir(exist_ok=True)
            stored.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
            print("%s: %d lines, %.1f s" % (name, len(lines), took), flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
