"""The driver's side of Spark sinks, with slots that the test plays."""

from __future__ import annotations

from typing import Any

import pytest

from flintstream.jobmaster import spark_writers as module
from flintstream.jobmaster.control import JobFailed
from flintstream.jobmaster.spark_writers import SparkWriters
from flintstream.runtime.operators.sinks import SparkWriterOperator
from flintstream.runtime.slot.messages import FetchPages, ListStaged

from ..graph.programs import execution_graph, sink, source
from .played import PlayedJob, died, report


class Written:
    """A job with a Spark sink, in two slots."""

    def __init__(self, monkeypatch: Any) -> None:
        self.operator = SparkWriterOperator(self.write, None)
        self.job = PlayedJob(execution_graph(sink(source(), "Table", operator=self.operator)), slots=2)
        self.done: list[str] = self.job.pool.called
        self.job.pool.replies[FetchPages] = lambda slot, message: [f"page {message.first} of {message.spool}"]
        monkeypatch.setattr(module, "spool_frame", lambda spark, access, spool, declared, first: first)
        monkeypatch.setattr(type(self.job.context), "check_lease", lambda context: self.done.append("lease"))
        nowhere: Any = None
        self.writers = SparkWriters(self.job.context, self.job.slots, nowhere)
        self.error: Exception | None = None
        self.frames: list[tuple[Any, int]] = []

    def write(self, frame: Any, number: int) -> None:
        if self.error is not None:
            raise self.error
        self.done.append(f"write {number}")
        self.frames.append((frame, number))

    def stage(self, *slots: list[int]) -> None:
        """The checkpoints for which each slot has put records aside."""
        self.job.pool.replies[ListStaged] = lambda slot, message: (
            {self.operator.staged_name(number): 1 for number in slots[slot]} | {"another": 1}
        )


@pytest.fixture
def written(monkeypatch) -> Written:
    return Written(monkeypatch)


def test_what_an_epoch_has_left_is_written_and_forgotten(written):
    spool = written.operator.spool_name
    assert written.writers.spools == {spool}
    written.writers.write_epoch(7, [report(), report(spools={spool: ["record"]})])
    assert written.done == ["fetch 1", "write 7", "release 1"]
    assert written.frames == [(f"page 0 of {spool}", 7)]


def test_an_epoch_that_has_left_nothing_writes_nothing(written):
    written.writers.write_epoch(7, [report(), report(spools={"another": ["record"]})])
    assert written.done == []


def test_what_waits_for_complete_checkpoints_is_written_in_their_order_each_under_the_lease(written):
    written.stage([2, 1, 3], [2])
    written.writers.write_staged(2)
    assert written.done == [
        "staged",
        *("lease", "fetch 0", "write 1", "release 0"),
        *("lease", "fetch 0", "write 2", "release 0", "release 1"),
    ]


def test_slots_keep_what_the_sinks_function_could_not_write_and_the_failure_names_the_sink(written):
    written.error = ValueError("no such table")
    written.stage([1], [])
    with pytest.raises(JobFailed, match="no such table") as failure:
        written.writers.write_staged(1)
    assert failure.value.fault.operator == "Sink: Table"
    assert written.done == ["staged", "lease", "fetch 0"]


def test_nothing_is_written_when_the_job_is_not_this_drivers_any_more(written, monkeypatch):
    def lost(context: Any) -> None:
        raise JobFailed(died())

    monkeypatch.setattr(type(written.job.context), "check_lease", lost)
    written.stage([1], [1])
    with pytest.raises(JobFailed):
        written.writers.write_staged(1)
    assert written.done == ["staged"]


def test_a_job_without_such_sinks_asks_no_slot():
    job, nowhere = PlayedJob(), None
    SparkWriters(job.context, job.slots, nowhere).write_staged(5)  # type: ignore[arg-type]
    assert job.pool.called == []
