"""Prometheus' own tool has nothing to say about the metrics of jobs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.unit.metrics.details import job_details

from flintstream.metrics.prometheus import Naming, exposition
from flintstream.testing.servers import NotAvailable

from .debian import unpack


@pytest.fixture(scope="module")
def promtool(pytestconfig, tmp_path_factory) -> str:
    """The program, the machine's own or that of Debian's package."""
    found = shutil.which("promtool")
    if found is not None:
        return found
    directory = tmp_path_factory.mktemp("prometheus")
    try:
        unpack("prometheus", Path(pytestconfig.cache.mkdir("servers")) / "prometheus", directory, ("fonts-", "libjs-"))
    except NotAvailable as reason:
        pytest.skip(f"no promtool: {reason}")
    return str(directory / "usr" / "bin" / "promtool")


def check(promtool: str, naming: Naming) -> tuple[int, str]:
    text = exposition([job_details("one"), job_details("two", job_id="d" * 32)], naming)
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, timeout=120)
    return done.returncode, (done.stdout + done.stderr).decode()


def test_it_has_nothing_to_say(promtool):
    assert check(promtool, Naming()) == (0, "")


def test_of_flinks_names_it_dislikes_only_the_spelling(promtool):
    _, said = check(promtool, Naming("flink"))
    complaints = {line.partition(" ")[2] for line in said.splitlines()}
    assert complaints == {"metric names should be written in 'snake_case' not 'camelCase'"}
