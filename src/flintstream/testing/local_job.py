"""LocalJob: runs a whole job graph in this process, without Spark. For tests of graphs and of the runtime.

The slots are those of a real job, with pickled operators; a LocalTransport replaces Spark.
"""

from __future__ import annotations

import pickle
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from flintstream.common.accumulators import Accumulator
from flintstream.common.pickling import dumps
from flintstream.common.time import earliest, monotonic_due
from flintstream.graph.execution_graph import ExecutionGraph
from flintstream.graph.job_graph import build_job_graph
from flintstream.graph.stream_graph import StreamGraph, StreamNode
from flintstream.jobmaster.alignment import AlignmentGroups
from flintstream.jobmaster.iterations import IterationCoordinator, admitted
from flintstream.jobmaster.sources import SourceCoordinator, SplitCoordinator
from flintstream.runtime.checkpoint.metadata import OperatorState
from flintstream.runtime.checkpoint.pieces import CheckpointTarget, RestoredOperators
from flintstream.runtime.checkpoint.rescaling import share_of
from flintstream.runtime.checkpoint.uploads import SnapshotDone, SnapshotFailed
from flintstream.runtime.context import JobInfo
from flintstream.runtime.deployment import JobDeployment
from flintstream.runtime.latency import LatencyTracking
from flintstream.runtime.operators.sinks import PRINT_SPOOL
from flintstream.runtime.services import system_clock
from flintstream.runtime.slot.messages import DataReady, PassBarrier, TakeSnapshot
from flintstream.runtime.slot.protocol import EpochReport
from flintstream.runtime.slot.slot import Slot
from flintstream.runtime.slot.task import Task
from flintstream.runtime.slot.user_code import pickle_operators
from flintstream.runtime.source import SplitSource
from flintstream.testing.local_pipeline import LocalPipeline
from flintstream.testing.local_queries import LocalQueries
from flintstream.testing.local_transport import LocalTransport, SentBlock

_JOB_ID = "0" * 32
_POLL_SECONDS = 0.01
_SAVEPOINT_SECONDS = 60.0


