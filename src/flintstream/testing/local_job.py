"""LocalJob: runs a whole job graph in this process, without Spark. For tests of graphs and of the runtime.

The slots are those of a real job, with pickled operators; a LocalTransport replaces Spark.
"""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from flintstream.common.accumulators import Accumulator
from flintstream.common.time import earliest, monotonic_due
from flintstream.graph.execution_graph import ExecutionGraph
from flintstream.graph.job_graph import build_job_graph
from flintstream.graph.stream_graph import StreamGraph
from flintstream.jobmaster.alignment import AlignmentGroups
from flintstream.jobmaster.sources import SourceCoordinator, SplitCoordinator
from flintstream.runtime.context import JobInfo
from flintstream.runtime.deployment import JobDeployment
from flintstream.runtime.operators.sinks import PRINT_SPOOL
from flintstream.runtime.services import system_clock
from flintstream.runtime.slot.messages import DataReady
from flintstream.runtime.slot.protocol import EpochReport
from flintstream.runtime.slot.slot import Slot
from flintstream.runtime.slot.task import Task
from flintstream.runtime.slot.user_code import pickle_operators
from flintstream.runtime.source import SplitSource
from flintstream.testing.local_transport import LocalTransport, SentBlock

_JOB_ID = "0" * 32
_POLL_SECONDS = 0.01


class LocalJob:
    """Runs a stream graph to its end, epoch by epoch.

        job = LocalJob(stream_graph, records_per_epoch=3)
        job.run()
        assert job.collected["my collector"] == [...]

    :param records_per_epoch: the most records that a source subtask reads in an epoch; a small number makes many epochs.
    :param batch_mode: run as in `RuntimeExecutionMode.BATCH`.
    :param job_parameters: the job parameters, for `runtime_context.get_job_parameter`.
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
        """The number of epochs so far."""
        self.collected: dict[str, list[Any]] = {}
        """The records of each collecting sink, by collector id."""
        self.printed: list[str] = []
        """The lines of all print sinks."""
        self.accumulators: dict[str, Any] = {}
        """The total of each accumulator over all tasks, after the last epoch."""
        self._slots_due: float | None = 0.0
        self._alignment = AlignmentGroups.of(graph)
        self._deployment = JobDeployment.of(graph)
        self._job = JobInfo(_JOB_ID, graph.job_graph.name, parameters=dict(job_parameters or {}), batch_mode=batch_mode)
        self._slots = [Slot(number, _JOB_ID, 0, self._told) for number in range(graph.slots_count)]
        levels = [frozenset(vertex.id for vertex in level) for level in graph.levels]
        self._transport = LocalTransport(_JOB_ID, levels, self._slots)
        self._sources = [
            self._coordinator(vertex.id, vertex.name, vertex.parallelism)
            for vertex in graph.job_graph.vertices
            if graph.job_graph.nodes[vertex.head_id].kind == "source"
        ]

    def _told(self, message: Any) -> None:
        if isinstance(message, DataReady):
            self._on_data.set()

    def _coordinator(self, vertex_id: int, name: str, parallelism: int) -> SourceCoordinator:
        job = self._graph.job_graph
        source = job.nodes[job.vertices[vertex_id].head_id].source
        if isinstance(source, SplitSource):
            return SplitCoordinator(vertex_id, name, parallelism, source, self._on_data.set)
        return SourceCoordinator(vertex_id, name, parallelism)

    # --- running ---

    def run(self, timeout: float = 30.0) -> LocalJob:
        """Runs the job to its end and closes it; raises a TimeoutError after `timeout` seconds."""
        deadline = time.monotonic() + timeout
        try:
            self.open()
            while not self.run_epoch():
                self._wait(deadline)
            self._last_checkpoint()
        except BaseException:
            with suppress(Exception):  # The first failure counts.
                self.close()
            raise
        self.close()
        return self

    def open(self) -> None:
        """Opens all tasks, the last ones first."""
        self._opened = True
        for slot in self._slots:
            slot.deploy(self._job, pickle_operators(self._deployment.hosted_by(slot.number)))
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
        for slot in self._slots:
            slot.begin_epoch(self.epochs, work)
        self._transport.run(self.epochs)
        reports = [slot.end_epoch() for slot in self._slots]
        vertices = [vertex for report in reports for vertex in report.vertices]
        for source in self._sources:
            source.epoch_done([vertex for vertex in vertices if vertex.vertex_id == source.vertex_id])
        self._alignment.epoch_done(vertices)
        self._slots_due = earliest([self._alignment.next_due(), *(report.next_due for report in reports)])
        self._take_results(reports)
        return all(vertex.finished for vertex in vertices)

    def _last_checkpoint(self) -> None:
        """Takes the final checkpoint, if a sink commits."""
        if any(operator.commits for task in self.tasks for operator in task.operators.values()):
            for task in self.tasks:
                task.snapshot(1, system_clock())
            for task in self.tasks:
                task.notify_checkpoint_complete(1)

    def close(self) -> None:
        """Closes all tasks; raises the first failure."""
        errors: list[BaseException] = []
        for close in [each.close for each in self._slots] + [each.close for each in self._sources]:
            try:
                close()
            except Exception as error:
                errors.append(error)
        self._take_results([slot.end_epoch() for slot in self._slots])
        if errors:
            raise errors[0]

    @property
    def tasks(self) -> list[Task]:
        """Returns all tasks, slot by slot."""
        return [task for slot in self._slots for task in slot.tasks]

    @property
    def sent(self) -> list[SentBlock]:
        """Returns the blocks sent between tasks in the last epoch."""
        return self._transport.sent

    def is_due(self) -> bool:
        """Returns whether an epoch is due, as in a real job."""
        for slot in self._slots:
            if any([head.poll() for head in slot.pollable]):
                slot.notify_data()
        dues = [monotonic_due(self._slots_due), *(source.next_due() for source in self._sources)]
        now = time.monotonic()
        return self._on_data.is_set() or any(due is not None and due <= now for due in dues)

    def _wait(self, deadline: float) -> None:
        while not self.is_due() and time.monotonic() <= deadline:
            self._on_data.wait(_POLL_SECONDS)
        if time.monotonic() > deadline:
            raise TimeoutError(f"the job has not ended in time, after {self.epochs} epochs")

    def _take_results(self, reports: Sequence[EpochReport]) -> None:
        totals: dict[str, Accumulator[Any, Any]] = {}
        for slot, report in zip(self._slots, reports):
            for name, accumulator in report.accumulators.items():
                if name in totals:
                    totals[name].merge(accumulator)
                else:
                    totals[name] = accumulator
            for name, pages in report.spools.items():
                target = self.printed if name == PRINT_SPOOL else self.collected.setdefault(name, [])
                first = report.first_pages.get(name)
                for page in range(pages):
                    target.extend(pickle.loads(first if page == 0 and first is not None else slot.fetch(name, page)))
                if slot.pages(name):
                    slot.release([name])
        self.accumulators = {name: total.get_local_value() for name, total in totals.items()}


def run_graph_locally(graph: StreamGraph | ExecutionGraph, **options: Any) -> dict[str, list[Any]]:
    """Runs a bounded job in this process; returns the records of its collecting sinks, by collector id.

    The options are those of `LocalJob`.
    """
    return LocalJob(graph, **options).run().collected
