"""TwoPhaseCommitSinkFunction: sinks that write in transactions, so that each record arrives once."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Generic

from flintstream.common.serializer import TypeSerializer
from flintstream.common.time import to_millis
from flintstream.common.type_variables import IN, T
from flintstream.common.typeinfo import TypeInformation
from flintstream.datastream.basic_functions import Function
from flintstream.datastream.io_functions import RichSinkFunction, SinkFunction
from flintstream.runtime.operators.base import Operator
from flintstream.runtime.operators.two_phase_commit import Transactions, TwoPhaseCommitOperator

__all__ = ["TwoPhaseCommitSinkFunction"]

if TYPE_CHECKING:

    class _RichSink(Function, Generic[IN]):
        """A sink function without its `invoke`, which takes no transaction."""
else:
    _RichSink = RichSinkFunction


class TwoPhaseCommitSinkFunction(_RichSink[IN], Generic[IN, T]):
    """A sink that writes in transactions: what it has written is seen once a checkpoint is complete, exactly once.

    A transaction is any object that a new process can find the transaction again by: the name of a file, the id that
    a database gave. It goes into checkpoints::

        class Files(TwoPhaseCommitSinkFunction):
            def begin_transaction(self):
                return f"/data/out/.{uuid.uuid4()}"

            def invoke(self, transaction, value, context):
                with open(transaction, "a") as file:
                    file.write(f"{value}\\n")

            def pre_commit(self, transaction):
                pass  # each line is in the file already

            def commit(self, transaction):
                if os.path.exists(transaction):  # not there: no records, or committed before
                    os.rename(transaction, transaction.replace(".", ""))

            def abort(self, transaction):
                if os.path.exists(transaction):
                    os.remove(transaction)

    At each checkpoint the open transaction is pre-committed and another one begun. When the checkpoint is complete it is
    committed. After a failure the transactions that had been pre-committed in the last complete checkpoint are committed,
    perhaps **again**: committing twice must do no harm. The one that was open then is aborted. At the end of the input there
    is always a last checkpoint, also without checkpointing.

    `open` is called before all others, so that connections are there. (In Flink it comes after the recovery.)

    :param transaction_serializer: how transactions become bytes; pickle unless given.
    :param context_serializer: how the user context becomes bytes; pickle unless given.
    """

    # Class attributes, so that a subclass need not call `super().__init__()`.
    transaction_serializer: TypeSerializer[Any] | None = None
    context_serializer: TypeSerializer[Any] | None = None
    transaction_timeout: int | None = None
    ignores_failures_after_timeout = False
    timeout_warning_ratio: float | None = None
    transactions: Transactions

    def __init__(
        self,
        transaction_serializer: TypeSerializer[Any] | TypeInformation | None = None,
        context_serializer: TypeSerializer[Any] | TypeInformation | None = None,
    ) -> None:
        super().__init__()
        self.transaction_serializer = checked_serializer("transaction_serializer", transaction_serializer)
        self.context_serializer = checked_serializer("context_serializer", context_serializer)

    # --- what a sink defines ---

    @abstractmethod
    def begin_transaction(self) -> T:
        """Begins a transaction, and gives what it can be found again by."""

    @abstractmethod
    def invoke(self, transaction: T, value: IN, context: SinkFunction.Context) -> None:
        """Writes a record into the transaction; `invoke(self, transaction, value)` is fine too."""

    @abstractmethod
    def pre_commit(self, transaction: T) -> None:
        """A checkpoint is being taken: do all that can fail, so that only `commit` is left. Flush what is buffered."""

    @abstractmethod
    def commit(self, transaction: T) -> None:
        """The checkpoint is complete: make the records visible. Must do no harm when it has been done before."""

    @abstractmethod
    def abort(self, transaction: T) -> None:
        """Forgets the transaction and all that was written into it."""

    def recover_and_commit(self, transaction: T) -> None:
        """Commits a transaction of an earlier run, which may have done so itself. Failing fails the job."""
        self.commit(transaction)

    def recover_and_abort(self, transaction: T) -> None:
        """Aborts a transaction of an earlier run, which may have done so itself."""
        self.abort(transaction)

    def initialize_user_context(self) -> Any:
        """What else to keep in checkpoints, such as a pool of ids; None for nothing. Not called after a restore of one."""
        return None

    def finish_recovering_context(self, handled_transactions: list[T]) -> None:
        """Called after a restore, with the transactions that were committed or aborted, if there is a user context."""

    def finish_processing(self, transaction: T) -> None:
        """The input has ended: flush what is buffered. The last checkpoint follows."""

    # --- what it may ask ---

    def get_user_context(self) -> Any:
        """What `initialize_user_context` gave, or the last checkpoint held."""
        return self.transactions.user_context

    def current_transaction(self) -> T | None:
        """The open transaction; None when there is none any more."""
        current = self.transactions.current
        return None if current is None else current.handle

    def pending_transactions(self) -> dict[int, T]:
        """The transactions that wait for their checkpoint, by its id."""
        return {checkpoint: transaction.handle for checkpoint, transaction in self.transactions.pending}

    # --- settings ---

    def set_transaction_timeout(self, transaction_timeout: Any) -> TwoPhaseCommitSinkFunction[IN, T]:
        """After how long (milliseconds, or a Duration) the other system gives a transaction up; never unless set."""
        millis = to_millis(transaction_timeout)
        if millis < 0:
            raise ValueError(f"set_transaction_timeout: must be 0 or more, got {transaction_timeout!r}")
        self.transaction_timeout = millis
        return self

    def ignore_failures_after_transaction_timeout(self) -> TwoPhaseCommitSinkFunction[IN, T]:
        """A commit that fails after a restore when the time-out is over is logged: its records are lost, the job goes on."""
        self.ignores_failures_after_timeout = True
        return self

    def enable_transaction_timeout_warnings(self, warning_ratio: float) -> TwoPhaseCommitSinkFunction[IN, T]:
        """Warns of transactions that are committed when this part of their time-out, from 0 to 1, is over."""
        if not isinstance(warning_ratio, (int, float)) or not 0 <= warning_ratio <= 1:
            raise ValueError(f"enable_transaction_timeout_warnings: must be between 0 and 1, got {warning_ratio!r}")
        self.timeout_warning_ratio = warning_ratio
        return self

    def create_operator(self, input_type: TypeInformation | None) -> Operator:
        """The operator that drives this function in a slot."""
        return TwoPhaseCommitOperator(self)


def checked_serializer(what: str, given: Any) -> TypeSerializer[Any] | None:
    """A serialiser, also by its type; None where none is given."""
    if given is None or isinstance(given, TypeSerializer):
        return given
    if isinstance(given, TypeInformation):
        return given.create_serializer()
    raise TypeError(f"{what} must be a TypeSerializer or one of Types, got {given!r}")
