"""Flame graphs: sampled by the driver of a job on request, and kept for a while, since several clients may watch one."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from flintstream.jobmaster.details import JobDetails
from flintstream.server.jobs import Jobs
from flintstream.server.rest.shapes import FlameGraph

__all__ = ["FlameGraphs"]

_ENDED, _WAITING = -1, -3
"""Flink's timestamps for a job that has ended, and for samples that are not there yet."""
_KEPT_SECONDS = 10.0
_PATIENCE_SECONDS = 15.0
"""How long a request waits for samples before it is told to ask again."""
_MOST = 64


@dataclass
class _Sample:
    task: asyncio.Task[Any]
    started: float
    ended: float | None = None


class FlameGraphs:
    """Asks drivers for flame graphs; one request at a time for each vertex or subtask and kind."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._samples: dict[tuple[str, str, int | None, str], _Sample] = {}

    async def graph(self, details: JobDetails, vertex_id: str, subtask: int | None, kind: str) -> FlameGraph:
        """Returns the tree of the stacks of a vertex or subtask."""
        if details.ended:
            return {"endTimestamp": _ENDED}
        key = (details.job_id, vertex_id, subtask, kind)
        self._forget()
        sample = self._samples.get(key)
        if sample is None:
            asked = self._jobs.ask(details.job_id, "flamegraph", vertex=vertex_id, subtask=subtask, kind=kind)
            sample = self._samples[key] = _Sample(asyncio.ensure_future(asked), time.monotonic())
        done, _ = await asyncio.wait([sample.task], timeout=_PATIENCE_SECONDS)
        if not done:
            return {"endTimestamp": _WAITING}
        if sample.ended is None:
            sample.ended = time.monotonic()
        if sample.task.exception() is not None:
            self._samples.pop(key, None)
        found = sample.task.result()
        if "endTimestamp" in found:
            return {"endTimestamp": int(found["endTimestamp"]), "data": found.get("data", {})}
        return {"endTimestamp": int(time.time() * 1000), "data": found}

    def _forget(self) -> None:
        """Drops old samples; if there are many all the same, the oldest."""
        now = time.monotonic()
        for key, sample in list(self._samples.items()):
            if sample.task.done() and now - (sample.ended or now) > _KEPT_SECONDS:
                del self._samples[key]
        while len(self._samples) >= _MOST:
            oldest = min(self._samples, key=lambda key: self._samples[key].started)
            self._samples.pop(oldest).task.cancel()
