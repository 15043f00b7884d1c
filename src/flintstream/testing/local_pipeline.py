"""LocalPipeline: moves packs between pipelined slots of one process, in an order that a test chooses."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from flintstream.runtime.slot.messages import PassBarrier
from flintstream.runtime.slot.pipeline import Pipeline
from flintstream.runtime.slot.protocol import EpochReport
from flintstream.runtime.slot.slot import Slot
from flintstream.runtime.slot.transport import Transport

_ROUNDS = 1_000_000
_REQUEST_SECONDS = 0.001
"""How long to wait for asynchronous requests before looking again."""


class LocalPipeline(Transport):
    """Lets slots work in turn, and packs arrive late: only those between the same two slots stay in order.

    Each epoch ends with a barrier, which the slots get at different times: sooner or later, while packs are in flight. Those
    behind the barrier are of the next epoch.
    """

    def __init__(self, slots: Sequence[Slot], seed: int = 0) -> None:
        self._slots = slots
        self._random = random.Random(seed)
        self._in_flight: dict[tuple[int, int], deque[bytes]] = {}
        self._cancelled = False
        self.barrier = PassBarrier()
        """The barrier at the end of the next epoch."""
        self.reports: list[EpochReport] = []
        """The reports of the last epoch, as of its barrier."""
        self.most_in_flight = 0
        """The most bytes that were on their way at once, in this process's memory."""

    def run(self, epoch: int, readers: Sequence[Any] = ()) -> None:
        pipelines = [slot.pipeline for slot in self._slots if slot.pipeline is not None]
        self._work(epoch, pipelines, rounds=self._random.choice([0, 3, 30, _ROUNDS]))
        for slot in self._random.sample(self._slots, len(self._slots)):
            slot.pass_barrier(self.barrier)
            self._work(epoch, pipelines, rounds=self._random.choice([0, 1, 10]))
        self._work(epoch, pipelines, rounds=_ROUNDS, until=lambda: all(pipeline.passed for pipeline in pipelines))
        stuck = [slot.number for slot, pipeline in zip(self._slots, pipelines) if not pipeline.passed]
        if stuck:
            raise AssertionError(
                f"epoch {epoch} does not end in slots {stuck}: nothing is in flight, and nothing happens"
            )
        self.reports = [slot.end_pipelined_epoch() for slot in self._slots]

    def cancel(self) -> None:
        self._cancelled = True

    def _work(
        self, epoch: int, pipelines: list[Pipeline], rounds: int, until: Callable[[], bool] = lambda: False
    ) -> None:
        """Lets the slots work for so many rounds, or until there is nothing to do."""
        for _ in range(rounds):
            if self._cancelled:
                raise RuntimeError(f"epoch {epoch} was cancelled")
            if until():
                return
            order = list(enumerate(pipelines))
            self._random.shuffle(order)
            worked = [self._turn(number, pipeline) for number, pipeline in order]
            if not any(worked) and not any(self._in_flight.values()):
                if any(pipeline.patience() == 0.0 or pipeline.wants_flush for pipeline in pipelines):
                    for pipeline in pipelines:
                        pipeline.flush()
                    continue
                if any(task.in_flight for slot in self._slots for task in slot.tasks):
                    time.sleep(_REQUEST_SECONDS)
                    continue
                return
        if rounds == _ROUNDS:
            raise AssertionError(f"epoch {epoch} does not end")

    def _turn(self, number: int, pipeline: Pipeline) -> bool:
        worked = pipeline.step()
        for slot, parts in pipeline.take_outgoing():
            self._in_flight.setdefault((number, slot), deque()).append(b"".join(parts))
            worked = True
        self.most_in_flight = max(self.most_in_flight, sum(len(p) for q in self._in_flight.values() for p in q))
        for (_, target), packs in self._in_flight.items():
            if target == number and packs and self._random.random() < 0.5:
                pipeline.receive(packs.popleft())
                worked = True
        return worked
