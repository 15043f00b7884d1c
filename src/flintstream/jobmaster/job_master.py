"""JobMaster: owns a job. Starts its slots, runs its epochs, ends it."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flintstream.common.job_execution_result import JobExecutionResult
from flintstream.common.job_id import JobID
from flintstream.common.job_status import JobStatus
from flintstream.common.time import earliest
from flintstream.graph.execution_graph import ExecutionGraph
from flintstream.jobmaster.alignment import AlignmentGroups
from flintstream.jobmaster.errors import JobCancelledError, JobExecutionError
from flintstream.jobmaster.progress import Progress
from flintstream.jobmaster.results import Collector, print_lines
from flintstream.jobmaster.settings import JobSettings
from flintstream.jobmaster.sizing import EpochSizer
from flintstream.jobmaster.source_factory import make_coordinator
from flintstream.jobmaster.sources import SourceCoordinator
from flintstream.runtime.deployment import JobDeployment
from flintstream.runtime.faults import Fault, engine_fault, user_fault
from flintstream.runtime.operators.sinks import PRINT_SPOOL, SparkWriterOperator
from flintstream.runtime.protocol import EpochReport
from flintstream.runtime.user_code import pickle_operators
from flintstream.spark.epoch import EpochRunner
from flintstream.spark.slots import SlotError, SlotPool
from flintstream.spark.spool_frame import spool_frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLOSE_SECONDS = 5.0
_CAUSE_SECONDS = 2.0


class _JobFailed(Exception):
    def __init__(self, fault: Fault) -> None:
        self.fault = fault


class _Cancelled(Exception):
    pass


class JobMaster:
    """Runs one job on a thread of its own, from CREATED to FINISHED, FAILED or CANCELED."""

    def __init__(self, graph: ExecutionGraph, settings: JobSettings, spark: SparkSession) -> None:
        self.job_id = JobID()
        self.settings = settings
        self.result: Future[JobExecutionResult] = Future()
        self.status = JobStatus.CREATED
        self.collectors: dict[str, Collector] = {}
        self.progress = Progress(settings.job_name, settings.show_progress)
        self._graph = graph
        self._spark = spark
        self._deployment = JobDeployment.of(graph)
        self._changed = threading.Condition()
        self._data_ready = False
        self._cancel_requested = False
        self._fault: Fault | None = None
        self._pool: SlotPool | None = None
        self._runner: EpochRunner | None = None
        self._sources: list[SourceCoordinator] = []
        self._alignment = AlignmentGroups.of(graph)
        self._writers = [
            node.operator for node in graph.job_graph.nodes.values() if isinstance(node.operator, SparkWriterOperator)
        ]
        self._sizer = EpochSizer(settings.epoch_seconds)
        self._accumulators: dict[str, Any] = {}
        self._epoch = 0
        self._read_before: dict[tuple[int, int], int] = {}
        self._started = time.time()
        self._thread = threading.Thread(target=self._run, name=f"job {settings.job_name}", daemon=True)

    # --- for the client ---

    def start(self) -> None:
        """Starts the job's thread."""
        self._thread.start()

    def cancel(self) -> None:
        """Asks the job to end now."""
        with self._changed:
            if self.status not in (JobStatus.CREATED, JobStatus.RUNNING):
                return
            self._cancel_requested = True
            self._changed.notify_all()
        if self._pool is not None:
            # A user function may never return, and its slot never answer.
            self._pool.give_up_calls("the job is cancelled")
        if self._runner is not None:
            self._runner.cancel()

    def join(self, timeout: float | None = None) -> None:
        """Waits until the job's thread has ended."""
        self._thread.join(timeout)

    def collector(self, collector_id: str) -> Collector:
        """Where the records of a collecting sink arrive."""
        return self.collectors.setdefault(collector_id, Collector())

    @property
    def accumulators(self) -> dict[str, Any]:
        """The accumulators' values so far."""
        return {name: value.get_local_value() for name, value in self._accumulators.items()}

    # --- the job's life ---

    def _run(self) -> None:
        outcome: JobExecutionResult | BaseException
        try:
            self._deploy()
            self._set_status(JobStatus.RUNNING)
            self._run_epochs()
            self._take_results(self._call("close", CLOSE_SECONDS * 12))
            self._release(JobStatus.FINISHED)
            runtime = int((time.time() - self._started) * 1000)
            outcome = JobExecutionResult(self.job_id, runtime, self.accumulators)
        except _Cancelled:
            self._set_status(JobStatus.CANCELLING)
            self._release(JobStatus.CANCELED)
            outcome = JobCancelledError(self.settings.job_name, str(self.job_id))
        except BaseException as error:
            self._set_status(JobStatus.FAILING)
            fault = error.fault if isinstance(error, _JobFailed) else engine_fault(error)
            self._release(JobStatus.FAILED)
            outcome = JobExecutionError(self.settings.job_name, str(self.job_id), fault)
        self._tell(outcome)

    def _tell(self, outcome: JobExecutionResult | BaseException) -> None:
        failure = outcome if isinstance(outcome, BaseException) else None
        if failure is None:
            self.result.set_result(outcome)  # type: ignore[arg-type]
        else:
            self.result.set_exception(failure)
        for collector in list(self.collectors.values()):
            collector.end(lambda: failure)

    def _deploy(self) -> None:
        graph = self._graph
        pool = self._pool = SlotPool(
            self._spark,
            str(self.job_id),
            0,
            graph.slots_count,
            self._on_data,
            self._on_failure,
            self.settings.python_executable,
        )
        pool.start()
        self._check()
        info, user_code = self.settings.for_slots(str(self.job_id), pool.local)
        self._call(
            "deploy",
            arguments=lambda slot: {
                "job": info,
                "user_code": user_code,
                "operators": pickle_operators(self._deployment.hosted_by(slot)),
            },
        )
        self._runner = EpochRunner(
            self._spark,
            str(self.job_id),
            0,
            [frozenset(vertex.id for vertex in level) for level in graph.levels],
            [1 + max(graph.slot(vertex.id, vertex.parallelism - 1) for vertex in level) for level in graph.levels],
            pool.addresses,
            pool.authkey,
        )
        for vertex in graph.job_graph.vertices:
            head = graph.job_graph.nodes[vertex.head_id]
            if head.kind == "source":
                slots = tuple(graph.slot(vertex.id, subtask) for subtask in range(vertex.parallelism))
                self._sources.append(
                    make_coordinator(vertex.id, head.name, slots, head.source, self._on_data, self._on_source_failure)
                )
        for source in self._sources:
            source.start()

    def _release(self, last: JobStatus) -> None:
        """Leaves nothing running."""
        if self._runner is not None and last is not JobStatus.FINISHED:
            self._runner.cancel()
        for source in self._sources:
            source.close()
        if self._pool is not None:
            if last is not JobStatus.FINISHED:
                # The job's own failure is what counts, and the slots are ended in any case.
                self._pool.tell_all("close", CLOSE_SECONDS)
            self._pool.close()
        self.progress.end(last)
        self._set_status(last)

    # --- epochs ---

    def _run_epochs(self) -> None:
        slots_due: float | None = 0.0
        finished = False
        started = 0.0
        while not finished:
            self._wait(slots_due, started + self.settings.least_epoch_seconds)
            started = time.time()
            reports = self._run_epoch()
            self._take_results(reports)
            finished = self._finished(reports)
            slots_due = earliest([self._alignment.next_due(), *(report.next_due for report in reports)])

    def _finished(self, reports: list[EpochReport]) -> bool:
        """Whether the job is done: the end of the sources reaches every vertex in the very epoch in which they end."""
        vertices = [vertex for report in reports for vertex in report.vertices]
        source_ids = {source.vertex_id for source in self._sources}
        if not all(vertex.finished for vertex in vertices if vertex.vertex_id in source_ids):
            return False
        waiting = {vertex.vertex_id for vertex in vertices if not vertex.finished}
        if waiting:
            names = ", ".join(f"'{self._graph.job_graph.vertices[vertex_id].name}'" for vertex_id in sorted(waiting))
            summary = f"epoch {self._epoch}: the sources have ended, and their end has not reached {names}"
            raise _JobFailed(Fault(None, None, None, summary, summary))
        return True

    def _wait(self, slots_due: float | None, not_before: float) -> None:
        """Sleeps until there is data or something is due: an idle job costs nothing."""
        while True:
            sources_due = earliest(source.next_due() for source in self._sources)
            with self._changed:
                self._check()
                due = 0.0 if self._data_ready else earliest((slots_due, sources_due))
                seconds = None if due is None else max(due, not_before) - time.time()
                if seconds is not None and seconds <= 0:
                    return
                self._changed.wait(seconds)

    def _run_epoch(self) -> list[EpochReport]:
        assert self._runner is not None
        self._epoch += 1
        started = time.perf_counter()
        with self._changed:
            self._data_ready = False
        limit = self._sizer.limit
        work = {
            source.vertex_id: replace(
                source.work(limit),
                seconds=self.settings.epoch_seconds,
                aligned_to=self._alignment.limit(source.vertex_id),
            )
            for source in self._sources
        }
        readers = [frame for frame in (source.reader() for source in self._sources) if frame is not None]
        self._call("begin_epoch", arguments=lambda slot: {"epoch": self._epoch, "sources": work})
        try:
            self._runner.run(self._epoch, readers)
        except Exception as error:
            self._raise_cause(error)
        reports: list[EpochReport] = self._call("end_epoch")
        self._check()
        self._verify(reports)
        seconds = time.perf_counter() - started
        self._account(reports, seconds)
        return reports

    def _account(self, reports: list[EpochReport], seconds: float) -> None:
        vertices = [vertex for report in reports for vertex in report.vertices]
        source_ids = {source.vertex_id for source in self._sources}
        read = 0
        most = 0
        for vertex in vertices:
            if vertex.vertex_id in source_ids:
                key = (vertex.vertex_id, vertex.subtask)
                new = vertex.records_in - self._read_before.get(key, 0)
                self._read_before[key] = vertex.records_in
                read += new
                most = max(most, new)
        for source in self._sources:
            source.epoch_done([vertex for vertex in vertices if vertex.vertex_id == source.vertex_id])
        self._alignment.epoch_done(vertices)
        busy = max(sum(report.busy.values()) for report in reports)
        self._sizer.observe(seconds, busy, most)
        self.progress.epoch(self._epoch, seconds, read, vertices, reports)

    def _verify(self, reports: list[EpochReport]) -> None:
        """Every level must have run in every slot that takes part in it, exactly once (the slots see to 'once')."""
        for slot, report in enumerate(reports):
            expected = {vertex.level for vertex in self._deployment.vertices if slot in vertex.slots}
            if not expected <= report.levels:
                missing = ", ".join(map(str, sorted(expected - report.levels)))
                summary = f"epoch {self._epoch}: slot {slot} has not seen level {missing}"
                raise _JobFailed(Fault(None, None, None, summary, summary))

    def _take_results(self, reports: list[EpochReport]) -> None:
        """Fetches what sinks have put aside for the driver, page by page."""
        assert self._pool is not None
        merged: dict[str, Any] = {}
        written = {writer.spool_name for writer in self._writers}
        for writer in self._writers:
            self._write_with_spark(writer, reports)
        for slot, report in enumerate(reports):
            for name, accumulator in report.accumulators.items():
                if name in merged:
                    merged[name].merge(accumulator)
                else:
                    merged[name] = accumulator
            for spool, pages in report.spools.items():
                if spool in written:
                    continue
                first = report.first_pages.get(spool)
                for number in range(pages):
                    page = first if number == 0 and first is not None else None
                    if page is None:
                        page = self._call_slot(slot, "fetch", spool=spool, page=number)
                    self._deliver(spool, page)
                if pages > 1 or first is None:
                    self._call_slot(slot, "release", spools=[spool])
        self._accumulators = merged

    def _write_with_spark(self, writer: SparkWriterOperator, reports: list[EpochReport]) -> None:
        """Hands the records of a Spark sink to its function, then lets the slots forget them."""
        assert self._pool is not None and writer.write is not None
        spool = writer.spool_name
        holders = [slot for slot, report in enumerate(reports) if spool in report.spools]
        if not holders:
            return
        first = self._call_slot(holders[0], "fetch", spool=spool, page=0)
        frame = spool_frame(self._spark, self._pool.addresses, self._pool.authkey, spool, writer.input_type, first)
        try:
            writer.write(frame, self._epoch)
        except Exception as error:
            name = next(node.name for node in self._graph.job_graph.nodes.values() if node.operator is writer)
            raise _JobFailed(user_fault(error, name).fault) from error
        for slot in holders:
            self._call_slot(slot, "release", spools=[spool])

    def _deliver(self, spool: str, page: bytes) -> None:
        if spool == PRINT_SPOOL:
            with self.progress.paused():
                print_lines(page)
        else:
            self.collector(spool).put(page, lambda: self._cancel_requested)

    # --- what happens meanwhile ---

    def _on_data(self) -> None:
        with self._changed:
            self._data_ready = True
            self._changed.notify_all()

    def _on_failure(self, fault: Fault) -> None:
        with self._changed:
            if self._fault is None or (self._fault.operator is None and fault.operator is not None):
                self._fault = fault
            self._changed.notify_all()
        if self._runner is not None:
            threading.Thread(target=self._runner.cancel, daemon=True).start()

    def _on_source_failure(self, error: BaseException) -> None:
        self._on_failure(engine_fault(error))

    def _check(self) -> None:
        if self._fault is not None:
            raise _JobFailed(self._fault)
        if self._cancel_requested:
            raise _Cancelled

    def _raise_cause(self, error: Exception) -> None:
        """A Spark job has failed: what a slot has to say about it counts more than what Spark says."""
        with self._changed:
            self._changed.wait_for(lambda: self._fault is not None or self._cancel_requested, _CAUSE_SECONDS)
            self._check()
        raise error

    def _call(self, name: str, timeout: float | None = None, arguments: Any = None) -> list[Any]:
        assert self._pool is not None
        try:
            return self._pool.call_all(name, arguments, timeout)
        except SlotError as error:
            raise self._cause_of(error) from error

    def _call_slot(self, slot: int, name: str, **arguments: Any) -> Any:
        assert self._pool is not None
        try:
            return self._pool.call(slot, name, **arguments)
        except SlotError as error:
            raise self._cause_of(error) from error

    def _cause_of(self, error: SlotError) -> Exception:
        """Why a slot has not answered; one that has died is reported a moment after the first call that fails."""
        if error.fault is not None:
            return _JobFailed(error.fault)
        self._raise_cause(error)
        return error

    def _set_status(self, status: JobStatus) -> None:
        with self._changed:
            self.status = status
            self._changed.notify_all()
