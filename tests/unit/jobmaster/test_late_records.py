"""Late records that were dropped."""

from __future__ import annotations

import logging
from typing import Any

from flintstream.common.job_status import JobStatus
from flintstream.jobmaster.progress import Progress
from flintstream.runtime.slot.protocol import EpochReport


def report(late: dict[str, int]) -> EpochReport:
    return EpochReport(frozenset(), [], {}, {}, None, {}, 0, late)


def test_late_records_are_told_at_the_end_of_a_job(caplog: Any) -> None:
    progress = Progress("shop", False)
    progress.epoch(1, 1.0, 0, [], [report({"Window": 2}), report({"Window": 1})])
    with caplog.at_level(logging.WARNING, "flintstream"):
        progress.end(JobStatus.FINISHED)
    assert "job 'shop': operator 'Window' dropped 3 late records" in caplog.text


def test_nothing_is_told_where_nothing_was_late(caplog: Any) -> None:
    progress = Progress("shop", False)
    progress.epoch(1, 1.0, 0, [], [report({})])
    with caplog.at_level(logging.WARNING, "flintstream"):
        progress.end(JobStatus.FINISHED)
    assert caplog.text == ""
