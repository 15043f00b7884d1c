"""The operator of a write-ahead sink: records wait in checkpoints, and are sent once their checkpoint is complete."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any

from flintstream.common.pickling import dumps
from flintstream.runtime.batch import Batch
from flintstream.runtime.operators.base import FunctionOperator
from flintstream.runtime.state.operator_state import ListDescriptor

if TYPE_CHECKING:
    from flintstream.common.serializer import TypeSerializer
    from flintstream.runtime.operators.base import OperatorContext
    from flintstream.runtime.output import Output

_log = logging.getLogger(__name__)

_STAGED = ListDescriptor("write-ahead")
"""One element for each checkpoint and subtask whose records have not been sent. Each goes to one subtask as a whole."""
CHUNK_RECORDS = 8192
"""How many records are made bytes together."""


@dataclass(frozen=True)
class StagedRecords:
    """The records of a subtask that came before a checkpoint, and after the one before it."""

    checkpoint_id: int
    subtask: int
    timestamp: int
    chunks: list[bytes]


class WriteAheadOperator(FunctionOperator):
    """Drives a `GenericWriteAheadSink`."""

    takes_declared_types = True
    commits = True

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._serializer: TypeSerializer[Any] | None = self.function.serializer
        self._committer = self.function.committer
        self._buffer: list[Any] = []
        self._chunks: list[bytes] = []
        self._staged: list[StagedRecords] = []
        self._finished = False

    def open(self) -> None:
        super().open()
        if self._committer is not None:
            self._committer.set_job_id(self.function.job_id or self.context.runtime_context.get_job_id())
            self._committer.set_operator_id(self.context.operator_id)
            self.guarded(self._committer.open)
        self._state = self.context.operator_state.get_list_state(_STAGED)
        self._staged = sorted(
            (StagedRecords(*element) for element in self._state), key=lambda staged: staged.checkpoint_id
        )
        # All that a checkpoint holds was to be sent when it was complete, and it is.
        self._send(self._staged)

    def process(self, batch: Batch) -> None:
        self._buffer.extend(batch.values)
        if len(self._buffer) >= CHUNK_RECORDS:
            self.guarded(self._close_chunk)

    def process_watermark(self, timestamp: int) -> None:
        """Time means nothing here."""

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> None:
        super().snapshot_state(checkpoint_id, timestamp)
        self.guarded(self._close_chunk)
        if self._chunks:
            self._staged.append(StagedRecords(checkpoint_id, self.context.subtask, timestamp, self._chunks))
            self._chunks = []
        self._state.update(astuple(staged) for staged in self._staged)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._send([staged for staged in self._staged if staged.checkpoint_id <= checkpoint_id])
        super().notify_checkpoint_complete(checkpoint_id)

    def finish(self) -> None:
        self.guarded(self.function.finish)
        self._finished = True

    def close(self) -> None:
        try:
            if self._committer is not None:
                self.guarded(self._committer.close)
        finally:
            super().close()

    # --- sending ---

    def _send(self, complete: list[StagedRecords]) -> None:
        """Sends the records of complete checkpoints in order, up to the first that cannot be sent.

        That one is tried again when the next checkpoint is complete. At the end of the input there is none: the job fails.
        """
        for staged in list(complete):
            try:
                sent = self.guarded(self._send_once, staged)
            except Exception:
                if self._finished:
                    raise
                _log.exception("operator '%s': checkpoint %d is not sent", self.context.name, staged.checkpoint_id)
                return
            if not sent:
                if self._finished:
                    raise RuntimeError(
                        f"operator '{self.context.name}': send_values() returned False for checkpoint "
                        f"{staged.checkpoint_id}, and there is no later one to try it again"
                    )
                return
            self._staged.remove(staged)

    def _send_once(self, staged: StagedRecords) -> bool:
        committer = self._committer
        if committer is not None and committer.is_checkpoint_committed(staged.subtask, staged.checkpoint_id):
            return True
        sent = self.function.send_values(self._values(staged), staged.checkpoint_id, staged.timestamp)
        if not isinstance(sent, bool):
            raise TypeError(f"send_values() must return whether the values were sent, True or False, got {sent!r}")
        if sent and committer is not None:
            committer.commit_checkpoint(staged.subtask, staged.checkpoint_id)
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
