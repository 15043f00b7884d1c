"""The protocol of sinks that commit, against a reference that only counts: with any sequence of records, checkpoints,
notifications, failures and restores, with any parallelism, each record becomes visible once, in the order of checkpoints."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.datastream.functions import CheckpointCommitter, GenericWriteAheadSink, TwoPhaseCommitSinkFunction
from flintstream.runtime.batch import Batch
from flintstream.runtime.operators.committing import Committables, CommittingOperator, RetryLater
from flintstream.runtime.state.operator_state import ListDescriptor
from flintstream.testing import OneInputOperatorHarness, UserCodeError


class Entry(NamedTuple):
    """A transaction: the attempt and the subtask that have begun it, and its number among theirs."""

    attempt: int
    subtask: int
    number: int


class Ledger:
    """A system with transactions that outlive connections. It is strict: only what is recovered may be committed twice."""

    def __init__(self) -> None:
        self.attempt = 0
        self.states: dict[Entry, str] = {}
        self.written: dict[Entry, list[int]] = {}
        self.visible: list[int] = []
        self.recovered: set[tuple[int, Entry]] = set()
        """What an attempt has recovered."""
        self.fault: str | None = None
        """What becomes of the next commit."""

    def begin(self, subtask: int) -> Entry:
        entry = Entry(self.attempt, subtask, len(self.states))
        self.states[entry] = "open"
        self.written[entry] = []
        return entry

    def write(self, entry: Entry, records: Iterable[int]) -> None:
        assert self.states[entry] == "open"
        self.written[entry] += records

    def prepare(self, entry: Entry) -> None:
        assert self.states[entry] == "open"
        self.states[entry] = "prepared"

    def commit(self, entry: Entry, recovers: bool = False) -> None:
        fault, self.fault = self.fault, None
        if fault == "before":
            raise OSError("not reached")
        if recovers:
            assert (self.attempt, entry) not in self.recovered, "two subtasks recover it"
            self.recovered.add((self.attempt, entry))
        if not (recovers and self.states[entry] == "committed"):
            assert self.states[entry] == "prepared"
            self.states[entry] = "committed"
            self.visible += self.written[entry]
        if fault == "after":
            raise OSError("no answer")

    def abort(self, entry: Entry) -> None:
        assert self.states[entry] != "committed", "what was committed cannot be taken back"
        self.states[entry] = "aborted"


class LedgerOperator(CommittingOperator[tuple[int, Entry]]):
    """Commits pairs of a checkpoint and a transaction."""

    committables = ListDescriptor("entries")

    def __init__(self, ledger: Ledger, shared: bool, goes_on_after_failure: bool) -> None:
        self.ledger = ledger
        self.shared = shared
        self.goes_on_after_failure = goes_on_after_failure
        self.current: Entry | None = None
        self.order: list[int] = []
        """The checkpoints of what it has committed."""

    def __reduce__(self) -> Any:
        return LedgerOperator, (None, self.shared, False)  # what a job would ship; a harness takes the object itself

    def process(self, batch: Batch) -> None:
        assert self.current is not None
        self.ledger.write(self.current, batch.values)

    def finish(self) -> None:
        """The last checkpoint follows."""

    def begin(self) -> None:
        self.current = self.ledger.begin(self.context.subtask)

    def prepare(self, checkpoint_id: int, timestamp: int) -> list[tuple[int, Entry]]:
        prepared, self.current = self.current, None
        assert prepared is not None
        self.ledger.prepare(prepared)
        return [(checkpoint_id, prepared)]

    def commit(self, committable: tuple[int, Entry]) -> None:
        self._commit(committable, recovers=False)

    def recover(self, committable: tuple[int, Entry]) -> None:
        self._commit(committable, recovers=True)

    def _commit(self, committable: tuple[int, Entry], recovers: bool) -> None:
        if self.ledger.fault == "later" and not recovers:
            self.ledger.fault = None
            raise RetryLater
        self.ledger.commit(committable[1], recovers)
        self.order.append(committable[0])

    def sweep(self, known: Sequence[tuple[int, Entry]]) -> None:
        """Where it is shared, one subtask can tell what no other will commit."""
        if self.shared and self.context.subtask == 0:
            entries = {entry for _, entry in known}
            left = [entry for entry, state in self.ledger.states.items() if state in ("open", "prepared")]
            for entry in left:
                if entry.attempt < self.ledger.attempt and entry not in entries:
                    self.ledger.abort(entry)

    def restored(self, elements: Sequence[tuple[int, Entry]]) -> Iterable[tuple[int, tuple[int, Entry]]]:
        return [(checkpoint_id, (checkpoint_id, entry)) for checkpoint_id, entry in elements]

    def is_mine(self, committable: tuple[int, Entry]) -> bool:
        return not self.shared or committable[1].subtask % self.context.parallelism == self.context.subtask

    def abort(self) -> None:
        if self.current is not None:
            self.ledger.abort(self.current)


class LedgerFunction(TwoPhaseCommitSinkFunction):
    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self.ledger = ledger

    def __reduce__(self) -> Any:
        return LedgerFunction, (None,)

    def begin_transaction(self) -> Entry:
        return self.ledger.begin(0)

    def invoke(self, transaction: Entry, value: int) -> None:  # type: ignore[override]
        self.ledger.write(transaction, [value])

    def pre_commit(self, transaction: Entry) -> None:
        self.ledger.prepare(transaction)

    def commit(self, transaction: Entry) -> None:
        self.ledger.commit(transaction)

    def recover_and_commit(self, transaction: Entry) -> None:
        self.ledger.commit(transaction, recovers=True)

    def abort(self, transaction: Entry) -> None:
        self.ledger.abort(transaction)


class LedgerMarks(CheckpointCommitter):
    """Keeps its marks in the ledger: the values become visible together with them."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.sent: list[int] = []

    def commit_checkpoint(self, subtask_idx: int, checkpoint_id: int) -> None:
        mark = Entry(0, subtask_idx, checkpoint_id)
        self.ledger.states[mark], self.ledger.written[mark] = "prepared", self.sent
        self.ledger.commit(mark)

    def is_checkpoint_committed(self, subtask_idx: int, checkpoint_id: int) -> bool:
        return self.ledger.states.get(Entry(0, subtask_idx, checkpoint_id)) == "committed"


