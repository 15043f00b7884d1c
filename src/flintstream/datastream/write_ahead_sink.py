"""GenericWriteAheadSink: a sink for systems without transactions, which sends the records of a checkpoint when it
completes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from flintstream.common.serializer import TypeSerializer
from flintstream.common.type_variables import IN
from flintstream.common.typeinfo import TypeInformation
from flintstream.datastream.io_functions import RichSinkFunction, SinkFunction
from flintstream.datastream.two_phase_commit import checked_serializer
from flintstream.runtime.operators.base import Operator
from flintstream.runtime.operators.write_ahead import WriteAheadOperator

__all__ = ["CheckpointCommitter", "GenericWriteAheadSink"]


class CheckpointCommitter(ABC):
    """Records which checkpoints a write-ahead sink has sent, outside the job: for example in the target system.

    Marks are keyed by `job_id` and `operator_id`, which are set before `open`, and by subtask and checkpoint. See
    `GenericWriteAheadSink` for an example.
    """

    job_id: str
    operator_id: str

    def set_job_id(self, job_id: str) -> None:
        """Called before `open`, with the id that the job keeps across restarts."""
        self.job_id = job_id

    def set_operator_id(self, operator_id: str) -> None:
        """Called before `open`."""
        self.operator_id = operator_id

    def open(self) -> None:
        """Called once per subtask before the first query."""

    def close(self) -> None:
        """Called once per subtask at the end, also after a failure, possibly without `open`."""

    @abstractmethod
    def commit_checkpoint(self, subtask_idx: int, checkpoint_id: int) -> None:
        """Marks the values of a subtask and checkpoint as sent."""

    @abstractmethod
    def is_checkpoint_committed(self, subtask_idx: int, checkpoint_id: int) -> bool:
        """Returns whether there is a mark."""


class GenericWriteAheadSink(RichSinkFunction[IN]):
    """A sink that receives the records of a checkpoint together, once the checkpoint is complete.

    Until then the records are part of the job's state. Use it for systems whose transactions do not outlive a
    connection::

        class Orders(GenericWriteAheadSink):
            def open(self, runtime_context):
                self.database = self.committer.database = sqlite3.connect("/data/shop.db")

            def send_values(self, values, checkpoint_id, timestamp):
                self.database.executemany("INSERT INTO orders VALUES (?, ?)", values)
                return True


        class Sent(CheckpointCommitter):
            def commit_checkpoint(self, subtask_idx, checkpoint_id):
                self.database.execute("INSERT INTO sent VALUES (?, ?, ?)", (self.job_id, subtask_idx, checkpoint_id))
                self.database.commit()

            def is_checkpoint_committed(self, subtask_idx, checkpoint_id):
                mark = (self.job_id, subtask_idx, checkpoint_id)
                found = self.database.execute("SELECT 1 FROM sent WHERE (job, subtask, checkpoint) = (?, ?, ?)", mark)
                return found.fetchone() is not None


        stream.add_sink(Orders(Sent()))

    The values of a subtask and checkpoint are sent together, and again if the job fails before the committer has its
    mark: delivery is at least once. If the mark is written in the same transaction as the values, as above, it is
    exactly once.

    :param committer: records what has been sent, so that it is not sent again after a restart.
    :param serializer: how records become bytes; pickle unless given.
    :param job_id: the job id under which the committer keeps its marks; by default that of the running job.
    """

    # Class attributes, so that a subclass need not call `super().__init__()`.
    committer: CheckpointCommitter | None = None
    serializer: TypeSerializer[Any] | None = None
    job_id: str | None = None

    def __init__(
        self,
        committer: CheckpointCommitter | None = None,
        serializer: TypeSerializer[Any] | TypeInformation | None = None,
        job_id: str | None = None,
    ) -> None:
        super().__init__()
        if committer is not None and not isinstance(committer, CheckpointCommitter):
            raise TypeError(f"GenericWriteAheadSink: committer must be a CheckpointCommitter, got {committer!r}")
        if job_id is not None and not (isinstance(job_id, str) and job_id):
            raise TypeError(f"GenericWriteAheadSink: job_id must be a non-empty string, got {job_id!r}")
        self.committer = committer
        self.serializer = checked_serializer("GenericWriteAheadSink: serializer", serializer)
        self.job_id = job_id

    @abstractmethod
    def send_values(self, values: Iterable[IN], checkpoint_id: int, timestamp: int) -> bool:
        """Sends the records of a completed checkpoint, in order; `values` can be iterated once.

        Returns True once they are sent. After False or an exception they are sent again when the next checkpoint
        completes; at the end of the input, where none follows, the job fails instead.

        :param checkpoint_id: the checkpoint; the same for the same values, even after a restart.
        :param timestamp: when the checkpoint was triggered, in milliseconds since 1970.
        """

    def invoke(self, value: IN, context: SinkFunction.Context) -> None:
        """Not called: records are buffered until their checkpoint completes."""
        raise TypeError(f"{type(self).__name__} receives records in send_values(), not in invoke()")

    def create_operator(self, input_type: TypeInformation | None) -> Operator:
        """Returns the operator that buffers and sends records in a slot."""
        return WriteAheadOperator(self)
