"""The operator of an HBase sink: buffers mutations, and writes them in batches."""

from __future__ import annotations

import time
from dataclasses import dataclass

from flintstream.connectors.buffering import BufferingOperator
from flintstream.connectors.hbase.connection import HBaseTable
from flintstream.connectors.hbase.mutations import HBaseMutationConverter, Mutation, MutationBuffer
from flintstream.runtime.batch import Batch
from flintstream.runtime.captured import capture, unwrapped
from flintstream.runtime.faults import user_fault

_AFTER_DELETES = 0.002
"""Seconds until puts come after deletes: a delete hides puts of its own millisecond, also those that come later."""


@dataclass(frozen=True)
class BufferOptions:
    """When the buffer is flushed, apart from checkpoints."""

    max_bytes: int
    max_mutations: int
    interval_ms: int


class HBaseSinkOperator(BufferingOperator):
    """Flushes when the buffer is full, when mutations have waited long enough, at checkpoints and at the end."""

    exactly_once = True
    proviso = "in effect, if a replay computes the same: a cell that is put again has the same value"

    def __init__(self, table: HBaseTable, converter: HBaseMutationConverter, buffer: BufferOptions) -> None:
        self._table = table
        self._converter = capture(converter)
        self._limits = buffer

    def open(self) -> None:
        super().open()
        self._deleted = 0.0
        self._converter = unwrapped(self._converter)
        try:
            self._families = self._table.families()
            self._converter.open()
        except Exception as error:
            raise user_fault(error, self.context.name, self.context.subtask) from error
        self._buffer = MutationBuffer(self._families)

    def process(self, batch: Batch) -> None:
        convert, limits = self._converter.convert_to_mutation, self._limits
        for record in batch.values:
            try:
                mutation = convert(record)
                if mutation is None:
                    continue
                if not isinstance(mutation, Mutation):
                    raise TypeError(f"convert_to_mutation must return a Put, a Delete or None, got {mutation!r}")
                if self._buffer.must_flush_before(mutation):
                    self._flush()
                self._buffer.add(mutation)
            except Exception as error:
                raise user_fault(error, self.context.name, self.context.subtask, record) from error
            if self._buffer.mutations >= limits.max_mutations or self._buffer.bytes >= limits.max_bytes:
                self._flush()
        self._flush_if_due()

    def close(self) -> None:
        self._table.close()

    def _flush_if_due(self) -> None:
        if self._buffer.mutations and self._limits.interval_ms and self._has_waited(self._limits.interval_ms):
            self._flush()

    def _flush(self) -> None:
        buffer, self._due = self._buffer, None
        if not buffer.mutations:
            return
        if buffer.puts:
            time.sleep(max(0.0, self._deleted + _AFTER_DELETES - time.monotonic()))
        try:
            self._table.mutate(buffer)
        except Exception as error:
            raise user_fault(error, self.context.name, self.context.subtask) from error
        if buffer.deletes:
            self._deleted = time.monotonic()
        self._buffer = MutationBuffer(self._families)
