"""Jobs on the pipelined transport, in a Spark of their own, which is started with its settings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(960)  # The first test waits for the whole program.
PROGRAM = Path(__file__).with_name("pipelined_program.py")
EACH_KEY = [[key, 300] for key in range(10)]


@pytest.fixture(scope="module")
def told(tmp_path_factory) -> dict:
    """What the cases of the program print, by their names; and what the program logs."""
    directory = tmp_path_factory.mktemp("pipelined")
    ended = subprocess.run(
        [sys.executable, str(PROGRAM), str(directory)],
        capture_output=True,
        text=True,
        timeout=900,
        env=dict(os.environ, FLINT_PROGRESS="0"),
    )
    cases = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith('{"case"')]
    told = {case.pop("case"): case for case in cases}
    assert ended.returncode == 0, f"{told}\n{ended.stderr[-5000:]}"
    told["log"] = ended.stderr
    return told


def test_a_graph_with_two_exchanges_gives_exact_counts(told):
    assert told["counts"] == {"found": [[key, 2000] for key in range(10)]}


def test_a_failed_job_continues_from_its_checkpoint(told):
    assert told["failure"] == {"most": EACH_KEY, "results": 3000}


@pytest.mark.parametrize("hurt", ["killed slot", "killed workers", "stalled workers"])
def test_a_job_survives_the_death_of_its_processes(told, hurt):
    case = told[hurt]
    assert case["victims"] > 0
    assert (case["results"], case["most"]) == (3000, EACH_KEY)


def test_a_savepoint_is_restored_at_another_parallelism(told):
    assert told["savepoint"] == {"most": EACH_KEY}


def test_timers_of_an_idle_job_fire_and_it_can_be_cancelled(told):
    assert told["idle timer"] == {"status": "CANCELED"}


def test_state_is_queried_while_records_come_and_when_none_do(told):
    assert told["queries"] == {"grow": True, "last": [300] * 10}


def test_latency_markers_reach_every_operator_as_often(told):
    assert told["latency"] == {"operators": ["count", "none", "Sink: Print to Std. Out"], "equal": True}


def test_all_of_them_were_pipelined(told):
    assert "runs in epochs" not in told["log"]
