"""Every metric is defined once, in code and in the guide, and every metric of a job is defined."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.unit.jobmaster.test_statistics import Job, read

from flintstream.common.job_status import JobStatus
from flintstream.jobmaster.details import CheckpointsDetails
from flintstream.jobmaster.job_metrics import checkpoint_metrics, lifetime_metrics
from flintstream.metrics import definitions
from flintstream.runtime.slot.protocol import OperatorReport, VertexReport

GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "metrics.md"
TEXTS = {"lastCheckpointExternalPath"}


def in_guide(heading: str) -> set[str]:
    section = GUIDE.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


@pytest.mark.parametrize(
    ("heading", "defined"),
    [
        ("Tasks", set(definitions.TASK)),
        ("Operators", set(definitions.OPERATOR)),
        ("Job", {*definitions.JOB, *definitions.SLOT, *TEXTS}),
    ],
)
def test_the_guide_defines_every_metric(heading, defined):
    assert in_guide(heading) == defined


def test_a_task_and_its_operators_have_defined_metrics():
    job = Job()
    operators = tuple(OperatorReport(each, 1, 1, 1, 1, 0) for each in job.ids[1])
    job.epoch(1.0, read(1), VertexReport(1, 0, 1, 1, False, operators=operators))
    task, found, _, _ = job.statistics.subtask(1, 0)
    assert set(task) == set(definitions.TASK)
    assert all(set(metrics) <= set(definitions.OPERATOR) for metrics in found.values())


def test_a_job_has_defined_metrics():
    lifetime = lifetime_metrics([(JobStatus.CREATED, 0)], 0, 1)
    checkpoints = checkpoint_metrics(CheckpointsDetails(enabled=True))
    assert {*lifetime, *checkpoints, *Job().statistics.job_metrics()} == {*definitions.JOB, *TEXTS}


def test_each_definition_is_a_sentence():
    for known in (definitions.TASK, definitions.OPERATOR, definitions.JOB, definitions.SLOT):
        for name, definition in known.items():
            assert re.fullmatch(r"[A-Z][^.]+\.", definition.help), name
            assert definition.unit in ("", "ms", "ms/s", "time"), name
