"""The other sides: scripts that time themselves, each in a process, some in an interpreter, of its own.

A script is called with sizes and a number of repetitions, and prints a JSON line for each run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.timing import MeasurementError, Timing, repeated

_ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_SECONDS = 900


class PeerError(MeasurementError):
    """A peer did not run."""


def run_peer(script: str, sizes: Sequence[int], repeat: int, *options: str, python: str | None = None) -> list[Timing]:
    """The timings of a script of this package, run by `python` or else by this interpreter."""
    executable = python or sys.executable
    paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(paths))
    if python is not None:
        # PyFlink looks its workers' interpreter up on the PATH.
        environment["PATH"] = os.pathsep.join((str(Path(python).parent), environment.get("PATH", "")))
        environment.pop("VIRTUAL_ENV", None)
    command = [executable, "-m", f"bench.peers.{script}", "--repeat", str(repeat), *options]
    command += ["--sizes", *map(str, sizes)]
    done = subprocess.run(command, cwd=_ROOT, env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"records"')]
    timings = [Timing(**json.loads(line)) for line in lines]
    if done.returncode or len(timings) != len(sizes) * repeat:
        said = (done.stdout + done.stderr)[-4000:]
        raise PeerError(f"{' '.join(command)} failed ({done.returncode}):\n{said}")
    return timings


def arguments(**options: Sequence[str] | None) -> argparse.Namespace:
    """What a script was called with; `options` are further ones, each with its choices, or None for any text."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeat", type=int, default=1)
    for name, choices in options.items():
        if choices is None:
            parser.add_argument(f"--{name}", required=True)
        else:
            parser.add_argument(f"--{name}", choices=list(choices), default=next(iter(choices)))
    parser.add_argument("--sizes", type=int, nargs="+", required=True)
    return parser.parse_args()


def report(run: Callable[[int], Timing], given: argparse.Namespace) -> None:
    """Runs a side as asked, and prints the timings; the first run, of the smallest size, is not counted."""
    run(min(given.sizes))
    for timing in repeated(run, given.sizes, given.repeat):
        print(json.dumps({"records": timing.records, "seconds": timing.seconds}), flush=True)
