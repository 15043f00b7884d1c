"""The record path runs without a C compiler: its tests pass in a process that ignores what is compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RUNTIME = Path("tests", "unit", "runtime")
PLACES = [
    RUNTIME / "test_stateless_operators.py",
    RUNTIME / "test_keyed_operators.py",
    RUNTIME / "test_process_operator.py",
    RUNTIME / "test_process_timers.py",
    RUNTIME / "test_keyed_state.py",
    RUNTIME / "test_timers.py",
    RUNTIME / "test_detach.py",
    RUNTIME / "test_blocks.py",
    RUNTIME / "test_rocksdb.py",
    RUNTIME / "windows" / "test_operator.py",
    RUNTIME / "windows" / "test_aligned.py",
    Path("tests", "unit", "cep", "test_operator.py"),
]


@pytest.mark.timeout(900)
def test_the_record_path_runs_without_a_compiler() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *map(str, PLACES)],
        env={**os.environ, "FLINT_PURE_PYTHON": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
