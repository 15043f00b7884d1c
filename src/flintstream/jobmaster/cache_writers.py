"""CacheWriters: the driver's side of cached streams, which lets Spark store the records spooled in slots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flintstream.jobmaster.job_context import JobContext
from flintstream.jobmaster.slot_calls import SlotCalls
from flintstream.runtime.operators.cache import CacheOperator
from flintstream.runtime.slot.messages import ReleaseSpool
from flintstream.runtime.slot.protocol import EpochReport
from flintstream.spark.cached_blocks import CachedBlocks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STORED_PAGES = 256
"""How many blocks, of half a megabyte where they are full, are stored together: few parts are quick to plan."""


@dataclass
class _Cache:
    """A cached stream, in the job that produces it."""

    operator: CacheOperator
    slots: list[int]
    """The slot of each subtask."""
    blocks: CachedBlocks
    spooled: dict[int, int] = field(default_factory=dict)
    """The blocks that are still in the slots."""


class CacheWriters:
    """The cached streams that one attempt produces. They are available once the attempt has finished."""

    def __init__(self, job: JobContext, slots: SlotCalls, spark: SparkSession) -> None:
        self._slots = slots
        self._caches = [
            _Cache(each.operator, vertex.slots, CachedBlocks(spark, len(vertex.slots)))
            for vertex in job.deployment.vertices
            for each in vertex.operators
            if isinstance(each.operator, CacheOperator)
        ]
        self.spools = {cache.operator.spool_name for cache in self._caches}
        """The spools of these streams."""

    def take(self, reports: Sequence[EpochReport]) -> None:
        """Stores what an epoch has added, if there is enough of it."""
        for cache in self._caches:
            name = cache.operator.spool_name
            pages = {slot: report.spools.get(name, 0) for slot, report in enumerate(reports)}
            cache.spooled = {slot: count for slot, count in pages.items() if count}
            if sum(cache.spooled.values()) >= STORED_PAGES:
                self._store(cache)

    def complete(self) -> None:
        """Stores the rest, and makes the streams available to later jobs."""
        for cache in self._caches:
            if cache.spooled:
                self._store(cache)
        while self._caches:
            cache = self._caches.pop()
            assert cache.operator.cache is not None
            cache.operator.cache.fill(cache.blocks)

    def discard(self) -> None:
        """Removes what was stored, unless the streams are complete."""
        while self._caches:
            self._caches.pop().blocks.release()

    def _store(self, cache: _Cache) -> None:
        name = cache.operator.spool_name
        with self._slots.waiting("storing a cached stream"):
            cache.blocks.store(self._slots.access, name, cache.slots)
        for slot in cache.spooled:
            self._slots.call(slot, ReleaseSpool(name))
        cache.spooled = {}
