"""LocalJob: a whole job graph in this process, without Spark. For tests of graphs and of the runtime.

What Spark and the slots do in a job is done here by plain loops: operators are pickled for their slots, each
epoch goes through the levels in order, rows travel as blocks and are sorted as in an exchange.
"""

from __future__ import annotations

import pickle
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flintstream.common.accumulators import Accumulator
from flintstream.common.time import monotonic_due
from flintstream.graph.execution_graph import ExecutionGraph
from flintstream.graph.job_graph import build_job_graph
from flintstream.graph.stream_graph import StreamGraph
from flintstream.jobmaster.alignment import AlignmentGroups
from flintstream.jobmaster.sources import SourceCoordinator, SplitCoordinator
from flintstream.runtime.context import JobInfo
from flintstream.runtime.deployment import JobDeployment
from flintstream.runtime.operators.sinks import PRINT_SPOOL
from flintstream.runtime.operators.source import SourceHead
from flintstream.runtime.services import SlotServices, system_clock
from flintstream.runtime.slot.protocol import SourceWork, VertexReport
from flintstream.runtime.slot.task import Task
from flintstream.runtime.slot.user_code import pickle_operators
from flintstream.runtime.source import SplitSource

_POLL_SECONDS = 0.01
_Row = tuple[int, int, int, int, int, bytes]
"""Slot, vertex, input, channel, sequence number, block."""


class _LocalSlot:
    """The tasks of one slot, unpickled from what a job would ship."""

    def __init__(self, index: int, job: JobInfo, shipped: bytes, on_data: threading.Event) -> None:
        self.index = index
        self.services = SlotServices(on_data.set)
        self.rows: list[_Row] = []
        self.tasks = [
            Task(vertex, subtask, job, self.services, self._emit) for vertex, subtask in pickle.loads(shipped)
        ]

    def _emit(self, *row: Any) -> None:
        self.rows.append(row)

    def take_rows(self) -> list[_Row]:
        """The rows that the tasks have emitted since the last call."""
        rows, self.rows = self.rows, []
        return rows


