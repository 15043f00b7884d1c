"""EpochRunner: one Spark job per epoch, always the same straight chain of levels."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from flintstream.runtime.slot.handshake import SlotAccess
from flintstream.runtime.slot.transport import Transport
from flintstream.spark.exchange import EPOCH_PROPERTY, ROW_SCHEMA, LevelTask
from flintstream.spark.jvm import cancel_jobs
from flintstream.spark.session import frame_of_plan, in_session, job_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class EpochRunner(Transport):
    """The transport of one attempt of a job: the shuffles of Spark jobs.

    `levels` has the names of the vertices of each level, and `widths` the number of slots in it.
    """

    def __init__(
        self,
        spark: SparkSession,
        job_id: str,
        attempt: int,
        levels: Sequence[Mapping[int, str]],
        widths: Sequence[int],
        slots: SlotAccess,
    ) -> None:
        self._spark = job_session(spark, generates_code=False)
        self._given = spark
        self._reading: SparkSession | None = None
        """The session of epochs that read DataFrames, whose own plans are compiled as usual."""
        self._context = spark.sparkContext
        self._job_id = job_id
        # Unique, even among jobs with the same id: a cancelled group stays cancelled.
        self.group = f"flint-{job_id}-{attempt}-{uuid.uuid4().hex[:8]}"
        self._widths = list(widths)
        self._tasks = [LevelTask(job_id, attempt, level, vertices, slots) for level, vertices in enumerate(levels)]
        self._plan: Any = None

    def run(self, epoch: int, readers: Sequence[DataFrame] = ()) -> None:
        """Runs an epoch to its end; raises Spark's exceptions. `readers` are rows for level 0."""
        self._context.setLocalProperty("spark.scheduler.pool", self.group)
        self._context.setJobGroup(self.group, f"epoch {epoch} of job {self._job_id}", True)
        self._context.setLocalProperty(EPOCH_PROPERTY, str(epoch))
        self._frame(readers).collect()

    def cancel(self) -> None:
        """Cancels the running epoch and prevents later ones; may be called from any thread."""
        cancel_jobs(self._context, self.group, "the job has ended")

    def _frame(self, readers: Sequence[DataFrame]) -> DataFrame:
        """Returns the plan of an epoch. Without readers it never changes: it is analysed once, and only planned again."""
        if readers:
            self._reading = self._reading or job_session(self._given)
            return self._chain(self._exchanged(in_session(_union(readers), self._reading), 0))
        if self._plan is None:
            width = self._widths[0]
            self._plan = self._chain(self._spark.range(0, width, 1, width))._jdf.queryExecution().analyzed()
        return frame_of_plan(self._plan, self._spark)

    def _chain(self, frame: DataFrame) -> DataFrame:
        for level, task in enumerate(self._tasks):
            if level:
                frame = self._exchanged(frame, level)
            frame = frame.mapInArrow(task, ROW_SCHEMA)
        return frame

    def _exchanged(self, frame: DataFrame, level: int) -> DataFrame:
        # Sorted by number first, so that the channels of a receiver alternate, and each stays in order.
        by_id = frame.repartitionById(self._widths[level], "slot")
        return by_id.sortWithinPartitions("seq", "input", "channel")


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    result = frames[0]
    for frame in frames[1:]:
        result = result.unionAll(frame)
    return result
