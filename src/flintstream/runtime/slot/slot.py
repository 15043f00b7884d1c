"""Slot: hosts subtask i of each vertex, with operators, state and timers, for the duration of an attempt.

It is independent of processes, threads and connections: `process.py` runs a slot in its own process, `testing.LocalJob`
runs several in one. A slot is used by a single thread.
"""

from __future__ import annotations

import pickle
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from flintstream.common.time import earliest
from flintstream.metrics import MetricValue
from flintstream.metrics.collection import MetricsCollector
from flintstream.runtime.checkpoint.pieces import RestoredOperators
from flintstream.runtime.checkpoint.uploads import SlotSnapshot, Uploads
from flintstream.runtime.context import JobInfo
from flintstream.runtime.deployment import VertexDeployment
from flintstream.runtime.faults import Fault, engine_fault
from flintstream.runtime.operators.source import SourceHead
from flintstream.runtime.services import SlotServices, Spool
from flintstream.runtime.slot.fence import Fence
from flintstream.runtime.slot.garbage import resident_bytes
from flintstream.runtime.slot.messages import (
    DataReady,
    Joined,
    PassBarrier,
    SlotFailed,
    SourcesEnded,
    StateRegistered,
    TakeSnapshot,
)
from flintstream.runtime.slot.pipeline import Pipeline
from flintstream.runtime.slot.protocol import EpochReport, Hello, SourceWork, VertexReport
from flintstream.runtime.slot.queries import StateQueries
from flintstream.runtime.slot.task import Task
from flintstream.runtime.slot.transport import Inlet, Outlet
from flintstream.runtime.state.backend import KeyedStateBackend
from flintstream.runtime.state.queryable import QueryableState

_REPLY_BYTES = 1 << 20
"""The most bytes of results in one reply, unless a single page has more."""
_LAST_GAUGES_SECONDS = 0.2
_QUERY_STEP_SECONDS = 0.01
"""How long to work between two safe points where queries wait for them."""

Collected = dict[tuple[int, int, str], list[MetricValue]]
"""The metrics of functions, by vertex, subtask and operator id."""


