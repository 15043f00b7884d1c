"""EpochLoop: runs the epochs of an attempt, one after the other, whenever there is something to process.

With Spark jobs, an epoch begins when there is something to process, and ends when all of it is processed. In a
pipelined job, epochs follow one another without a gap: a barrier ends one, while its slots already process the next.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from flintstream.common.time import earliest, monotonic_due
from flintstream.jobmaster.alignment import AlignmentGroups
from flintstream.jobmaster.control import failed
from flintstream.jobmaster.iterations import IterationCoordinator, admitted
from flintstream.jobmaster.job_context import JobContext
from flintstream.jobmaster.sizing import EpochSizer
from flintstream.jobmaster.slot_calls import SlotCalls
from flintstream.jobmaster.sources import SourceCoordinator
from flintstream.jobmaster.spark_writers import SparkWriters
from flintstream.runtime.slot.messages import BeginEpoch, Close, EndEpoch, PassBarrier, TakeSnapshot
from flintstream.runtime.slot.protocol import EpochReport, VertexReport
from flintstream.runtime.slot.transport import Transport

_RESULTS_SECONDS = 0.2
"""The length of a pipelined epoch while results for the driver, which it fetches at barriers, keep coming."""


class BetweenEpochs(Protocol):
    """Work to do while no epoch runs."""

    def next_due(self) -> float | None:
        """Returns when it is due, by the monotonic clock."""

    def tend(self) -> None:
        """Does the work that is due."""


class EpochLoop:
    """The epochs of one attempt. Used by the job's own thread, after the operators are deployed."""

    def __init__(
        self,
        job: JobContext,
        slots: SlotCalls,
        sources: Mapping[str, SourceCoordinator],
        writers: SparkWriters,
        transport: Transport,
    ) -> None:
        self._job = job
        self._slots = slots
        self._sources = sources
        self._writers = writers
        self._transport = transport
        self._alignment = AlignmentGroups.of(job.graph)
        self._sizer = EpochSizer(job.settings.epoch_seconds, self._longest_epoch_seconds())
        self.number = 0
        """The number of the last epoch started."""
        self.accumulators: dict[str, Any] = {}
        self.accumulators_of: dict[tuple[int, int], dict[str, Any]] = {}
        """By vertex and subtask."""
        self._draining = False
        self._running = False
        """Whether an epoch has begun and not ended."""
        self._all_finished = False
        """Whether the sources had ended in the last epoch."""
        self._read_before: dict[tuple[int, int], int] = {}
        self._slots_due: float | None = 0.0
        """When slots need an epoch, in processing time (seconds since 1970)."""
        self._started = 0.0
        self._has_results = False
        """Whether the last epoch had results for the driver, which somebody waits for."""

    @property
    def standing(self) -> bool:
        """Returns whether the job is pipelined."""
        return self._transport.standing

    def _longest_epoch_seconds(self) -> float:
        """Returns how long an epoch may become while there is a backlog.

        No longer than others where each round of an iteration, or each step of aligned sources, takes an epoch. Those of a
        pipelined job have nothing to do with the speed of its records.
        """
        iterates = any(isinstance(source, IterationCoordinator) for source in self._sources.values())
        if self.standing or iterates or self._alignment:
            return self._job.settings.epoch_seconds
        return self._job.settings.longest_epoch_seconds

    @property
    def advanced_to(self) -> int:
        """Returns the last epoch in which something has happened."""
        return self.number - (self._running and not self._job.control.has_data)

    def run(self, between: BetweenEpochs) -> None:
        """Runs epochs until the sources have ended."""
        if self.standing:
            self._run_pipelined(between)
            return
        finished = False
        while not finished:
            not_before = self._started + self._job.settings.least_epoch_seconds
            is_due = self._job.control.wait(self._next_due, not_before, between.next_due)
            between.tend()
            if is_due:
                finished = self._run_one()

    def _run_pipelined(self, between: BetweenEpochs) -> None:
        """Lets each epoch last until something has happened in it and it is long enough, the sources have ended, or
        `between` ends it by a barrier with a snapshot.
        """
        while not self._all_finished:
            self._begin()
            while self._running:
                is_due = self._job.control.wait(self._sources_due, self._not_before(), between.next_due)
                between.tend()
                if is_due and self._running:
                    self.pass_barrier()

    def _not_before(self) -> float:
        seconds = self._job.settings.epoch_seconds
        return self._started + (min(seconds, _RESULTS_SECONDS) if self._has_results else seconds)

    def drain(self) -> None:
        """Runs a final epoch, in which all sources end, and those that iterations still need."""
        self._draining = True
        if self.standing:
            self._begin()
            self.pass_barrier()
            return
        while not self._run_one():
            while not self._job.control.wait(self._next_due, self._started, lambda: None):
                pass  # Woken for something that has to wait for the savepoint.

    def close(self) -> None:
        """Closes all operators, and fetches their last results."""
        reports = self._slots.call_all(Close())
        self._take_results(reports)
        self._job.statistics.close(reports)
        self._job.deliveries.deliver_up_to(self.number)

    def _next_due(self) -> float | None:
        return earliest([monotonic_due(self._slots_due), self._sources_due()])

    def _sources_due(self) -> float | None:
        return earliest(source.next_due() for source in self._sources.values())

    # --- one epoch ---

    def _run_one(self) -> bool:
        """Runs an epoch; returns whether it was the last one."""
        with self._slots.waiting(f"epoch {self.number + 1}"):
            readers = self._begin()
            try:
                self._transport.run(self.number, readers)
            except Exception as error:
                self._job.control.raise_cause(error)
            reports = self._slots.call_all(EndEpoch())
        self._end(reports)
        return self._all_finished

    def _begin(self) -> list[Any]:
        """Begins an epoch, with new work for the sources; returns the rows that Spark reads for it."""
        self._started = time.monotonic()
        self._job.progress.begin_epoch(timed=not self.standing)
        self._job.statistics.begin_epoch()
        self.number += 1
        self._running = True
        if not self.standing:
            self._job.control.begin_epoch()
        limit = self._sizer.limit
        work = {
            source.vertex_id: replace(
                source.work(admitted(source, self._sources.values(), limit)),
                seconds=self._sizer.target,
                aligned_to=self._alignment.limit(source.vertex_id),
                drain=self._draining and not isinstance(source, IterationCoordinator),
            )
            for source in self._sources.values()
        }
        readers = [frame for frame in (source.reader() for source in self._sources.values()) if frame is not None]
        self._slots.call_all(BeginEpoch(self.number, work))
        return readers

    def pass_barrier(self, snapshot: TakeSnapshot | None = None, halts: bool = False) -> list[EpochReport]:
        """Ends the epoch of a pipelined job by a barrier, at which its tasks take a snapshot if one is wanted. Returns when
        all tasks have passed it, while they process the next epoch unless the barrier `halts` them.
        """
        # Before the barrier: what happens behind it is of the next epoch.
        self._job.control.begin_epoch()
        reports = self._slots.call_all(PassBarrier(snapshot, halts))
        self._end(reports)
        return reports

    def _end(self, reports: list[EpochReport]) -> None:
        """Takes the reports of an epoch that has ended."""
        self._running = False
        self._job.control.check()
        self._verify(reports)
        self._account(reports, time.monotonic() - self._started)
        self._take_results(reports)
        self._slots_due = earliest([self._alignment.next_due(), *(report.next_due for report in reports)])
        if self._job.deliveries.hold_much or any(source.waits_for_checkpoint for source in self._sources.values()):
            self._job.coordinator.hurry()
        self._all_finished = self._finished(reports)

    def _verify(self, reports: list[EpochReport]) -> None:
        """Verifies that every level has run in every slot of it, exactly once (the slots ensure 'once')."""
        for slot, report in enumerate(reports):
            expected = {vertex.level for vertex in self._job.deployment.vertices if slot in vertex.slots}
            if not expected <= report.levels:
                missing = ", ".join(map(str, sorted(expected - report.levels)))
                raise failed(f"epoch {self.number}: level {missing} did not reach slot {slot}")

    def _account(self, reports: list[EpochReport], seconds: float) -> None:
        vertices = [vertex for report in reports for vertex in report.vertices]
        read = most = 0
        fed_back = {each.vertex_id for each in self._sources.values() if isinstance(each, IterationCoordinator)}
        for vertex in self._of_sources(vertices):
            key = (vertex.vertex_id, vertex.subtask)
            new = vertex.records_in - self._read_before.get(key, 0)
            self._read_before[key] = vertex.records_in
            read += 0 if vertex.vertex_id in fed_back else new
            most = max(most, new)
        for source in self._sources.values():
            source.epoch_done([vertex for vertex in vertices if vertex.vertex_id in source.watched])
        self._alignment.epoch_done(vertices)
        self._job.executions.epoch_done(vertices)
        self._sizer.observe(
            seconds, max(sum(report.busy.values()) for report in reports), most, awaited=self._is_awaited(reports)
        )
        self._job.progress.epoch(self.number, seconds, read, vertices, reports)
        self._job.statistics.epoch(seconds, reports, self._with_more())

    def _is_awaited(self, reports: list[EpochReport]) -> bool:
        """Returns whether the next epoch should not come late: the last one had results for the driver, or operators wait
        for a time.
        """
        return any(report.spools or report.waits_for_clock for report in reports)

    def _with_more(self) -> list[int]:
        """Returns the sources that the driver knows to have more to read now."""
        now = time.monotonic()
        dues = ((source.vertex_id, source.next_due()) for source in self._sources.values())
        return [vertex_id for vertex_id, due in dues if due is not None and due <= now]

    def _take_results(self, reports: list[EpochReport]) -> None:
        """Fetches the results of sinks for the driver."""
        merged: dict[str, Any] = {}
        for report in reports:
            for name, accumulator in report.accumulators.items():
                if name in merged:
                    merged[name].merge(accumulator)
                else:
                    merged[name] = accumulator
        self.accumulators = merged
        self.accumulators_of = {
            (vertex.vertex_id, vertex.subtask): vertex.accumulators for report in reports for vertex in report.vertices
        }
        self._has_results = any(report.spools for report in reports)
        self._writers.write_epoch(self.number, reports)
        self._job.deliveries.take(self.number, reports, self._slots, self._writers.spools)

    def _finished(self, reports: list[EpochReport]) -> bool:
        """Returns whether the job is done: the end of the sources reaches every vertex in the epoch in which they end."""
        vertices = [vertex for report in reports for vertex in report.vertices]
        if not all(vertex.finished for vertex in self._of_sources(vertices)):
            return False
        waiting = {vertex.vertex_id for vertex in vertices if not vertex.finished}
        if waiting:
            known = self._job.graph.job_graph.vertices
            names = ", ".join(f"'{known[vertex_id].name}'" for vertex_id in sorted(waiting))
            raise failed(f"epoch {self.number}: the sources have ended, but the end of the input did not reach {names}")
        return True

    def _of_sources(self, vertices: list[VertexReport]) -> list[VertexReport]:
        source_ids = {source.vertex_id for source in self._sources.values()}
        return [vertex for vertex in vertices if vertex.vertex_id in source_ids]