class LedgerSender(GenericWriteAheadSink):
    def __init__(self, ledger: Ledger) -> None:
        super().__init__(LedgerMarks(ledger))

    def __reduce__(self) -> Any:
        return LedgerSender, (None,)

    def send_values(self, values: Iterable[int], checkpoint_id: int, timestamp: int) -> bool:
        assert isinstance(self.committer, LedgerMarks)
        ledger, self.committer.sent = self.committer.ledger, list(values)
        if ledger.fault == "later":
            ledger.fault = None
            return False
        return True


class Taken(NamedTuple):
    """A checkpoint: how many records came before it, and the states of the subtasks."""

    position: int
    states: list[Any]


class Job:
    """The driver of a sink: replays records, takes checkpoints, tells of them, and restores the last complete one.

    What must be visible is counted beside it: the records before a checkpoint are due when it is told to be complete, or
    restored, and those behind it are not.
    """

    def __init__(self, make: Callable[[Ledger], Any]) -> None:
        self.ledger = Ledger()
        self._make = make
        self._position = 0
        self._last_id = 0
        self._taken: dict[int, Taken] = {}
        self._complete = 0
        self._restore_point: Taken | None = None
        self._due = 0
        self._subtasks: list[OneInputOperatorHarness] = []
        self.start(2)

    def start(self, parallelism: int) -> None:
        """Starts an attempt, again while that fails."""
        point = self._restore_point
        self._position = 0 if point is None else point.position
        self._taken = {}
        started = False
        while not started:
            self.ledger.attempt += 1
            self._subtasks = []
            started = self._commits(lambda: self._open(parallelism, point), self._position)

    def _open(self, parallelism: int, point: Taken | None) -> None:
        for subtask in range(parallelism):
            harness = OneInputOperatorHarness(self._make(self.ledger), parallelism=parallelism, subtask=subtask)
            if point is not None:
                harness.restore(*pickle.loads(pickle.dumps(point.states)))
            self._subtasks.append(harness)
            harness.open()

    def _commits(self, step: Callable[[], None], position: int) -> bool:
        """Whether it has not failed; then all records before the position are visible, and none that was not due."""
        harmless = self.ledger.fault is None
        try:
            step()
        except (OSError, UserCodeError):
            assert not harmless
            return False
        self._due = max(self._due, position)
        visible = set(self.ledger.visible)
        assert len(visible) == len(self.ledger.visible), "a record has come twice"
        assert visible <= set(range(self._due))
        if harmless:
            assert visible >= set(range(position))
        return True

    @property
    def written(self) -> int:
        """How many records came before the end."""
        return self._position

    def write(self, subtask: int) -> None:
        self._subtasks[subtask % len(self._subtasks)].process_element(self._position)
        self._position += 1

    def snapshot(self) -> None:
        self._last_id += 1
        states = [subtask.snapshot(self._last_id) for subtask in self._subtasks]
        self._taken[self._last_id] = Taken(self._position, states)

    def abort(self, choice: int) -> None:
        """Gives a checkpoint up that is not complete."""
        given_up = [number for number in self._taken if number > self._complete]
        if given_up:
            number = given_up[choice % len(given_up)]
            del self._taken[number]
            for subtask in self._subtasks:
                subtask.notify_checkpoint_aborted(number)

    def complete(self, choice: int, told: bool) -> None:
        """A checkpoint is complete, in any order; perhaps nobody tells the subtasks."""
        if self._taken:
            number = sorted(self._taken)[choice % len(self._taken)]
            if number > self._complete:
                self._complete, self._restore_point = number, self._taken[number]
            if told:
                self.tell(number)

    def tell(self, number: int) -> None:
        """The subtasks learn of a complete checkpoint, perhaps again."""

        def tell() -> None:
            for subtask in self._subtasks:
                subtask.notify_checkpoint_complete(number)

        if not self._commits(tell, self._taken[number].position):
            self.fail(len(self._subtasks), closes=False)

    def fail(self, parallelism: int, closes: bool) -> None:
        for subtask in self._subtasks if closes else ():
            subtask.close()
        self.start(parallelism)

    def finish(self) -> list[int]:
        """Ends the input and takes the last checkpoint, again where that fails; what is visible then."""
        self.ledger.fault = None
        for subtask in self._subtasks:
            subtask.end_input()
        self.snapshot()
        self.complete(len(self._taken) - 1, told=True)
        for subtask in self._subtasks:
            subtask.close()
        return self.ledger.visible


