"""Slot: hosts subtask i of each vertex, with operators, state and timers, for the duration of an attempt.

It is independent of processes, threads and connections: `process.py` runs a slot in its own process, `testing.LocalJob`
runs several in one. A slot is used by a single thread.
"""

from __future__ import annotations

import pickle
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from flintstream.common.time import earliest
from flintstream.metrics import MetricValue
from flintstream.metrics.collection import MetricsCollector
from flintstream.runtime.checkpoint.pieces import CheckpointTarget, RestoredOperators
from flintstream.runtime.checkpoint.uploads import SlotSnapshot, Uploads
from flintstream.runtime.context import JobInfo
from flintstream.runtime.deployment import VertexDeployment
from flintstream.runtime.faults import Fault
from flintstream.runtime.operators.source import SourceHead
from flintstream.runtime.services import SlotServices
from flintstream.runtime.slot.fence import Fence
from flintstream.runtime.slot.garbage import resident_bytes
from flintstream.runtime.slot.messages import DataReady, SlotFailed
from flintstream.runtime.slot.protocol import EpochReport, Hello, SourceWork, VertexReport
from flintstream.runtime.slot.task import Task
from flintstream.runtime.slot.transport import Inlet, Outlet

_FIRST_PAGE_BYTES = 1 << 20
_LAST_GAUGES_SECONDS = 0.2

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

    def notify_data(self) -> None:
        """Tells the driver that a source has data; once per epoch."""
        if not self._notified:
            self._notified = True
            self._tell(DataReady(self.number))

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

    # --- calls of the driver ---

    def deploy(self, job: JobInfo, operators: bytes, restored: RestoredOperators | None = None) -> None:
        """Creates the tasks to host, restores their state, and opens them."""
        hosted: list[tuple[VertexDeployment, int]] = pickle.loads(operators)
        self.tasks = [Task(vertex, subtask, job, self._services, _nowhere) for vertex, subtask in hosted]
        self._incremental = job.incremental_checkpoints
        if restored is not None:
            for task in self.tasks:
                task.restore(partial(restored.chains, directory=self._services.directory))
        for task in reversed(self.tasks):
            task.open()
        self._sources = [(task, task.head) for task in self.tasks if isinstance(task.head, SourceHead)]
        self._metrics = MetricsCollector(
            {
                (task.vertex.vertex_id, task.subtask, deployed.operator_id): task.metrics[deployed.node_id]
                for task in self.tasks
                for deployed in task.vertex.operators
            }
        )

    def begin_epoch(self, epoch: int, sources: dict[int, SourceWork]) -> None:
        """Begins an epoch: its levels may be entered from now on."""
        self.fence.begin_epoch(epoch)
        self._completed = set()
        self._busy = {}
        self._source_work = sources
        self._notified = False

    def end_epoch(self, last: bool = False) -> EpochReport:
        """Returns the report of the epoch, with the results for the driver; the `last` one after closing."""
        spools = {
            name: spool.pages for name, spool in self._services.spools.items() if spool.pages and not spool.staged
        }
        return EpochReport(
            levels=frozenset(self._completed),
            vertices=self._reports(self._metrics.collect(now=True, patience=None) if last else self._metrics.collect()),
            spools=spools,
            first_pages=self._first_pages(spools),
            next_due=self._next_due(),
            busy=self._busy,
            memory=resident_bytes(),
            late_records=self._late_records(),
        )

    def snapshot(self, checkpoint_id: int, timestamp: int, target: CheckpointTarget, savepoint: bool = False) -> None:
        """Takes a snapshot of all operators; it is uploaded while the next epochs run."""
        snapshots, tasks = [], {}
        for task in self.tasks:
            started = time.perf_counter()
            names = {each.operator_id: each.name for each in task.vertex.operators}
            for operator_id, taken in task.snapshot(checkpoint_id, timestamp, savepoint).items():
                snapshots.append((operator_id, names[operator_id], task.subtask, taken))
            tasks[task.vertex.vertex_id, task.subtask] = time.perf_counter() - started
        self.uploads.add(SlotSnapshot(checkpoint_id, target, self._incremental and not savepoint, snapshots, tasks))

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
        known = self._services.spools.get(spool)
        return 0 if known is None else known.pages

    def fetch(self, spool: str, page: int) -> bytes:
        """Returns a page of a spool."""
        return self._services.spools[spool].page(page)

    def release(self, spools: list[str]) -> None:
        """Removes spools that the driver has read."""
        for name in spools:
            self._services.spools.pop(name).clear()

    def close(self) -> EpochReport:
        """Closes all operators; raises the first failure."""
        self._metrics.collect(now=True, patience=_LAST_GAUGES_SECONDS)  # What they say before functions are closed.
        errors = [error for task in self.tasks for error in task.close()]
        if errors:
            raise errors[0]
        return self.end_epoch(last=True)

    def measure(self) -> list[VertexReport]:
        """Returns reports of the tasks as they are now; for another thread than the slot's own."""
        return self._reports(self._metrics.collect(), live=True)

    # --- reports ---

    def _reports(self, metrics: Collected | None, live: bool = False) -> list[VertexReport]:
        reports = []
        for task in self.tasks:
            own = None
            if metrics is not None:
                own = {
                    operator_id: values
                    for (vertex_id, subtask, operator_id), values in metrics.items()
                    if values and (vertex_id, subtask) == (task.vertex.vertex_id, task.subtask)
                }
            reports.append(task.report(own, live))
        return reports

    def _first_pages(self, spools: dict[str, int]) -> dict[str, bytes]:
        """Returns the first page of each spool, unless it is large; clears spools with a single page."""
        found = {}
        for name, pages in spools.items():
            spool = self._services.spools[name]
            if spool.kept or len(page := spool.page(0)) > _FIRST_PAGE_BYTES:
                continue
            found[name] = page
            if pages == 1:
                spool.clear()
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


def _nowhere(*row: Any) -> None:
    raise AssertionError("a block was emitted outside an epoch")
