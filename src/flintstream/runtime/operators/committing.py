"""Sinks that commit: the protocol by which the records of a checkpoint become visible exactly once, when it is complete.

What a sink has written since the last checkpoint (a transaction, hidden files, staged records) becomes a *committable*:
whatever a new process needs to commit it, such as a name or an id::

                    prepare(n)               commit: a checkpoint m >= n is complete
    begin ──▶ OPEN ────────────▶ PENDING(n) ─────────────────────────────────────────▶ COMMITTED
               │                     │  the attempt ends; the next one restores
               │                     ├──▶ a checkpoint m >= n, which contains it: recover ──▶ COMMITTED
               │                     └──▶ an earlier one, which does not: sweep ──▶ ABORTED
               └──▶ abort, when the attempt closes; sweep, when it was killed ──▶ ABORTED

- *Snapshot n*: what is open is prepared and pending for n, and the next one is begun. The snapshot contains everything
  pending, also for earlier checkpoints: one of them may never complete, or its notification may be lost.
- *Checkpoint m complete*: everything pending for m or an earlier checkpoint is committed, in the order of checkpoints. So
  a notification may be lost, repeated, or overtaken by a later one. An aborted checkpoint changes nothing: the next one
  that completes covers it.
- *Failed commit*: it stays pending. The job fails, and the restore recovers it; or, if the sink raises `RetryLater`, it is
  committed when the next checkpoint is complete. Earlier commits are not repeated by this attempt.
- *Restore*: a restored checkpoint is complete, so everything pending in it is committed, possibly a second time: `recover`
  must be idempotent. At any parallelism, one subtask recovers each committable. Then `sweep` aborts what earlier attempts
  have left behind.
- *Lease*: the driver checks its lease right before it deploys a restore, and before it notifies slots of a complete
  checkpoint. Nothing is committed outside these two calls.

Kafka's transactions are an example: `begin` takes a producer with its own transactional id and begins a transaction;
`prepare` flushes it, and returns (transactional id, producer id, epoch); `commit` and `recover` send EndTxn for these
three, and if that epoch is over, read in the log whether it was committed; `abort` aborts the open transaction; `sweep`
initialises the other transactional ids of the sink, which fences their producers and aborts lingering transactions. The
committables are `shared`, so that after rescaling each of them has one subtask that recovers or sweeps it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from flintstream.runtime.operators.base import Operator

if TYPE_CHECKING:
    from flintstream.runtime.operators.base import OperatorContext
    from flintstream.runtime.output import Output
    from flintstream.runtime.state.operator_state import ListDescriptor

CommittableT = TypeVar("CommittableT")


class RetryLater(Exception):
    """Raised by `commit` to be retried when the next checkpoint is complete, together with everything after it.

    `recover` may raise it if `commit`, which is called then, is idempotent too.
    """


class Committables(Generic[CommittableT]):
    """The pending committables. Iteration yields pairs of a checkpoint and a committable, in the order of checkpoints."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, CommittableT]] = []

    def __iter__(self) -> Iterator[tuple[int, CommittableT]]:
        return iter(list(self._waiting))

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, waiting: Iterable[tuple[int, CommittableT]]) -> None:
        """Adds prepared committables, each with its checkpoint."""
        self._waiting = sorted([*self._waiting, *waiting], key=lambda entry: entry[0])

    def commit_up_to(
        self, checkpoint_id: float, commit: Callable[[CommittableT], None], goes_on_after_failure: bool = False
    ) -> None:
        """Commits everything pending for a complete checkpoint or an earlier one.

        :param goes_on_after_failure: whether the others are committed too, before the first failure is raised.
        """
        first_error: Exception | None = None
        for entry in [entry for entry in self._waiting if entry[0] <= checkpoint_id]:
            try:
                commit(entry[1])
            except RetryLater:
                break
            except Exception as error:
                if not goes_on_after_failure:
                    raise
                first_error = first_error or error
            else:
                self._waiting.remove(entry)
        if first_error is not None:
            raise first_error


class CommittingOperator(Operator, Generic[CommittableT]):
    """Base of the operators of sinks that commit; the module describes the protocol. A subclass implements the steps.

    In the list of bases it comes before the operator that processes the records, whose methods it calls.
    """

    commits = True
    committables: ListDescriptor
    """The operator state of the pending committables."""
    shared = False
    """Whether a restore gives every subtask the committables of all; `is_mine` then selects those it recovers."""
    goes_on_after_failure = False
    """Whether later committables are committed after a failed commit, before the job fails."""

    # --- the steps ---

    def connect(self) -> None:
        """Connects to the other system; called once, before anything is recovered."""

    def begin(self) -> None:
        """Begins what the next checkpoint will prepare, e.g. a transaction; called by `open` and after `prepare`."""

    def prepare(self, checkpoint_id: int, timestamp: int) -> Iterable[CommittableT]:
        """Does everything that can fail with what was written, and returns the committables."""
        raise NotImplementedError

    def commit(self, committable: CommittableT) -> None:
        """Makes it visible. It was prepared by this attempt, which commits it once, unless that fails."""
        raise NotImplementedError

    def recover(self, committable: CommittableT) -> None:
        """Makes it visible after a restore; an earlier attempt may have done so already."""
        self.commit(committable)

    def sweep(self, known: Sequence[CommittableT]) -> None:
        """Aborts what earlier attempts have begun or prepared, if the restored checkpoint does not contain it.

        :param known: everything pending in the checkpoint; recovered by now, or to be recovered by another subtask.
        """

    def abort(self) -> None:
        """Aborts what was begun at the end of the attempt, which may not be open. The next one recovers what is pending."""

    def stored(self) -> Iterable[Any]:
        """Returns the pending committables as elements of the operator state; called after `begin`."""
        return [committable for _, committable in self.pending]

    def restored(self, elements: Sequence[Any]) -> Iterable[tuple[int, CommittableT]]:
        """Returns the committables of stored elements, each with its checkpoint, which sets the order; 0 if not stored."""
        return [(0, element) for element in elements]

    def is_mine(self, committable: CommittableT) -> bool:
        """Returns whether this subtask recovers it: exactly one must."""
        return True

    # --- the protocol ---

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self.pending: Committables[CommittableT] = Committables()

    def open(self) -> None:
        super().open()
        self.connect()
        states = self.context.operator_state
        get = states.get_union_list_state if self.shared else states.get_list_state
        self._state = get(self.committables)
        known = list(self.restored(list(self._state)))
        self.pending.add(entry for entry in known if self.is_mine(entry[1]))
        self.pending.commit_up_to(math.inf, self.recover, self.goes_on_after_failure)
        self.sweep([committable for _, committable in known])
        self.begin()

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> None:
        super().snapshot_state(checkpoint_id, timestamp)
        self.pending.add((checkpoint_id, prepared) for prepared in self.prepare(checkpoint_id, timestamp))
        self.begin()
        self._state.update(self.stored())

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.pending.commit_up_to(checkpoint_id, self.commit, self.goes_on_after_failure)
        super().notify_checkpoint_complete(checkpoint_id)

    def close(self) -> None:
        try:
            self.abort()
        finally:
            super().close()