class LocalJob:
    """Runs a stream graph to its end, epoch by epoch.

        job = LocalJob(stream_graph, records_per_epoch=3)
        job.run()
        assert job.collected["my collector"] == [...]

    :param records_per_epoch: how many records each source subtask reads in an epoch; few make many epochs.
    :param batch_mode: run as in `RuntimeExecutionMode.BATCH`.
    :param job_parameters: what `runtime_context.get_job_parameter` gives.
    """

    def __init__(
        self,
        graph: StreamGraph | ExecutionGraph,
        *,
        records_per_epoch: int = 20_000,
        batch_mode: bool = False,
        job_parameters: Mapping[str, str] | None = None,
    ) -> None:
        if isinstance(graph, StreamGraph):
            graph = ExecutionGraph(build_job_graph(graph))
        self._graph = graph
        self._limit = records_per_epoch
        self._on_data = threading.Event()
        self._opened = False
        self.epochs = 0
        """How many epochs have run."""
        self.collected: dict[str, list[Any]] = {}
        """The records of each collecting sink, by collector id."""
        self.printed: list[str] = []
        """The lines of all print sinks."""
        self.rows: list[_Row] = []
        """The rows that went through exchanges in the last epoch."""
        self._alignment = AlignmentGroups.of(graph)
        deployment = JobDeployment.of(graph)
        job = JobInfo("0" * 32, graph.job_graph.name, parameters=dict(job_parameters or {}), batch_mode=batch_mode)
        self._slots = [
            _LocalSlot(slot, job, pickle_operators(deployment.hosted_by(slot)), self._on_data)
            for slot in range(graph.slots_count)
        ]
        self._sources = [
            self._coordinator(vertex.id, vertex.name, vertex.parallelism)
            for vertex in graph.job_graph.vertices
            if graph.job_graph.nodes[vertex.head_id].kind == "source"
        ]

    def _coordinator(self, vertex_id: int, name: str, parallelism: int) -> SourceCoordinator:
        job = self._graph.job_graph
        source = job.nodes[job.vertices[vertex_id].head_id].source
        if isinstance(source, SplitSource):
            return SplitCoordinator(vertex_id, name, parallelism, source)
        return SourceCoordinator(vertex_id, name, parallelism)

    # --- running ---

    def run(self, timeout: float = 30.0) -> LocalJob:
        """Runs the job to its end and closes it; not to end within `timeout` seconds is an error."""
        deadline = time.monotonic() + timeout
        try:
            self.open()
            while not self.run_epoch():
                self._wait(deadline)
            self._last_checkpoint()
        except BaseException:
            self._close()
            raise
        self.close()
        return self

    def open(self) -> None:
        """Opens all tasks, those behind first."""
        self._opened = True
        for slot in self._slots:
            for task in reversed(slot.tasks):
                task.open()
        for source in self._sources:
            source.start()

    def run_epoch(self) -> bool:
        """Runs one epoch; returns whether all tasks have finished."""
        if not self._opened:
            raise RuntimeError("the job is not open: call open() first, or run() for all of it")
        self.epochs += 1
        self._on_data.clear()
        work = {
            source.vertex_id: replace(source.work(self._limit), aligned_to=self._alignment.limit(source.vertex_id))
            for source in self._sources
        }
        rows: list[_Row] = []
        self.rows = []
        for level in range(len(self._graph.levels)):
            rows = self._run_level(level, rows, work)
            self.rows.extend(rows)
        if rows:
            left = sorted({row[1] for row in rows})
            raise AssertionError(f"rows are left behind the last level, for vertices {left}")
        for source in self._sources:
            source.epoch_done(self._reports(source.vertex_id))
        self._alignment.epoch_done(report for source in self._sources for report in self._reports(source.vertex_id))
        self._take_results()
        return all(task.finished for task in self.tasks)

    def _last_checkpoint(self) -> None:
        """What a job ends with where a sink commits."""
        if any(operator.commits for task in self.tasks for operator in task.operators.values()):
            for task in self.tasks:
                task.snapshot(1, system_clock())
            for task in self.tasks:
                task.notify_checkpoint_complete(1)

    def close(self) -> None:
        """Closes all tasks; the first failure is raised."""
        errors = self._close()
        if errors:
            raise errors[0]

    @property
    def tasks(self) -> list[Task]:
        """All tasks, slot by slot."""
        return [task for slot in self._slots for task in slot.tasks]

    @property
    def accumulators(self) -> dict[str, Any]:
        """The total of each accumulator over all tasks."""
        totals: dict[str, Accumulator[Any, Any]] = {}
        for task in self.tasks:
            for name, accumulator in task.accumulators.items():
                if name in totals:
                    totals[name].merge(accumulator)
                else:
                    totals[name] = accumulator.clone()
        return {name: total.get_local_value() for name, total in totals.items()}

    # --- an epoch ---

    def _run_level(self, level: int, rows: list[_Row], work: dict[int, SourceWork]) -> list[_Row]:
        """Processes a level in every slot; returns the rows for later levels."""
        exchanged: dict[int, list[_Row]] = defaultdict(list)
        for row in rows:
            exchanged[row[0]].append(row)
        later: list[_Row] = []
        for slot in self._slots:
            tasks = {task.vertex.vertex_id: task for task in slot.tasks if task.vertex.level == level}
            for row in sorted(exchanged[slot.index], key=lambda row: (row[4], row[2], row[3])):
                if row[1] in tasks:
                    tasks[row[1]].receive(row[2], row[3], row[5])
                else:
                    later.append(row)
            for task in tasks.values():
                if isinstance(task.head, SourceHead) and not task.finished:
                    task.assign_splits(work[task.vertex.vertex_id])
                    task.read_source(work[task.vertex.vertex_id])
                task.end_epoch()
            later.extend(slot.take_rows())
        return later

    def _reports(self, vertex_id: int) -> list[VertexReport]:
        return [
            VertexReport(
                vertex_id,
                task.subtask,
                task.records_in,
                task.records_out,
                task.finished,
                positions=task.head.positions,
                progress=task.head.progress(),
            )
            for task in self.tasks
            if task.vertex.vertex_id == vertex_id and isinstance(task.head, SourceHead)
        ]

    def _take_results(self) -> None:
        for slot in self._slots:
            for name, spool in slot.services.spools.items():
                target = self.printed if name == PRINT_SPOOL else self.collected.setdefault(name, [])
                for page in range(spool.pages):
                    target.extend(pickle.loads(spool.page(page)))
                spool.clear()

    # --- between epochs ---

    def _wait(self, deadline: float) -> None:
        """Waits until an epoch is worth running, as a job does."""
        while not self._is_due():
            if time.monotonic() > deadline:
                raise TimeoutError(f"the job has not ended in time, after {self.epochs} epochs")
            self._on_data.wait(_POLL_SECONDS)
        if time.monotonic() > deadline:
            raise TimeoutError(f"the job has not ended in time, after {self.epochs} epochs")

    def _is_due(self) -> bool:
        if self._on_data.is_set():
            return True
        running = [task for task in self.tasks if not task.finished]
        heads = [task.head for task in running if isinstance(task.head, SourceHead)]
        if any(head.has_data() or (head.wants_polling and head.poll()) for head in heads):
            return True
        dues = [
            self._alignment.next_due(),
            *(monotonic_due(task.next_due()) for task in running),
            *(source.next_due() for source in self._sources),
        ]
        return any(due is not None and due <= time.monotonic() for due in dues)

    def _close(self) -> list[BaseException]:
        errors = [error for task in self.tasks for error in task.close()]
        self._take_results()
        return errors


def run_graph_locally(graph: StreamGraph | ExecutionGraph, **options: Any) -> dict[str, list[Any]]:
    """Runs a bounded job in this process; returns the records of its collecting sinks, by collector id.

    The options are those of `LocalJob`.
    """
    return LocalJob(graph, **options).run().collected
