"""The operator of a two-phase-commit sink: a transaction for each checkpoint, committed once the checkpoint is complete."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from flintstream.common.pickling import dumps
from flintstream.runtime.faults import UserCodeError
from flintstream.runtime.operators.committing import Committables, CommittingOperator
from flintstream.runtime.operators.sinks import FunctionSinkOperator, _takes_two
from flintstream.runtime.state.operator_state import ListDescriptor

if TYPE_CHECKING:
    from flintstream.common.serializer import TypeSerializer
    from flintstream.runtime.operators.base import OperatorContext
    from flintstream.runtime.output import Output

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BegunTransaction:
    """A user transaction, and when it was begun (milliseconds since 1970)."""

    handle: Any
    begun: int


@dataclass
class Transactions:
    """The transactions of a subtask, visible to its function."""

    pending: Committables[BegunTransaction]
    current: BegunTransaction | None = None
    user_context: Any = None


class TwoPhaseCommitOperator(CommittingOperator[BegunTransaction], FunctionSinkOperator):
    """Drives a `TwoPhaseCommitSinkFunction`; its transactions are the committables."""

    committables = ListDescriptor("two-phase-commit")
    """One element per subtask: its open transaction, the pending ones, and the user's context."""
    goes_on_after_failure = True  # Fewer are left to recover after the restart.

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._transactions = self.function.transactions = Transactions(self.pending)
        self._finished = False

    def finish(self) -> None:
        super().finish()
        self._finished = True
        current = self._transactions.current
        if current is not None:
            self.guarded(self.function.finish_processing, current.handle)

    # --- transactions ---

    def begin(self) -> None:
        if not self._finished:
            handle = self.guarded(self.function.begin_transaction)
            self._transactions.current = BegunTransaction(handle, self.context.services.clock())
            self._invoke = partial(self.bound("invoke"), handle)
            self._with_context = _takes_two(self._invoke)

    def prepare(self, checkpoint_id: int, timestamp: int) -> list[BegunTransaction]:
        current = self._transactions.current
        if current is None:
            return []
        self.guarded(self.function.pre_commit, current.handle)
        self._transactions.current = None
        return [current]

    def commit(self, committable: BegunTransaction) -> None:
        self._warn_if_old(committable)
        self.guarded(self.function.commit, committable.handle)

    def recover(self, committable: BegunTransaction) -> None:
        self._warn_if_old(committable)
        try:
            self.guarded(self.function.recover_and_commit, committable.handle)
        except UserCodeError as error:
            elapsed, timeout = self._age(committable), self.function.transaction_timeout
            if not self.function.ignores_failures_after_timeout or timeout is None or elapsed <= timeout:
                raise
            _log.error(
                "operator '%s': transaction %r was begun %d ms ago, and its timeout is %d ms. It could not be committed, "
                "and its records may be lost: %s",
                *(self.context.name, committable.handle, elapsed, timeout, error.fault.summary),
            )

    def sweep(self, known: Sequence[BegunTransaction]) -> None:
        """Aborts the transactions that were open at the checkpoint; reports the handled ones of each stored subtask."""
        for context, pending, current in self._restored:
            handled = [transaction.handle for transaction in pending]
            if context is not None:
                self._transactions.user_context = context
            if current is not None:
                self.guarded(self.function.recover_and_abort, current.handle)
                handled.append(current.handle)
            if context is not None:
                self.guarded(self.function.finish_recovering_context, handled)

    def abort(self) -> None:
        current, self._transactions.current = self._transactions.current, None
        if current is not None:
            self.guarded(self.function.abort, current.handle)

    def _age(self, transaction: BegunTransaction) -> int:
        return self.context.services.clock() - transaction.begun

    def _warn_if_old(self, transaction: BegunTransaction) -> None:
        ratio, timeout = self.function.timeout_warning_ratio, self.function.transaction_timeout
        if ratio is not None and timeout is not None and self._age(transaction) > ratio * timeout:
            _log.warning(
                "operator '%s': transaction %r has been open for %d ms, close to its timeout of %d ms or beyond it",
                *(self.context.name, transaction.handle, self._age(transaction), timeout),
            )

    # --- state ---

    def stored(self) -> list[dict[str, Any]]:
        return [self.guarded(self._stored)]

    def _stored(self) -> dict[str, Any]:
        current, context = self._transactions.current, self._transactions.user_context
        return {
            "current": None if current is None else self._written(current),
            "pending": [self._written(transaction) for _, transaction in self.pending],
            "context": None if context is None else _write("user context", context, self.function.context_serializer),
        }

    def restored(self, elements: Sequence[dict[str, Any]]) -> list[tuple[int, BegunTransaction]]:
        self._restored = [
            (
                None if element["context"] is None else _read(element["context"], self.function.context_serializer),
                [self._read_transaction(stored) for stored in element["pending"]],
                None if element["current"] is None else self._read_transaction(element["current"]),
            )
            for element in elements
        ]
        contexts = [context for context, _, _ in self._restored if context is not None]
        self._transactions.user_context = (
            contexts[0] if contexts else self.guarded(self.function.initialize_user_context)
        )
        return [(0, transaction) for _, pending, _ in self._restored for transaction in pending]

    def _written(self, transaction: BegunTransaction) -> tuple[bytes, int]:
        data = _write("transaction", transaction.handle, self.function.transaction_serializer)
        return data, transaction.begun

    def _read_transaction(self, stored: tuple[bytes, int]) -> BegunTransaction:
        return BegunTransaction(_read(stored[0], self.function.transaction_serializer), stored[1])


def _write(what: str, value: Any, serializer: TypeSerializer[Any] | None) -> bytes:
    try:
        return dumps(value) if serializer is None else serializer.to_bytes(value, canonical=False)
    except Exception as error:
        raise TypeError(
            f"the {what} {value!r} cannot be stored in a checkpoint: {error}. It must be what a new process needs to find "
            "it again, such as a name or an id, not a connection."
        ) from error


def _read(data: bytes, serializer: TypeSerializer[Any] | None) -> Any:
    return pickle.loads(data) if serializer is None else serializer.from_bytes(data)
