"""SparkWriters: the driver's side of Spark sinks, which writes the records spooled in slots with Spark."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from flintstream.jobmaster.cache_writers import CacheWriters
from flintstream.jobmaster.control import JobFailed
from flintstream.jobmaster.job_context import JobContext
from flintstream.jobmaster.slot_calls import SlotCalls
from flintstream.runtime.faults import user_fault
from flintstream.runtime.operators.committing import Committables
from flintstream.runtime.operators.sinks import SparkWriterOperator
from flintstream.runtime.slot.messages import FetchPages, ListStaged, ReleaseSpool
from flintstream.runtime.slot.protocol import EpochReport
from flintstream.spark.spool_frame import spool_frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkWriters:
    """The Spark sinks of one attempt."""

    def __init__(self, job: JobContext, slots: SlotCalls, spark: SparkSession) -> None:
        self._job = job
        self._slots = slots
        self._spark = spark
        nodes = job.graph.job_graph.nodes.values()
        self._writers = [(node.name, node.operator) for node in nodes if isinstance(node.operator, SparkWriterOperator)]
        self._caches = CacheWriters(job, slots, spark)
        self.spools = {writer.spool_name for _, writer in self._writers} | self._caches.spools
        """The spools that are written after each epoch."""

    def write_epoch(self, epoch: int, reports: Sequence[EpochReport]) -> None:
        """Writes the records spooled in an epoch, unless they wait for a checkpoint."""
        for name, writer in self._writers:
            holders = [slot for slot, report in enumerate(reports) if writer.spool_name in report.spools]
            if holders:
                self._write(name, writer, writer.spool_name, holders, epoch)
        self._caches.take(reports)

    def complete(self) -> None:
        """Fills the caches of streams, at the end of the job."""
        self._caches.complete()

    def discard(self) -> None:
        """Removes what was stored for caches: the attempt has failed."""
        self._caches.discard()

    def write_staged(self, up_to: int) -> None:
        """Writes the records staged for checkpoints that are now complete, one checkpoint at a time."""
        if not self._writers:
            return
        staged = self._slots.call_all(ListStaged())
        for name, writer in self._writers:
            numbers = {writer.staged_checkpoint(spool) for spools in staged for spool in spools}
            pending: Committables[int] = Committables()
            pending.add((number, number) for number in numbers if number is not None)
            pending.commit_up_to(up_to, partial(self._commit, name, writer, staged))

    def _commit(self, name: str, writer: SparkWriterOperator, staged: list[dict[str, int]], number: int) -> None:
        self._job.check_lease()
        spool = writer.staged_name(number)
        self._write(name, writer, spool, [slot for slot, spools in enumerate(staged) if spool in spools], number)

    def _write(self, name: str, writer: SparkWriterOperator, spool: str, holders: list[int], number: int) -> None:
        """Passes the records of a sink to its function, then releases them in the slots."""
        assert writer.write is not None
        first = self._slots.call(holders[0], FetchPages(spool, 0))[0]
        frame = spool_frame(self._spark, self._slots.access, spool, writer.input_type, first)
        try:
            with self._slots.waiting(f"write {number} of a Spark sink"):
                writer.write(frame, number)
        except Exception as error:
            raise JobFailed(user_fault(error, name).fault) from error
        for slot in holders:
            self._slots.call(slot, ReleaseSpool(spool))