class Slot:
    """See the module. `tell` sends a message to the driver; it may be called from any thread."""

    def __init__(
        self, number: int, job_id: str, attempt: int, tell: Callable[[Any], None], directory: str | None = None
    ) -> None:
        self.number = number
        self.fence = Fence(job_id, attempt, number)
        self.uploads = Uploads(number, tell)
        self.queries = StateQueries(tell)
        self.tasks: list[Task] = []
        self._tell = tell
        self._directory = directory
        self._services = SlotServices(self.notify_data, directory=directory)
        self._notified = False
        self._sources: list[tuple[Task, SourceHead]] = []
        self._completed: set[int] = set()
        self._busy: dict[int, float] = {}
        self._source_work: dict[int, SourceWork] = {}
        self._incremental = True
        self._metrics: MetricsCollector[tuple[int, int, str]] = MetricsCollector({})
        self._passed: list[VertexReport] = []
        """The reports of the tasks of a pipelined job as they passed the last barrier."""
        self._snapshot: tuple[TakeSnapshot, SlotSnapshot] | None = None
        """The snapshot that tasks take as they pass it: what was wanted, and what there is of it."""
        self._snapshot_fault: Fault | None = None
        self.pipeline: Pipeline | None = None
        """What drives the tasks of a pipelined job; None if its epochs go level by level."""
        self.on_data: Callable[[], None] = lambda: None
        """Called when a source has announced data, by any thread; for pipelined jobs."""

    def notify_data(self) -> None:
        """Tells the driver that an operator needs an epoch, since a source has data for example; once per epoch."""
        if self.pipeline is not None:
            self.on_data()  # It reads data by itself, and at once.
        self._tell_activity()

    def _tell_activity(self) -> None:
        if not self._notified:
            self._notified = True
            self._tell(DataReady(self.number))

    def tell_joined(self) -> None:
        """Tells the driver that the standing job is connected to this slot."""
        self._tell(Joined(self.number))

    def fail(self, fault: Fault) -> None:
        """Tells the driver that the attempt has failed here; from now on no task is admitted."""
        self.fence.broken = True
        self._tell(SlotFailed(self.number, fault))

    @property
    def pollable(self) -> list[SourceHead]:
        """Returns the sources to poll between epochs: unfinished ones, unless the driver knows that there is data."""
        if self._notified or self.fence.broken or self.fence.epoch < 0:
            return []
        return [head for task, head in self._sources if not task.finished and head.wants_polling]

    def cleanup_due(self) -> float | None:
        """Returns when, by the monotonic clock, expired state is to be removed although there is no other work."""
        return None if self.fence.broken else earliest(state.cleanup_due() for state in self._states())

    def clean_up(self, idle: bool = True) -> None:
        """Removes some expired state; called between two blocks, for a longer time while there is nothing else to do."""
        for state in self._states():
            state.clean_up(idle)

    def _states(self) -> Iterator[KeyedStateBackend]:
        return (state for task in self.tasks for state in task.keyed_states)

    # --- calls of the driver ---

    def deploy(self, job: JobInfo, operators: bytes, restored: RestoredOperators | None = None) -> None:
        """Creates the tasks to host, restores their state, and opens them."""
        hosted: list[tuple[VertexDeployment, int]] = pickle.loads(operators)
        if job.queryable_state:
            self._services.safe_point = self.queries.answer
            self._services.step_seconds = _QUERY_STEP_SECONDS
            self._services.on_queryable = self._register_state
        self.tasks = [Task(vertex, subtask, job, self._services, _nowhere) for vertex, subtask in hosted]
        self._incremental = job.incremental_checkpoints
        if restored is not None:
            for task in self.tasks:
                task.restore(partial(restored.chains, directory=self._services.directory))
        for task in reversed(self.tasks):
            task.open()
        if job.pipelined:
            self.pipeline = Pipeline(
                self.number,
                self.tasks,
                job.buffer_timeout,
                on_activity=self._tell_activity,
                on_pass=self._note_passed,
                on_end=lambda: self._tell(SourcesEnded(self.number)),
            )
        self.queries.open(self.tasks)
        self._sources = [(task, task.head) for task in self.tasks if isinstance(task.head, SourceHead)]
        self._metrics = MetricsCollector(
            {
                (task.vertex.vertex_id, task.subtask, deployed.operator_id): task.metrics[deployed.node_id]
                for task in self.tasks
                for deployed in task.vertex.operators
            }
        )

    def _register_state(self, vertex_id: int, operator_id: str, operator: str, state: QueryableState) -> None:
        self._tell(StateRegistered(self.number, vertex_id, operator_id, operator, state.name))

    def begin_epoch(self, epoch: int, sources: dict[int, SourceWork]) -> None:
        """Begins an epoch: its levels may be entered from now on."""
        self.fence.begin_epoch(epoch)
        self._completed = set()
        self._busy = {}
        self._source_work = sources
        self._notified = False
        if self.pipeline is not None:
            self.pipeline.begin_epoch(sources)

    def pass_barrier(self, barrier: PassBarrier) -> None:
        """Lets a barrier pass through the tasks of a pipelined job; `end_pipelined_epoch` when all have passed."""
        assert self.pipeline is not None
        self._passed = []
        self._snapshot = None if barrier.snapshot is None else (barrier.snapshot, self._new_snapshot(barrier.snapshot))
        self._snapshot_fault = None
        self.pipeline.pass_barrier(barrier.halts)

    def _note_passed(self, task: Task) -> None:
        """Takes the report and the snapshot of a task at the barrier."""
        self._passed.append(task.report())
        if self._snapshot is None or self._snapshot_fault is not None:
            return
        wanted, snapshot = self._snapshot
        try:
            self._add_to(snapshot, task, wanted)
        except Exception as error:
            # The checkpoint fails, but not yet the job.
            self._snapshot_fault = engine_fault(error)

    def end_pipelined_epoch(self) -> EpochReport:
        """Returns the report of the epoch that all tasks have ended at a barrier, as of the barrier."""
        assert self.pipeline is not None
        taken, self._snapshot = self._snapshot, None
        if taken is not None and self._snapshot_fault is None:
            self.uploads.add(taken[1])
        self._notified = False
        self._busy = self.pipeline.end_epoch()
        self._completed = set(self._busy)
        metrics = self._metrics.collect()
        vertices = [
            replace(report, metrics=_of_task(metrics, report.vertex_id, report.subtask)) for report in self._passed
        ]
        return replace(self.end_epoch(vertices=vertices), snapshot_fault=self._snapshot_fault)

    def end_epoch(self, last: bool = False, vertices: list[VertexReport] | None = None) -> EpochReport:
        """Returns the report of the epoch, with the results for the driver; the `last` one after closing."""
        if vertices is None:
            vertices = self._reports(
                self._metrics.collect(now=True, patience=None) if last else self._metrics.collect()
            )
        if last:
            self._services.seal_all()
        spools = {name: spool.pages for name, spool in self._services.sealed.items()}
        return EpochReport(
            levels=frozenset(self._completed),
            vertices=vertices,
            spools=spools,
            first_pages=self._first_pages(spools),
            next_due=self._next_due(),
            busy=self._busy,
            memory=resident_bytes(),
            late_records=self._late_records(),
            waits_for_clock=any(task.waits_for_clock for task in self.tasks if not task.finished),
        )

    def snapshot(self, wanted: TakeSnapshot) -> None:
        """Takes a snapshot of all operators; it is uploaded while the next epochs run."""
        snapshot = self._new_snapshot(wanted)
        for task in self.tasks:
            self._add_to(snapshot, task, wanted)
        self.uploads.add(snapshot)

    def _new_snapshot(self, wanted: TakeSnapshot) -> SlotSnapshot:
        return SlotSnapshot(wanted.checkpoint_id, wanted.target, self._incremental and not wanted.savepoint, [], {})

    def _add_to(self, snapshot: SlotSnapshot, task: Task, wanted: TakeSnapshot) -> None:
        """Takes the snapshot of one task."""
        started = time.perf_counter()
        names = {each.operator_id: each.name for each in task.vertex.operators}
        for operator_id, taken in task.snapshot(wanted.checkpoint_id, wanted.timestamp, wanted.savepoint).items():
            snapshot.snapshots.append((operator_id, names[operator_id], task.subtask, taken))
        snapshot.tasks[task.vertex.vertex_id, task.subtask] = time.perf_counter() - started

    def checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notifies all tasks that a checkpoint is complete: sinks commit."""
        self.uploads.completed(checkpoint_id)
        for task in self.tasks:
            task.notify_checkpoint_complete(checkpoint_id)

    def checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notifies all tasks that a checkpoint was aborted."""
        for task in self.tasks:
            task.notify_checkpoint_aborted(checkpoint_id)

    def staged(self) -> dict[str, int]:
        """Returns the number of pages of each spool whose records wait for a checkpoint."""
        return {name: spool.pages for name, spool in self._services.spools.items() if spool.staged and spool.pages}

    def pages(self, spool: str) -> int:
        """Returns the number of pages in a spool."""
        known = self._services.find(spool)
        return 0 if known is None else known.pages

    def fetch(self, spool: str, first: int) -> list[bytes]:
        """Returns pages of a spool from one on: at least one."""
        known = self._spool(spool)
        return known.some_pages(first, _REPLY_BYTES) or [known.page(first)]

    def fetch_all(self, spool: str) -> Iterator[bytes]:
        """Yields all pages of a spool; none if there is no such spool."""
        return map(self._spool(spool).page, range(self.pages(spool))) if self.pages(spool) else iter(())

    def _spool(self, name: str) -> Spool:
        known = self._services.find(name)
        if known is None:
            raise KeyError(f"slot {self.number} has no spool {name}")
        return known

    def release(self, spools: list[str]) -> None:
        """Removes spools that the driver has read."""
        for name in spools:
            self._services.release(name)

    def close(self) -> EpochReport:
        """Closes all operators; raises the first failure."""
        self._metrics.collect(now=True, patience=_LAST_GAUGES_SECONDS)  # What they say before functions are closed.
        self.queries.close()
        errors = [error for task in self.tasks for error in task.close()]
        if errors:
            raise errors[0]
        return self.end_epoch(last=True)

    def measure(self) -> list[VertexReport]:
        """Returns reports of the tasks as they are now; for another thread than the slot's own."""
        return self._reports(self._metrics.collect(), live=True)

    # --- reports ---

    def _reports(self, metrics: Collected | None, live: bool = False) -> list[VertexReport]:
        return [task.report(_of_task(metrics, task.vertex.vertex_id, task.subtask), live) for task in self.tasks]

    def _first_pages(self, spools: dict[str, int]) -> dict[str, list[bytes]]:
        """Returns the first pages of each spool, unless they are large; clears spools that have no others."""
        found = {}
        for name, pages in spools.items():
            spool = self._services.sealed[name]
            if spool.kept:
                continue
            found[name] = spool.some_pages(0, _REPLY_BYTES)
            if len(found[name]) == pages:
                self._services.release(name)
        return found

    def _next_due(self) -> float | None:
        dues = [task.next_due() for task in self.tasks if not task.finished]
        if any(head.has_data() for task, head in self._sources if not task.finished):
            dues.append(0.0)
        return earliest(dues)

    def _late_records(self) -> dict[str, int]:
        found: Counter[str] = Counter()
        for task in self.tasks:
            found.update(task.late_records())
        return dict(found)

    # --- epochs ---

    def enter(self, hello: Hello, outlet: Outlet) -> Inlet:
        """Admits a transport to a level of the epoch; the blocks that its tasks send go to `outlet`. May raise Refused."""
        self.fence.enter(hello)
        return LevelInlet(self, hello.level, outlet)

    def source_work(self, task: Task) -> SourceWork | None:
        """Returns the work of a task's source in this epoch; None if it has no source or has finished."""
        if not isinstance(task.head, SourceHead) or task.finished:
            return None
        return self._source_work.get(task.vertex.vertex_id)

    def level_done(self, level: int, busy: float) -> None:
        """Records that a level has ended the epoch, and its processing time in seconds."""
        self._completed.add(level)
        self._busy[level] = busy


