"""The other sides: scripts that time themselves, each in a process, some in an interpreter, of its own.

A script is called with sizes and a number of repetitions, and prints a JSON line for each run. One that measures latencies
is called with a duration, and prints a single line.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.latencies import Latencies
from bench.timing import MeasurementError, Timing, repeated

_ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_SECONDS = 900
NEEDS_PROTOBUF = "not run: needs the package protobuf"


class PeerError(MeasurementError):
    """A peer did not run."""


def has_protobuf() -> bool:
    """Whether there is the package without which Spark has no transformWithState in Python."""
    return all(importlib.util.find_spec(name) is not None for name in ("google", "google.protobuf"))


def run_peer(script: str, sizes: Sequence[int], repeat: int, *options: str, python: str | None = None) -> list[Timing]:
    """The timings of a script of this package, run by `python` or else by this interpreter."""
    given = ("--repeat", str(repeat), *options, "--sizes", *map(str, sizes))
    return [Timing(**line) for line in _lines(script, given, len(sizes) * repeat, python)]


def run_latency_peer(script: str, seconds: float, warm_up: float, python: str | None = None) -> Latencies:
    """The latencies that a script of this package measures; records come for so many seconds after the first has arrived."""
    (line,) = _lines(script, ("--seconds", str(seconds), "--warm-up", str(warm_up)), 1, python)
    return Latencies(**line)


def _lines(script: str, options: Sequence[str], expected: int, python: str | None) -> list[dict[str, Any]]:
    executable = python or sys.executable
    paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(paths))
    if python is not None:
        # PyFlink looks its workers' interpreter up on the PATH.
        environment["PATH"] = os.pathsep.join((str(Path(python).parent), environment.get("PATH", "")))
        environment.pop("VIRTUAL_ENV", None)
    command = [executable, "-m", f"bench.peers.{script}", *options]
    done = subprocess.run(command, cwd=_ROOT, env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"')]
    if done.returncode or len(lines) != expected:
        said = (done.stdout + done.stderr)[-4000:]
        raise PeerError(f"{' '.join(command)} failed ({done.returncode}):\n{said}")
    return lines


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


def latency_arguments() -> argparse.Namespace:
    """What a script that measures latencies was called with."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--warm-up", type=float, required=True)
    return parser.parse_args()


def report_latencies(latencies: Latencies) -> None:
    """Prints what a script has measured."""
    print(json.dumps(asdict(latencies)), flush=True)
