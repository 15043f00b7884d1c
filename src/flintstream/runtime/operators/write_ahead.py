"""The operator of a write-ahead sink: records are staged in checkpoints, and sent once their checkpoint is complete."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any

from flintstream.common.pickling import dumps
from flintstream.runtime.batch import Batch
from flintstream.runtime.operators.base import FunctionOperator
from flintstream.runtime.operators.committing import CommittingOperator, RetryLater
from flintstream.runtime.state.operator_state import ListDescriptor

if TYPE_CHECKING:
    from flintstream.common.serializer import TypeSerializer
    from flintstream.runtime.operators.base import OperatorContext
    from flintstream.runtime.output import Output

_log = logging.getLogger(__name__)

CHUNK_RECORDS = 8192
"""The number of records serialised together."""


@dataclass(frozen=True)
class StagedRecords:
    """The records of a subtask between two checkpoints."""

    checkpoint_id: int
    subtask: int
    timestamp: int
    chunks: list[bytes]


class WriteAheadOperator(CommittingOperator[StagedRecords], FunctionOperator):
    """Drives a `GenericWriteAheadSink`: records are staged, and sent by the commit."""

    takes_declared_types = True
    proviso = "if its committer writes its mark with the values"
    committables = ListDescriptor("write-ahead")
    """One element per checkpoint and subtask with unsent records. An element is restored by one subtask as a whole."""

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._serializer: TypeSerializer[Any] | None = self.function.serializer
        self._marks = self.function.committer
        self._buffer: list[Any] = []
        self._chunks: list[bytes] = []
        self._finished = False

    def process(self, batch: Batch) -> None:
        self._buffer.extend(batch.values)
        if len(self._buffer) >= CHUNK_RECORDS:
            self.guarded(self._close_chunk)

    def process_watermark(self, timestamp: int) -> None:
        """Does nothing: time has no effect here."""

    def finish(self) -> None:
        self.guarded(self.function.finish)
        self._finished = True

    def close(self) -> None:
        try:
            if self._marks is not None:
                self.guarded(self._marks.close)
        finally:
            super().close()

    # --- committing ---

    def connect(self) -> None:
        if self._marks is not None:
            self._marks.set_job_id(self.function.job_id or self.context.runtime_context.get_job_id())
            self._marks.set_operator_id(self.context.operator_id)
            self.guarded(self._marks.open)

    def restored(self, elements: Sequence[Any]) -> list[tuple[int, StagedRecords]]:
        return [(staged.checkpoint_id, staged) for staged in (StagedRecords(*element) for element in elements)]

    def stored(self) -> list[Any]:
        return [astuple(staged) for _, staged in self.pending]

    def prepare(self, checkpoint_id: int, timestamp: int) -> list[StagedRecords]:
        self.guarded(self._close_chunk)
        chunks, self._chunks = self._chunks, []
        return [StagedRecords(checkpoint_id, self.context.subtask, timestamp, chunks)] if chunks else []

    def commit(self, committable: StagedRecords) -> None:
        """Sends the records; a failure is retried when the next checkpoint is complete.

        At the end of the input there is no next one: the job fails.
        """
        try:
            sent = self.guarded(self._send, committable)
        except Exception:
            if self._finished:
                raise
            _log.exception("operator '%s': checkpoint %d is not sent", self.context.name, committable.checkpoint_id)
            raise RetryLater from None
        if not sent and self._finished:
            raise RuntimeError(
                f"operator '{self.context.name}': send_values() returned False for checkpoint "
                f"{committable.checkpoint_id}, and there is no later one to try it again"
            )
        if not sent:
            raise RetryLater

    def _send(self, staged: StagedRecords) -> bool:
        marks = self._marks
        if marks is not None and marks.is_checkpoint_committed(staged.subtask, staged.checkpoint_id):
            return True
        sent = self.function.send_values(self._values(staged), staged.checkpoint_id, staged.timestamp)
        if not isinstance(sent, bool):
            raise TypeError(f"send_values() must return whether the values were sent, True or False, got {sent!r}")
        if sent and marks is not None:
            marks.commit_checkpoint(staged.subtask, staged.checkpoint_id)
        return bool(sent)

    # --- bytes ---

    def _close_chunk(self) -> None:
        if self._buffer:
            serializer = self._serializer
            data = dumps(self._buffer) if serializer is None else serializer.serialize_all(self._buffer)
            self._chunks.append(data)
            self._buffer = []

    def _values(self, staged: StagedRecords) -> Iterator[Any]:
        serializer = self._serializer
        for chunk in staged.chunks:
            yield from pickle.loads(chunk) if serializer is None else serializer.deserialize_all(chunk)
