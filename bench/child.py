"""A module of this package in a process of its own, for what needs a Spark application of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.timing import MeasurementError

_ROOT = Path(__file__).resolve().parents[1]
_TIMEOUT_SECONDS = 900.0


def run_child(module: str, *arguments: object, **variables: str) -> Any:
    """Returns what a module prints as a line of JSON; `variables` are added to its environment."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    environment = {**os.environ, **variables}
    done = subprocess.run(command, cwd=_ROOT, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or len(lines) != 1:
        raise MeasurementError(
            f"{' '.join(command)} failed ({done.returncode}):\n{(done.stdout + done.stderr)[-4000:]}"
        )
    return json.loads(lines[0])
