"""Sinks that commit: the one protocol by which the records of a checkpoint become visible once, when it is complete.

What a sink has written since the last checkpoint (a transaction, hidden files, staged records) becomes a *committable*:
what a new process needs to finish the work, such as a name or an id::

                    prepare(n)               commit: a checkpoint m >= n is complete
    begin ──▶ OPEN ────────────▶ PENDING(n) ─────────────────────────────────────────▶ COMMITTED
               │                     │  the attempt ends, and its successor restores
               │                     ├──▶ a checkpoint m >= n, which holds it: recover ──▶ COMMITTED
               │                     └──▶ an earlier one, which knows nothing of it: sweep ──▶ ABORTED
               └──▶ abort, when the attempt closes; sweep, when it was killed ──▶ ABORTED

- *Snapshot n*: what is open is prepared, and waits for n; something new is begun. All that waits is in the snapshot, also
  what waits for earlier checkpoints: one of them may never complete, or complete unheard.
- *Checkpoint m complete*: what waits for m or for a checkpoint before it is committed, in the order of the checkpoints. So
  a notification may be skipped, repeated, or overtaken by a later one. An aborted checkpoint changes nothing: the next one
  that completes covers it.
- *Failed commit*: it stays pending. The job fails, and the restore recovers it; or, where the sink raises `RetryLater`, it
  is committed when the next checkpoint is complete. What was committed before it is not committed again by this attempt.
- *Restore*: a checkpoint that can be restored is complete, so everything pending in it is committed, whether or not that
  has happened already: `recover` must be idempotent. With any parallelism, one subtask recovers each committable. Only
  then `sweep` aborts what the earlier attempt has left behind.
- *Lease*: the driver looks at its lease right before it deploys a restore, and before it tells slots that a checkpoint is
  complete. Nothing is committed outside these two calls.

The transactions of a Kafka producer fit: `begin` takes a producer with a transactional id of its own and begins a
transaction; `prepare` flushes it, and gives (transactional id, producer id, epoch); `commit` and `recover` send EndTxn for
these three, where the answer that the epoch is over means that it was done before; `abort` aborts the open transaction;
`sweep` initialises the other transactional ids of the sink, which fences their producers and aborts what lingers. The
committables are `shared`, so that a subtask sweeps nothing that another one has yet to recover.
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
    """Raised by `commit` to be called again when the next checkpoint is complete, with all that waits behind it.

    `recover` may raise it too where `commit`, which is called then, is as idempotent.
    """


class Committables(Generic[CommittableT]):
    """What is pending. Iterating gives pairs of a checkpoint and what waits for it, in the order of the checkpoints."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, CommittableT]] = []

    def __iter__(self) -> Iterator[tuple[int, CommittableT]]:
        return iter(list(self._waiting))

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, waiting: Iterable[tuple[int, CommittableT]]) -> None:
        """These are prepared, each for a checkpoint."""
        self._waiting = sorted([*self._waiting, *waiting], key=lambda entry: entry[0])

    def commit_up_to(
        self, checkpoint_id: float, commit: Callable[[CommittableT], None], goes_on_after_failure: bool = False
    ) -> None:
        """A checkpoint is complete: commits what waits for it or for one before it, and forgets what is committed.

        :param goes_on_after_failure: whether the others are committed all the same, before the first failure is raised.
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
    """Base of the operators of sinks that commit; the module describes the protocol. A variant says how each step is done.

    It stands before the operator that takes the records in the list of bases, and calls that one's methods.
    """

    commits = True
    committables: ListDescriptor
    """The operator state of what is pending."""
    shared = False
    """Whether a restore gives every subtask what was pending in all of them; then `is_mine` says who recovers what."""
    goes_on_after_failure = False
    """Whether what waits behind a failed commit is committed all the same, before the job fails."""

    # --- what a variant says ---

    def connect(self) -> None:
        """Gets ready to commit; called once, before anything is recovered."""

    def begin(self) -> None:
        """Begins what the next checkpoint will prepare; called when the operator is open, and after each `prepare`."""

    def prepare(self, checkpoint_id: int, timestamp: int) -> Iterable[CommittableT]:
        """Does all that can fail with what was written, and gives what is left to commit."""
        raise NotImplementedError

    def commit(self, committable: CommittableT) -> None:
        """Makes it visible. It was prepared by this attempt, and is committed by it once, unless that fails."""
        raise NotImplementedError

    def recover(self, committable: CommittableT) -> None:
        """Makes it visible after a restore; an earlier attempt may have done so."""
        self.commit(committable)

    def sweep(self, known: Sequence[CommittableT]) -> None:
        """Aborts what earlier attempts have begun or prepared, and the restored checkpoint does not know.

        :param known: all that was pending in it; recovered by now, or another subtask's to recover.
        """

    def abort(self) -> None:
        """The attempt ends, perhaps before it was open: forgets what was begun. What is pending is its successor's."""

    def stored(self) -> Iterable[Any]:
        """What is pending, as elements of the operator state; called after `begin`."""
        return [committable for _, committable in self.pending]

    def restored(self, elements: Sequence[Any]) -> Iterable[tuple[int, CommittableT]]:
        """What was `stored`, each with its checkpoint, by which they are recovered in order; 0 where it is not stored."""
        return [(0, element) for element in elements]

    def is_mine(self, committable: CommittableT) -> bool:
        """Whether this subtask recovers it; of several that are given the same one, one does."""
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