class LocalJob:
    """Runs a stream graph to its end, epoch by epoch.

        job = LocalJob(stream_graph, records_per_epoch=3)
        job.run()
        assert job.collected["my collector"] == [...]

    :param records_per_epoch: the most records that a source subtask reads in an epoch; a small number makes many epochs.
    :param batch_mode: run as in `RuntimeExecutionMode.BATCH`.
    :param pipelined: a seed: slots work and blocks arrive in an order chosen by it, as with the pipelined transport.
    :param job_parameters: the job parameters, for `runtime_context.get_job_parameter`.
    :param restored: a savepoint of another job, as its `take_savepoint` has returned it.
    :param latency: how latency is tracked; by default it is not.
    """

    def __init__(
        self,
        graph: StreamGraph | ExecutionGraph,
        *,
        records_per_epoch: int = 20_000,
        batch_mode: bool = False,
        job_parameters: Mapping[str, str] | None = None,
        pipelined: int | None = None,
        restored: RestoredOperators | None = None,
        latency: LatencyTracking | None = None,
    ) -> None:
        if isinstance(graph, StreamGraph):
            graph = ExecutionGraph(build_job_graph(graph))
        self._graph = graph
        self._limit = records_per_epoch
        self._restored = restored
        self._on_data = threading.Event()
        self._stored: queue.SimpleQueue[SnapshotDone | SnapshotFailed] = queue.SimpleQueue()
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
        self._job = JobInfo(
            _JOB_ID,
            graph.job_graph.name,
            parameters=dict(job_parameters or {}),
            batch_mode=batch_mode,
            pipelined=pipelined is not None,
            queryable_state=True,
            latency=latency,
        )
        self.slots = [Slot(number, _JOB_ID, 0, self._told) for number in range(graph.slots_count)]
        self.queries = LocalQueries(graph, _JOB_ID, self.slots)
        """The queryable states."""
        levels = [frozenset(vertex.id for vertex in level) for level in graph.levels]
        self._transport: LocalTransport | LocalPipeline = (
            LocalTransport(_JOB_ID, levels, self.slots) if pipelined is None else LocalPipeline(self.slots, pipelined)
        )
        self._sources = [
            self._coordinator(vertex.id, vertex.name, vertex.parallelism)
            for vertex in graph.job_graph.vertices
            if graph.job_graph.nodes[vertex.head_id].kind in ("source", "iteration head")
        ]

    def _told(self, message: Any) -> None:
        if isinstance(message, DataReady):
            self._on_data.set()
        elif isinstance(message, SnapshotDone | SnapshotFailed):
            self._stored.put(message)
        else:
            self.queries.told(message)

    def _coordinator(self, vertex_id: int, name: str, parallelism: int) -> SourceCoordinator:
        job = self._graph.job_graph
        head = job.nodes[job.vertices[vertex_id].head_id]
        if head.kind == "iteration head":
            return IterationCoordinator.of(self._graph, job.vertices[vertex_id])
        source = head.source
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
        for slot in self.slots:
            slot.on_data = self._on_data.set
            hosted = self._deployment.hosted_by(slot.number)
            share = None if self._restored is None else share_of(self._restored, hosted)
            slot.deploy(self._job, pickle_operators(hosted), share)
        for source in self._sources:
            stored = None if self._restored is None else self._restored.operators.get(self._head(source).operator_id)
            if stored is not None and stored.source is not None:
                source.resume(pickle.loads(stored.source))
            source.start()

    def take_savepoint(self) -> RestoredOperators:
        """Runs one epoch, and returns the state at its end. The job may go on; `run_epoch` says whether it has ended."""
        wanted = TakeSnapshot(self.epochs + 1, system_clock(), CheckpointTarget(None, max_state_size=1 << 40), True)
        if isinstance(self._transport, LocalPipeline):
            self._transport.barrier = PassBarrier(wanted)
            self.run_epoch()
            self._transport.barrier = PassBarrier()
            faults = [report.snapshot_fault for report in self._transport.reports if report.snapshot_fault is not None]
            if faults:
                raise RuntimeError(faults[0].summary)
        else:
            self.run_epoch()
            for slot in self.slots:
                slot.snapshot(wanted)
        return self._savepoint(wanted.checkpoint_id)

    def _savepoint(self, number: int) -> RestoredOperators:
        nodes = self._graph.job_graph.nodes.values()
        operators = {
            node.operator_id: OperatorState(node.name, node.uid, node.parallelism, node.max_parallelism)
            for node in nodes
        }
        for _ in self.slots:
            done = self._stored.get(timeout=_SAVEPOINT_SECONDS)
            if isinstance(done, SnapshotFailed):
                raise RuntimeError(done.fault.summary)
            for (operator_id, subtask), stored in done.states.items():
                operators[operator_id].subtasks[subtask] = stored.state
        for source in self._sources:
            operator_id = self._head(source).operator_id
            position = source.position()
            if position is not None:
                operators[operator_id] = replace(operators[operator_id], source=dumps(position))
        return RestoredOperators(number, None, operators, savepoint=True)

    def _head(self, source: SourceCoordinator) -> StreamNode:
        job = self._graph.job_graph
        return job.nodes[job.vertices[source.vertex_id].head_id]

    def run_epoch(self) -> bool:
        """Runs one epoch; returns whether all tasks have finished."""
        self.begin_epoch()
        self._transport.run(self.epochs)
        if isinstance(self._transport, LocalPipeline):
            reports = self._transport.reports
        else:
            reports = [slot.end_epoch() for slot in self.slots]
        vertices = [vertex for report in reports for vertex in report.vertices]
        for source in self._sources:
            source.epoch_done([vertex for vertex in vertices if vertex.vertex_id in source.watched])
        self._alignment.epoch_done(vertices)
        self._slots_due = earliest([self._alignment.next_due(), *(report.next_due for report in reports)])
        self._take_results(reports)
        return all(vertex.finished for vertex in vertices)

    def begin_epoch(self, drain: bool = False) -> None:
        """Begins an epoch, as `run_epoch` does: for tests that drive the slots themselves."""
        if not self._opened:
            raise RuntimeError("the job is not open: call open() first, or run() for all of it")
        self.epochs += 1
        self._on_data.clear()
        work = {
            source.vertex_id: replace(
                source.work(admitted(source, self._sources, self._limit)),
                aligned_to=self._alignment.limit(source.vertex_id),
                drain=drain,
            )
            for source in self._sources
        }
        for slot in self.slots:
            slot.begin_epoch(self.epochs, work)

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
        for close in [each.close for each in self.slots] + [each.close for each in self._sources]:
            try:
                close()
            except Exception as error:
                errors.append(error)
        self._take_results([slot.end_epoch() for slot in self.slots])
        if errors:
            raise errors[0]

    def query_state(self, queryable_state_name: str, key: Any) -> Any:
        """Returns the queryable state of a key, read-only, as the epochs so far have left it."""
        return self.queries.query(queryable_state_name, key)

    @property
    def tasks(self) -> list[Task]:
        """Returns all tasks, slot by slot."""
        return [task for slot in self.slots for task in slot.tasks]

    @property
    def sent(self) -> list[SentBlock]:
        """Returns the blocks sent between tasks in the last epoch."""
        assert isinstance(self._transport, LocalTransport)
        return self._transport.sent

    def is_due(self) -> bool:
        """Returns whether an epoch is due, as in a real job."""
        for slot in self.slots:
            if any([head.poll() for head in slot.pollable]):
                slot.notify_data()
            slot.clean_up()
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
        for slot, report in zip(self.slots, reports):
            for name, accumulator in report.accumulators.items():
                if name in totals:
                    totals[name].merge(accumulator)
                else:
                    totals[name] = accumulator
            for name, pages in report.spools.items():
                target = self.printed if name == PRINT_SPOOL else self.collected.setdefault(name, [])
                fetched = list(report.first_pages.get(name, []))
                while len(fetched) < pages:
                    fetched += slot.fetch(name, len(fetched))
                for page in fetched:
                    target.extend(pickle.loads(page))
                if slot.pages(name):
                    slot.release([name])
        self.accumulators = {name: total.get_local_value() for name, total in totals.items()}


def run_graph_locally(graph: StreamGraph | ExecutionGraph, **options: Any) -> dict[str, list[Any]]:
    """Runs a bounded job in this process; returns the records of its collecting sinks, by collector id.

    The options are those of `LocalJob`.
    """
    return LocalJob(graph, **options).run().collected