CHOICES = st.integers(0, 3)
STEPS = st.one_of(
    st.tuples(st.just("write"), CHOICES),
    st.tuples(st.just("write"), CHOICES),
    st.tuples(st.just("snapshot")),
    st.tuples(st.just("snapshot")),
    st.tuples(st.just("complete"), CHOICES, st.booleans()),
    st.tuples(st.just("complete"), CHOICES, st.just(True)),
    st.tuples(st.just("abort"), CHOICES),
    st.tuples(st.just("fail"), st.integers(1, 3), st.booleans()),
    st.tuples(st.just("fault"), st.sampled_from(["before", "after", "later"])),
)
SINKS: dict[str, Callable[[Ledger], Any]] = {
    "dealt out": lambda ledger: LedgerOperator(ledger, shared=False, goes_on_after_failure=False),
    "shared": lambda ledger: LedgerOperator(ledger, shared=True, goes_on_after_failure=False),
    "going on": lambda ledger: LedgerOperator(ledger, shared=True, goes_on_after_failure=True),
    "two-phase commit": LedgerFunction,
    "write-ahead": LedgerSender,
}


@pytest.mark.parametrize("sink", SINKS)
@given(steps=st.lists(STEPS, max_size=25))
def test_each_record_is_committed_once(sink: str, steps: list[tuple[Any, ...]]) -> None:
    operators: list[Any] = []

    def make(ledger: Ledger) -> Any:
        operators.append(SINKS[sink](ledger))
        return operators[-1]

    job = Job(make)
    for name, *arguments in steps:
        if name == "fault":
            # A transaction of the user's is committed or fails: there is no later.
            job.ledger.fault = "before" if sink == "two-phase commit" and arguments == ["later"] else arguments[0]
        else:
            getattr(job, name)(*arguments)
    assert sorted(job.finish()) == list(range(job.written))
    for operator in operators:
        if isinstance(operator, LedgerOperator) and not operator.goes_on_after_failure:
            assert operator.order == sorted(operator.order), "not in the order of checkpoints"
    if sink == "shared":
        assert set(job.ledger.states.values()) <= {"committed", "aborted"}, "something was left behind"


def test_what_is_committed_is_forgotten_and_what_fails_stays() -> None:
    pending = Committables[str]()
    pending.add([(2, "c"), (1, "a"), (1, "b")])
    pending.add([(3, "d")])
    committed: list[str] = []

    def commit(committable: str) -> None:
        if committable == "b" and "b" not in failed:
            failed.append("b")
            raise OSError("no answer")
        committed.append(committable)

    failed: list[str] = []
    with pytest.raises(OSError, match="no answer"):
        pending.commit_up_to(2, commit)
    assert (committed, list(pending)) == (["a"], [(1, "b"), (2, "c"), (3, "d")])
    failed.clear()
    with pytest.raises(OSError, match="no answer"):
        pending.commit_up_to(2, commit, goes_on_after_failure=True)
    assert (committed, list(pending)) == (["a", "c"], [(1, "b"), (3, "d")])
    pending.commit_up_to(2, commit)
    pending.commit_up_to(2, commit)
    assert (committed, list(pending)) == (["a", "c", "b"], [(3, "d")])