class LevelInlet:
    """Feeds the tasks of one level in one epoch."""

    def __init__(self, slot: Slot, level: int, outlet: Outlet) -> None:
        self._slot = slot
        self._level = level
        self._tasks = {task.vertex.vertex_id: task for task in slot.tasks if task.vertex.level == level}
        self._unmarked = {
            vertex_id: {channel for group in task.vertex.inputs[task.subtask] for channel in group}
            for vertex_id, task in self._tasks.items()
        }
        """The channels without a mark, by vertex; without vertices that have ended the epoch."""
        self._busy = 0.0
        for task in self._tasks.values():
            task.outlet = outlet
            if work := slot.source_work(task):
                task.start_work()
                # Before any block: an assigned split holds the watermark back even if its records arrive last.
                task.assign_splits(work)
                self._busy += task.stop_work()

    def receive(self, vertex: int, input_index: int, channel: int, block: bytes | memoryview) -> None:
        """Passes a block to a task of this level."""
        task = self._tasks[vertex]
        task.start_work()
        task.receive(input_index, channel, block)
        self._busy += task.stop_work()

    def mark(self, vertex: int, channel: int) -> None:
        """Marks a channel as done with the epoch; with its last channel, a task ends the epoch."""
        unmarked = self._unmarked[vertex]
        unmarked.remove(channel)
        if not unmarked:
            self._end_epoch(vertex)
        if not self._unmarked:
            self._slot.level_done(self._level, self._busy)

    def mark_all(self) -> None:
        """Marks all channels of the level, and its sources, which have none, as done with the epoch."""
        for vertex in list(self._unmarked):
            self._end_epoch(vertex)
        self._slot.level_done(self._level, self._busy)

    def _end_epoch(self, vertex: int) -> None:
        del self._unmarked[vertex]
        task = self._tasks[vertex]
        task.start_work()
        if work := self._slot.source_work(task):
            task.read_source(work)
        task.end_epoch()
        task.outlet = _nowhere
        self._busy += task.stop_work()


def _of_task(metrics: Collected | None, vertex_id: int, subtask: int) -> dict[str, list[MetricValue]] | None:
    """Returns the metrics of the functions of a task, by operator id."""
    if metrics is None:
        return None
    found = {operator_id: values for (*task, operator_id), values in metrics.items() if task == [vertex_id, subtask]}
    return {operator_id: values for operator_id, values in found.items() if values}


def _nowhere(*row: Any) -> None:
    raise AssertionError("a block was emitted outside an epoch")
