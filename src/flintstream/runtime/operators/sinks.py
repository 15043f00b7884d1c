"""Sink operators: print, collect, Spark writers and sink functions written in Python."""

from __future__ import annotations

import inspect
import pickle
import time
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from flintstream.common.printing import formatter
from flintstream.common.typeinfo import RowTypeInfo
from flintstream.common.types import Row
from flintstream.runtime.batch import MIN_WATERMARK, NO_TIMESTAMP, Batch
from flintstream.runtime.faults import record_at_fault, user_fault
from flintstream.runtime.operators.base import FunctionOperator, Operator
from flintstream.runtime.operators.committing import CommittingOperator
from flintstream.runtime.state.operator_state import ListDescriptor

if TYPE_CHECKING:
    from flintstream.common.typeinfo import TypeInformation

PRINT_SPOOL = "print"


class PrintOperator(Operator):
    """Prints each record on the driver's console, prefixed with the number of the subtask if there are several."""

    def __init__(self, identifier: str | None, type_info: TypeInformation | None) -> None:
        self._identifier = identifier
        self._type = type_info

    def open(self) -> None:
        number = str(self.context.subtask + 1) if self.context.parallelism > 1 else ""
        label = ":".join(part for part in (self._identifier or "", number) if part)
        self._prefix = f"{label}> " if label else ""
        self._text = formatter(self._type)
        self._shows_rows = isinstance(self._type, RowTypeInfo)

    def process(self, batch: Batch) -> None:
        prefix, text, values = self._prefix, self._text, self._declared(batch.values)
        records = iter(values)
        try:
            lines = [prefix + text(value) for value in records]
        except Exception as error:
            record = record_at_fault(values, records)
            raise user_fault(error, self.context.name, self.context.subtask, record) from error
        self.context.services.spool(PRINT_SPOOL).append(lines)

    def seal(self) -> None:
        self.context.services.seal(PRINT_SPOOL)

    def _declared(self, values: list[Any]) -> list[Any]:
        if self._type is None or (self._shows_rows and {*map(type, values)} == {Row}):
            return values  # Rows are printed unconverted, as in PyFlink.
        try:
            return self._type.coerce(values)
        except Exception as error:
            raise user_fault(error, self.context.name, self.context.subtask) from error

    def finish(self) -> None:
        """Does nothing: a sink has no output."""


class CollectOperator(Operator):
    """Hands records to `execute_and_collect` on the driver."""

    takes_declared_types = True
    exactly_once = True

    def __init__(self, collector_id: str) -> None:
        self._collector_id = collector_id

    def process(self, batch: Batch) -> None:
        try:
            self.context.services.spool(self._collector_id).append(batch.values)
        except (AttributeError, TypeError, pickle.PicklingError) as error:
            raise user_fault(error, self.context.name, self.context.subtask) from error

    def seal(self) -> None:
        self.context.services.seal(self._collector_id)

    def finish(self) -> None:
        """Does nothing: a sink has no output."""


class SparkWriterOperator(CommittingOperator[int]):
    """Spools records for a function on the driver that writes them with Spark.

    With checkpoints, unless each epoch is to be written, records are staged: a committable is the number of the checkpoint
    whose records they are. Once the slots know that it is complete, the driver writes the records of all slots together.
    If a failure prevents the write, it is done after the restart, with the same number.
    """

    commits = False  # Without checkpoints each epoch is written, and no final one is needed.
    committables = ListDescriptor("staged")
    """The records to write: pairs of a checkpoint's number and a page."""
    takes_declared_types = True
    proviso = "if the write is idempotent"

    def __init__(
        self, write: Callable[[Any, int], Any] | None, input_type: TypeInformation | None, by_checkpoint: bool = True
    ) -> None:
        self.write = write
        """The user's function; it stays on the driver."""
        self.input_type = input_type
        self.by_checkpoint = by_checkpoint
        self.exactly_once = by_checkpoint
        self.spool_name = f"spark-writer-{uuid.uuid4().hex}"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "write": None}

    def connect(self) -> None:
        self._waits = self.by_checkpoint and self.context.checkpointing

    def staged_name(self, checkpoint_id: int) -> str:
        """Returns the name of the spool that is written once a checkpoint is complete."""
        return f"{self.spool_name}@{checkpoint_id}"

    def staged_checkpoint(self, spool: str) -> int | None:
        """Returns the checkpoint of a staged spool of this operator; None for any other spool."""
        name, _, number = spool.partition("@")
        return int(number) if name == self.spool_name and number else None

    def process(self, batch: Batch) -> None:
        spool = self.context.services.spool(self.spool_name, kept=True)
        spool.staged = self._waits
        spool.append(batch.values)

    def seal(self) -> None:
        if not self._waits:
            self.context.services.seal(self.spool_name)

    def prepare(self, checkpoint_id: int, timestamp: int) -> list[int]:
        staged = self._waits and self.context.services.stage(self.spool_name, self.staged_name(checkpoint_id))
        return [checkpoint_id] if staged else []

    def commit(self, committable: int) -> None:
        """Does nothing: the driver writes it now, before the next snapshot."""

    def stored(self) -> list[tuple[int, bytes]]:
        spools = [(number, self.context.services.spool(self.staged_name(number))) for number, _ in self.pending]
        return [(number, spool.page(index)) for number, spool in spools for index in range(spool.pages)]

    def restored(self, elements: Sequence[tuple[int, bytes]]) -> list[tuple[int, int]]:
        for checkpoint_id, page in elements:
            spool = self.context.services.spool(self.staged_name(checkpoint_id), kept=True)
            spool.staged = True
            spool.append_page(page)
        return [(number, number) for number in {checkpoint_id for checkpoint_id, _ in elements}]

    def finish(self) -> None:
        """Does nothing: a sink has no output."""


class SinkContext:
    """The context of a sink function: the record's timestamp and the time."""

    __slots__ = ("_timestamp", "_watermark")

    def __init__(self) -> None:
        self._timestamp = NO_TIMESTAMP
        self._watermark = MIN_WATERMARK

    def timestamp(self) -> int | None:
        """Returns the timestamp of the current record; None if it has none."""
        return None if self._timestamp == NO_TIMESTAMP else self._timestamp

    def current_watermark(self) -> int:
        """Returns the current watermark of the sink."""
        return self._watermark

    def current_processing_time(self) -> int:
        """Returns the slot's clock, in milliseconds since 1970."""
        return time.time_ns() // 1_000_000


class FunctionSinkOperator(FunctionOperator):
    """A `SinkFunction` written in Python: `invoke(value)` or `invoke(value, context)` for each record."""

    takes_declared_types = True

    def open(self) -> None:
        super().open()
        self._invoke = self.bound("invoke")
        self._with_context = _takes_two(self._invoke)
        self._context = SinkContext()

    def process(self, batch: Batch) -> None:
        invoke, context = self._invoke, self._context
        records = iter(batch.values)
        try:
            if not self._with_context:
                for record in records:
                    invoke(record)
            elif batch.timestamps is None:
                context._timestamp = NO_TIMESTAMP
                for record in records:
                    invoke(record, context)
            else:
                for record, context._timestamp in zip(records, batch.timestamps):
                    invoke(record, context)
        except Exception as error:
            raise self.fault(error, record_at_fault(batch.values, records)) from error

    def process_watermark(self, timestamp: int) -> None:
        self._context._watermark = timestamp

    def finish(self) -> None:
        finisher = getattr(self.function, "finish", None)
        if finisher is not None:
            self.guarded(finisher)


def _takes_two(call: Any) -> bool:
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return False
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return True
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(parameter.kind in positional for parameter in parameters) >= 2
