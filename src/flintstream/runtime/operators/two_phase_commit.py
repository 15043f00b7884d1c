"""The operator of a two-phase-commit sink: a transaction for each checkpoint, committed once the checkpoint is complete."""

from __future__ import annotations

import logging
import pickle
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from flintstream.common.pickling import dumps
from flintstream.runtime.faults import UserCodeError
from flintstream.runtime.operators.sinks import FunctionSinkOperator, _takes_two
from flintstream.runtime.state.operator_state import ListDescriptor

if TYPE_CHECKING:
    from flintstream.common.serializer import TypeSerializer
    from flintstream.runtime.operators.base import OperatorContext
    from flintstream.runtime.output import Output

_log = logging.getLogger(__name__)

_TRANSACTIONS = ListDescriptor("two-phase-commit")
"""One element for each subtask: its open transaction, those that wait for their commit, the context of the user."""


@dataclass(frozen=True)
class BegunTransaction:
    """A transaction of the user's, and when it was begun (milliseconds since 1970)."""

    handle: Any
    begun: int


@dataclass
class Transactions:
    """The transactions of a subtask; its function may look at them."""

    current: BegunTransaction | None = None
    pending: dict[int, BegunTransaction] = field(default_factory=dict)
    """Pre-committed, by the checkpoint that they wait for."""
    user_context: Any = None


class TwoPhaseCommitOperator(FunctionSinkOperator):
    """Drives a `TwoPhaseCommitSinkFunction`.

    A snapshot pre-commits the open transaction, which waits from then on, and begins another one. Those that wait are
    committed when their checkpoint, or a later one, is complete. Whoever goes on from a checkpoint commits what waited in
    it, and aborts what was open.
    """

    commits = True

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._transactions = self.function.transactions = Transactions()
        self._finished = False

    def open(self) -> None:
        super().open()
        self._state = self.context.operator_state.get_list_state(_TRANSACTIONS)
        self._recover(list(self._state))
        self._begin()

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> None:
        super().snapshot_state(checkpoint_id, timestamp)
        transactions = self._transactions
        if transactions.current is not None:
            self.guarded(self.function.pre_commit, transactions.current.handle)
            transactions.pending[checkpoint_id] = transactions.current
            transactions.current = None
        if not self._finished:
            self._begin()
        self._state.update([self.guarded(self._stored)])

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        pending = self._transactions.pending
        first_error: Exception | None = None
        for waiting in sorted(pending):
            if waiting <= checkpoint_id:
                self._warn_if_old(pending[waiting])
                try:
                    self.guarded(self.function.commit, pending[waiting].handle)
                except Exception as error:
                    # The others are committed all the same: after the restart there are fewer left.
                    first_error = first_error or error
                else:
                    del pending[waiting]
        if first_error is not None:
            raise first_error
        super().notify_checkpoint_complete(checkpoint_id)

    def finish(self) -> None:
        super().finish()
        self._finished = True
        current = self._transactions.current
        if current is not None:
            self.guarded(self.function.finish_processing, current.handle)

    def close(self) -> None:
        current, self._transactions.current = self._transactions.current, None
        try:
            if current is not None:
                self.guarded(self.function.abort, current.handle)
        finally:
            super().close()

    # --- transactions ---

    def _begin(self) -> None:
        handle = self.guarded(self.function.begin_transaction)
        self._transactions.current = BegunTransaction(handle, self.context.services.clock())
        self._invoke = partial(self.bound("invoke"), handle)
        self._with_context = _takes_two(self._invoke)

    def _recover(self, elements: list[dict[str, Any]]) -> None:
        function, transactions = self.function, self._transactions
        with_context = [element for element in elements if element["context"] is not None]
        if not with_context:
            transactions.user_context = self.guarded(function.initialize_user_context)
        for element in elements:
            if element["context"] is not None:
                transactions.user_context = _read(element["context"], function.context_serializer)
            handled = [self._recover_pending(stored) for stored in element["pending"]]
            if element["current"] is not None:
                handle = self._read_transaction(element["current"]).handle
                self.guarded(function.recover_and_abort, handle)
                handled.append(handle)
            if element["context"] is not None:
                self.guarded(function.finish_recovering_context, handled)

    def _recover_pending(self, stored: tuple[bytes, int]) -> Any:
        transaction = self._read_transaction(stored)
        self._warn_if_old(transaction)
        try:
            self.guarded(self.function.recover_and_commit, transaction.handle)
        except UserCodeError as error:
            elapsed, timeout = self._age(transaction), self.function.transaction_timeout
            if not self.function.ignores_failures_after_timeout or timeout is None or elapsed <= timeout:
                raise
            _log.error(
                "operator '%s': transaction %r was begun %d ms ago, and its time-out is %d ms. It could not be committed, "
                "and what was written into it may be lost: %s",
                *(self.context.name, transaction.handle, elapsed, timeout, error.fault.summary),
            )
        return transaction.handle

    def _age(self, transaction: BegunTransaction) -> int:
        return self.context.services.clock() - transaction.begun

    def _warn_if_old(self, transaction: BegunTransaction) -> None:
        ratio, timeout = self.function.timeout_warning_ratio, self.function.transaction_timeout
        if ratio is not None and timeout is not None and self._age(transaction) > ratio * timeout:
            _log.warning(
                "operator '%s': transaction %r has been open for %d ms, close to its time-out of %d ms or beyond it",
                *(self.context.name, transaction.handle, self._age(transaction), timeout),
            )

    # --- state ---

    def _stored(self) -> dict[str, Any]:
        transactions, function = self._transactions, self.function
        current, context = transactions.current, transactions.user_context
        return {
            "current": None if current is None else self._written(current),
            "pending": [self._written(pending) for pending in transactions.pending.values()],
            "context": None if context is None else _write("user context", context, function.context_serializer),
        }

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
