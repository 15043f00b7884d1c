"""FlameGraphs: where the subtasks of a vertex spend their time, from samples of the stacks in the slots."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from flintstream.graph.execution_graph import ExecutionGraph
from flintstream.runtime.slot.messages import SampleStacks
from flintstream.runtime.slot.protocol import StackSample

if TYPE_CHECKING:
    from flintstream.spark.slots import SlotPool

SAMPLES = 100
INTERVAL_SECONDS = 0.02
ANSWER_SECONDS = 20.0
"""How long a slot may take beyond the time of the samples."""
KINDS = ("full", "on_cpu", "off_cpu")


class FlameGraphs:
    """Samples all slots when somebody asks, and answers from the same samples for some seconds.

    `pool` returns the slots of the current attempt.
    """

    def __init__(self, graph: ExecutionGraph, pool: Callable[[], SlotPool | None], refresh_seconds: float) -> None:
        self._graph = graph
        self._pool = pool
        self._refresh_seconds = refresh_seconds
        self._lock = threading.Lock()
        self._samples: list[StackSample] = []
        self._taken: float | None = None
        self._ended = 0
        self._sampled: SlotPool | None = None

    def get(self, vertex: str, subtask: int | None = None, kind: str = "full") -> dict[str, Any]:
        """Returns Flink's tree for a vertex, by its id, or for one of its subtasks."""
        vertex_id = self._check(vertex, subtask, kind)
        ended, samples = self._current()
        chosen = [
            sample
            for sample in samples
            if sample.vertex_id == vertex_id
            and subtask in (None, sample.subtask)
            and (kind == "full" or sample.on_cpu == (kind == "on_cpu"))
        ]
        return {"endTimestamp": ended, "data": tree(chosen)}

    def _check(self, vertex: str, subtask: int | None, kind: str) -> int:
        if kind not in KINDS:
            raise ValueError(f"the kind of a flame graph must be one of {', '.join(KINDS)}, got {kind!r}")
        job = self._graph.job_graph
        for each in job.vertices:
            if job.nodes[each.head_id].operator_id == vertex:
                if subtask is not None and not 0 <= subtask < each.parallelism:
                    raise ValueError(f"'{each.name}' has {each.parallelism} subtasks and no subtask {subtask}")
                return each.id
        raise ValueError(f"the job has no vertex {vertex!r}")

    def _current(self) -> tuple[int, list[StackSample]]:
        if not self._lock.acquire(timeout=ANSWER_SECONDS + 2 * SAMPLES * INTERVAL_SECONDS):
            raise TimeoutError("the stacks in the slots are being sampled, which takes longer than it should")
        try:
            pool = self._pool()
            if pool is None:
                raise RuntimeError("the job is not running: there are no slots to sample")
            now = time.monotonic()
            if self._taken is None or pool is not self._sampled or now - self._taken > self._refresh_seconds:
                self._samples = self._sample(pool)
                self._sampled, self._taken, self._ended = pool, time.monotonic(), int(time.time() * 1000)
            return self._ended, self._samples
        finally:
            self._lock.release()

    @staticmethod
    def _sample(pool: SlotPool) -> list[StackSample]:
        message = SampleStacks(SAMPLES, INTERVAL_SECONDS)
        answers = pool.ask(message, SAMPLES * INTERVAL_SECONDS + ANSWER_SECONDS)
        silent = [slot for slot, found in answers.items() if found is None]
        if silent:
            raise RuntimeError(f"slots {silent} have not sampled their stacks: they have ended, or do not answer")
        return [sample for found in answers.values() for sample in found or ()]


def tree(samples: Iterable[StackSample]) -> dict[str, Any]:
    """Merges samples into one tree: `name`, `value` (the number of samples) and `children` of each frame."""
    root: dict[str, Any] = {"name": "root", "value": 0, "children": {}}
    for sample in samples:
        node = root
        node["value"] += sample.times
        for frame in sample.frames:
            node = node["children"].setdefault(frame, {"name": frame, "value": 0, "children": {}})
            node["value"] += sample.times
    return _listed(root)


def _listed(node: dict[str, Any]) -> dict[str, Any]:
    children = sorted(node["children"].values(), key=lambda child: (-child["value"], child["name"]))
    return {**node, "children": [_listed(child) for child in children]}
