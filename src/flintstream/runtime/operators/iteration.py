"""The two ends of an iteration: the tail receives what is fed back, the head emits it, as if from a source.

The graph of a job stays free of cycles. Both ends are in the same slot and share a queue there: what the tail receives in
one epoch, the head emits in the next. Between two epochs nothing else is in flight, so the queue is all that a checkpoint
needs of a loop; it is the operator state of the head. Feedback carries no watermark: the head emits the last one at once,
so that only the iteration's input determines the time in the loop. The driver decides when nothing can be fed back any
more (`jobmaster/iterations.py`); then the head ends.

With barriers that travel in-band, without epochs, a loop would be in flight when a barrier enters it. The head would then
emit the barrier when those of the iteration's input arrive, the tail would log every record from then until the barrier
comes back to it, and the log, not the queue, would be the state: those records were sent before the barrier, and nobody
else has them. On restore they are emitted first, as the queue is here. The loop must never wait for a barrier from its own
feedback, so the head's channels count as aligned from the start.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from flintstream.common.keys import subtasks
from flintstream.graph.partitioners import (
    BroadcastPartitioner,
    CustomPartitioner,
    GlobalPartitioner,
    KeyGroupPartitioner,
    StreamPartitioner,
)
from flintstream.runtime.batch import MAX_WATERMARK, Batch
from flintstream.runtime.captured import close_function, open_function, unwrapped
from flintstream.runtime.faults import user_fault
from flintstream.runtime.feedback import FedBack
from flintstream.runtime.operators.base import Operator, bound_method
from flintstream.runtime.operators.source import SourceHead
from flintstream.runtime.state.operator_state import ListDescriptor

if TYPE_CHECKING:
    from flintstream.metrics import Counter

DROPPED_RECORDS = "numFeedbackRecordsDropped"
"""The records that were fed back after the head of their iteration had ended."""

_log = logging.getLogger("flintstream")
_QUEUE = ListDescriptor("feedback")
"""The blocks of the queue, each with the subtask that stored it and the parallelism at that time. Every subtask gets all of
them, since only the partitioners of the feedback streams know what belongs where at another parallelism.
"""


class IterationTail(Operator):
    """Receives a feedback stream."""

    takes_declared_types = True

    def __init__(self, iteration: int, number: int) -> None:
        self._iteration = iteration
        self._number = number

    def open(self) -> None:
        self._queue = self.context.services.feedback(self._iteration)
        self._dropped: Counter = self.context.runtime_context.get_metrics_group().counter(DROPPED_RECORDS)

    def process(self, batch: Batch) -> None:
        if self._queue.closed:
            self._drop(len(batch.values))
            return
        try:
            self._queue.put(self._number, batch)
        except Exception as error:
            raise user_fault(error, self.context.name, self.context.subtask) from error

    def _drop(self, records: int) -> None:
        if not self._dropped.get_count():
            _log.warning(
                "'%s' (subtask %d) drops records that are fed back after the iteration has ended: raise max_wait_time of "
                "iterate(), or leave it at 0",
                self.context.name,
                self.context.subtask + 1,
            )
        self._dropped.inc(records)


class IterationHead(SourceHead):
    """Emits what was fed back in earlier epochs.

    :param partitioners: those of the feedback streams, by the number of their tails.
    """

    def __init__(self, iteration: int, partitioners: Sequence[StreamPartitioner]) -> None:
        self._iteration = iteration
        self._partitioners = list(partitioners)

    def open(self) -> None:
        self._over = False
        self._queue = self.context.services.feedback(self._iteration)
        # Copies of a record leave all queues in the same epoch; so at the end of any epoch the queues have the same records.
        self._whole = any(isinstance(each, BroadcastPartitioner) for each in self._partitioners)
        state = self.context.operator_state.get_union_list_state(_QUEUE)
        for block in self._own([(origin, parallelism, FedBack(*block)) for origin, parallelism, block in state]):
            self._queue.put_block(block)
        state.clear()
        self.context.runtime_context.get_metrics_group().gauge("pendingRecords", lambda: self.waiting)
        self.output.emit_watermark(MAX_WATERMARK)

    def no_more_splits(self) -> None:
        self._over = True

    def read_epoch(self, limit: int) -> None:
        emitted = 0
        while self._whole or (emitted < limit and time.monotonic() < self.deadline):
            block = self._queue.take()
            if block is None:
                break
            batch = block.batch()
            # Keys were those of the way to the tail; the way onward has its own.
            self.output.emit(Batch(batch.values, batch.timestamps))
            emitted += block.records
        self.held_back = self._queue.records > 0

    @property
    def exhausted(self) -> bool:
        return self._over and not self._queue.records

    @property
    def waiting(self) -> int:
        return self._queue.records

    def has_data(self) -> bool:
        return self._queue.records > 0

    def finish(self) -> None:
        self._queue.closed = True
        super().finish()

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> None:
        here = (self.context.subtask, self.context.parallelism)
        state = self.context.operator_state.get_union_list_state(_QUEUE)
        state.update((*here, tuple(block)) for block in self._queue.blocks())

    # --- restoring ---

    def _own(self, stored: list[tuple[int, int, FedBack]]) -> Iterator[FedBack]:
        """Yields the blocks of this subtask from those of all."""
        dealt = 0
        for origin, parallelism, block in stored:
            if parallelism == self.context.parallelism:
                if origin == self.context.subtask:
                    yield block
                continue
            targets = self._targets(origin, block, dealt)
            dealt += block.records
            batch = block.batch()
            mine = [index for index, target in enumerate(targets) if target == self.context.subtask]
            if mine:
                yield FedBack.of(block.tail, _picked(batch, mine))

    def _targets(self, origin: int, block: FedBack, dealt: int) -> Sequence[int]:
        """Returns the subtask of each record, now that their number is another one."""
        number, records = self.context.parallelism, block.records
        partitioner = self._partitioners[block.tail] if block.tail < len(self._partitioners) else None
        if isinstance(partitioner, GlobalPartitioner):
            return [0] * records
        if isinstance(partitioner, BroadcastPartitioner):
            # Each subtask has stored all records: those of the first one go to every subtask.
            return [self.context.subtask if origin == 0 else -1] * records
        if isinstance(partitioner, CustomPartitioner):
            return self._custom_targets(partitioner, block.batch())
        keys = block.batch().keys
        if isinstance(partitioner, KeyGroupPartitioner) and keys is not None:
            most = self.context.runtime_context.get_max_number_of_parallel_subtasks()
            return subtasks(keys, most, number)
        return [(dealt + index) % number for index in range(records)]

    def _custom_targets(self, partitioner: CustomPartitioner, batch: Batch) -> list[int]:
        functions = (unwrapped(partitioner.partitioner), unwrapped(partitioner.key_selector))
        partition = bound_method(partitioner.partitioner, "partition")
        key = bound_method(partitioner.key_selector, "get_key")
        try:
            for function in functions:
                open_function(function, self.context.runtime_context)
            try:
                return [partition(key(value), self.context.parallelism) for value in batch.values]
            finally:
                for function in functions:
                    close_function(function)
        except Exception as error:
            raise user_fault(error, self.context.name, self.context.subtask) from error


def _picked(batch: Batch, places: list[int]) -> Batch:
    return Batch(
        [batch.values[place] for place in places],
        None if batch.timestamps is None else [batch.timestamps[place] for place in places],
        None if batch.keys is None else [batch.keys[place] for place in places],
    )
