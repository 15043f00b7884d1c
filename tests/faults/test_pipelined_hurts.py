"""Hurts of `test_hurts.py` on the pipelined transport, in a pytest of their own: its Spark has the settings for it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tests.faults import test_hurts

TEST = f"{test_hurts.__file__}::{test_hurts.test_a_job_that_is_hurt_shows_what_an_unhurt_one_shows.__name__}"


@pytest.mark.timeout(900)
def test_pipelined_jobs_that_are_hurt_show_what_unhurt_ones_show():
    # Others use what runs in epochs only.
    cases = [case for case in test_hurts.ALWAYS if case.job in ("main", "patterns")]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", *(f"{TEST}[{case}]" for case in cases)],
        env={**os.environ, "FLINT_TRANSPORT": "pipelined"},
        cwd=test_hurts.ROOT,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert ended.returncode == 0, ended.stdout[-10_000:]
    assert f"{len(cases)} passed" in ended.stdout
    assert "runs in epochs" not in ended.stdout + ended.stderr
