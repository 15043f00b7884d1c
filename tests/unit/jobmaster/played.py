"""A job whose slots and Spark are played by the test."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from typing import Any

from flintstream.common.job_status import JobStatus
from flintstream.jobmaster.control import JobControl
from flintstream.jobmaster.deliveries import Deliveries
from flintstream.jobmaster.executions import Executions
from flintstream.jobmaster.job_context import JobContext
from flintstream.jobmaster.progress import Progress
from flintstream.jobmaster.queryable_states import QueryableStates
from flintstream.jobmaster.settings import JobSettings
from flintstream.jobmaster.slot_calls import SlotCalls
from flintstream.jobmaster.source_factory import SourceFactory
from flintstream.jobmaster.statistics import JobStatistics
from flintstream.jobmaster.watchdog import Watchdog
from flintstream.runtime.checkpoint.uploads import SnapshotDone
from flintstream.runtime.deployment import JobDeployment
from flintstream.runtime.faults import Fault
from flintstream.runtime.slot.messages import Message, TakeSnapshot
from flintstream.runtime.slot.protocol import EpochReport, VertexReport
from flintstream.spark.slots import SlotError
from flintstream.spark.timeouts import SlotTimeouts

from ..graph.programs import execution_graph, sink, source
from ..runtime.checkpoint.fake_slots import FakeJob

SPOOL = "collected"


def report(
    *,
    finished: bool = False,
    spools: dict[str, list[Any]] | None = None,
    accumulators: dict[str, Any] | None = None,
    **changes: Any,
) -> EpochReport:
    """What a slot says whose only vertex is a source with its sink."""
    spools = spools or {}
    fields: dict[str, Any] = {
        "levels": frozenset({0}),
        "vertices": [VertexReport(0, 0, 1, 0, finished, accumulators=accumulators or {})],
        "spools": dict.fromkeys(spools, 1),
        "first_pages": {name: [pickle.dumps(records)] for name, records in spools.items()},
        "next_due": None,
        "busy": {0: 0.1},
        "memory": 0,
    }
    return EpochReport(**{**fields, **changes})


def died() -> Fault:
    return Fault(None, None, None, "slot 0 died", "slot 0 died")


class PlayedPool:
    """What an attempt sees of its slots, which is one unless told. `replies` say what each answers to a message; those
    that are `broken` fail at it."""

    access = "how to reach the slots"
    local = True

    def __init__(self, count: int = 1) -> None:
        self.count = count
        self.broken: dict[type[Message[Any]], Fault | None] = {}
        self.called: list[str] = []
        self.given_up: list[str] = []
        self.replies: dict[type[Message[Any]], Callable[[int, Any], Any]] = {}

    def call_all(self, message: Message[Any]) -> list[Any]:
        return self.call_each(type(message), lambda slot: message)

    def call_each(self, kind: type[Message[Any]], message: Callable[[int], Message[Any]]) -> list[Any]:
        self.called.append(kind.name)
        said = [message(slot) for slot in range(self.count)]
        if kind in self.broken:
            raise SlotError("slot 0 died", self.broken[kind])
        return [self._reply(slot, each) for slot, each in enumerate(said)]

    def call(self, slot: int, message: Message[Any]) -> Any:
        self.called.append(f"{message.name} {slot}")
        return self._reply(slot, message)

    def _reply(self, slot: int, message: Message[Any]) -> Any:
        return self.replies.get(type(message), lambda slot, message: None)(slot, message)

    def tell_all(self, message: Message[Any], timeout: float) -> None:
        self.called.append(message.name)

    def give_up_calls(self, why: str) -> None:
        self.given_up.append(why)

    def interrupt(self) -> None:
        """Has nothing under way."""

    def close(self) -> None:
        self.called.append("hang up")


class PlayedJob:
    """A job with checkpoints whose slots and Spark are played."""

    def __init__(self, graph: Any = None, slots: int = 1, **settings: Any) -> None:
        self.fake = FakeJob(**settings)
        self.coordinator = self.fake.coordinator
        self.coordinator.begin_attempt()
        self.control = JobControl()
        progress = Progress("my job", False)
        self.deliveries = Deliveries(progress, True, lambda: self.control.cancelled)
        graph = graph or execution_graph(sink(source()))
        deployment = JobDeployment.of(graph)
        self.context = JobContext(
            "f" * 32,
            graph,
            deployment,
            JobSettings("my job"),
            self.control,
            self.coordinator,
            self.deliveries,
            progress,
            SourceFactory(None, True),
            Executions(graph),
            JobStatistics(graph, deployment),
            QueryableStates(graph, "f" * 32, True, lambda: JobStatus.RUNNING, lambda: self.pool),
        )
        self.pool: Any = PlayedPool(slots)
        watchdog = Watchdog("my job", self.pool, self.coordinator, SlotTimeouts(), self.control.fail)
        self.slots = SlotCalls(self.pool, watchdog, self.control)

    def collect_a_record(self) -> None:
        """The first epoch has collected one."""
        self.deliveries.take(1, [report(spools={SPOOL: ["record"]})], self.slots, set())

    def collected(self) -> list[Any]:
        self.deliveries.end(None)
        return list(self.deliveries.collector(SPOOL))

    def store_snapshots(self) -> None:
        """From now on slots store what they are asked for, a moment later."""

        def store(slot: int, message: TakeSnapshot) -> None:
            done = SnapshotDone(slot, message.checkpoint_id, {})
            threading.Timer(0.01, self.coordinator.acknowledge, [done]).start()

        self.pool.replies[TakeSnapshot] = store
