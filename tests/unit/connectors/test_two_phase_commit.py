"""TwoPhaseCommitSinkFunction: its protocol, step by step and killed anywhere."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection
from typing import Any

import pytest

from flintstream.common import Duration, Types
from flintstream.common.serializer import TypeSerializer
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.functions import (
    CheckpointedFunction,
    CheckpointListener,
    TwoPhaseCommitSinkFunction,
)
from flintstream.datastream.state import ListStateDescriptor
from flintstream.runtime.faults import UserCodeError
from flintstream.runtime.operators.two_phase_commit import TwoPhaseCommitOperator
from flintstream.testing import OneInputOperatorHarness

from .drill import RECORDS, Drill, killed_everywhere


class Bank:
    """A system with transactions that outlive connections, strict about their order."""

    def __init__(self) -> None:
        self.states: list[str] = []
        self.written: list[list[Any]] = []
        self.drill: Drill | None = None

    def point(self) -> None:
        if self.drill is not None:
            self.drill.point()

    def begin(self) -> int:
        self.states.append("open")
        self.written.append([])
        return len(self.states) - 1

    def write(self, number: int, value: Any) -> None:
        assert self.states[number] == "open"
        self.written[number].append(value)

    def prepare(self, number: int) -> None:
        assert self.states[number] == "open"
        self.point()
        self.states[number] = "prepared"
        self.point()

    def commit(self, number: int) -> None:
        assert self.states[number] in ("prepared", "committed")
        self.point()
        self.states[number] = "committed"
        self.point()

    def abort(self, number: int) -> None:
        assert self.states[number] in ("open", "aborted", "prepared"), "what was committed cannot be taken back"
        self.point()
        self.states[number] = "aborted"
        self.point()

    def committed(self) -> list[Any]:
        found = zip(self.states, self.written)
        return [value for state, values in found if state == "committed" for value in values]


class BankSink(TwoPhaseCommitSinkFunction):
    def __init__(self, bank: Bank) -> None:
        super().__init__()
        self.bank = bank
        self.calls: list[Any] = []

    def __reduce__(self) -> Any:
        return BankSink, (None,)  # what a job would ship; a harness takes the object itself

    def open(self, runtime_context: Any) -> None:
        self.calls.append("open")

    def begin_transaction(self) -> int:
        number = self.bank.begin()
        self.calls.append(("begin", number))
        return number

    def invoke(self, transaction: int, value: Any, context: Any) -> None:
        self.bank.write(transaction, value)

    def pre_commit(self, transaction: int) -> None:
        self.calls.append(("pre_commit", transaction))
        self.bank.prepare(transaction)

    def commit(self, transaction: int) -> None:
        self.calls.append(("commit", transaction))
        self.bank.commit(transaction)

    def abort(self, transaction: int) -> None:
        self.calls.append(("abort", transaction))
        self.bank.abort(transaction)

    def finish_processing(self, transaction: int) -> None:
        self.calls.append(("finish_processing", transaction))

    def close(self) -> None:
        self.calls.append("close")


class TestProtocol:
    def test_from_the_first_record_to_the_last_checkpoint(self) -> None:
        bank = Bank()
        sink = BankSink(bank)
        with OneInputOperatorHarness(sink) as harness:
            harness.process_elements(["a", "b"])
            harness.snapshot(1)
            harness.process_element("c")
            assert bank.committed() == []
            harness.notify_checkpoint_complete(1)
            assert bank.committed() == ["a", "b"]
            harness.end_input()
            assert bank.committed() == ["a", "b"], "nothing is committed before a checkpoint"
            harness.snapshot(2)
            assert sink.current_transaction() is None
            harness.notify_checkpoint_complete(2)
        assert bank.committed() == ["a", "b", "c"]
        assert sink.calls == [
            "open",
            ("begin", 0),
            *[("pre_commit", 0), ("begin", 1), ("commit", 0)],
            *[("finish_processing", 1), ("pre_commit", 1), ("commit", 1)],
            "close",
        ]

    def test_close_aborts_the_open_transaction_and_leaves_those_that_wait(self) -> None:
        bank = Bank()
        with OneInputOperatorHarness(BankSink(bank)) as harness:
            harness.snapshot(1)
        assert bank.states == ["prepared", "aborted"]

    def test_a_completion_covers_all_checkpoints_before_it_and_none_after(self) -> None:
        bank = Bank()
        sink = BankSink(bank)
        with OneInputOperatorHarness(sink) as harness:
            for checkpoint in (1, 2, 3):
                harness.process_element(checkpoint)
                harness.snapshot(checkpoint)
            harness.notify_checkpoint_aborted(1)
            assert sink.pending_transactions() == {1: 0, 2: 1, 3: 2}
            harness.notify_checkpoint_complete(2)
            assert bank.committed() == [1, 2]
            harness.notify_checkpoint_complete(3)
        assert bank.committed() == [1, 2, 3]

    def test_a_restore_commits_what_waited_and_aborts_what_was_open(self) -> None:
        bank = Bank()
        with OneInputOperatorHarness(BankSink(bank)) as harness:
            harness.process_element("a")
            harness.snapshot(1)
            harness.process_element("b")
            kept = harness.snapshot(2)
            harness.process_element("lost")
        bank.states[2] = "open"  # as if it had been killed
        again = OneInputOperatorHarness(BankSink(bank))
        again.restore(kept)
        with again:
            assert bank.states == ["committed", "committed", "aborted", "open"]
            assert bank.committed() == ["a", "b"]

    def test_the_transactions_of_many_subtasks_go_to_few_and_back(self) -> None:
        bank = Bank()
        kept = []
        for subtask in range(3):
            with OneInputOperatorHarness(BankSink(bank), parallelism=3, subtask=subtask) as harness:
                harness.process_element(subtask)
                kept.append(harness.snapshot(1))
        for parallelism in (2, 5):
            for subtask in range(parallelism):
                again = OneInputOperatorHarness(BankSink(bank), parallelism=parallelism, subtask=subtask)
                again.restore(*kept)
                with again:
                    pass
            assert sorted(bank.committed()) == [0, 1, 2]

    def test_all_are_tried_and_the_first_failure_fails_the_job(self) -> None:
        bank = Bank()

        class Failing(BankSink):
            def commit(self, transaction: int) -> None:
                if transaction < 2:
                    raise OSError(f"no answer for {transaction}")
                super().commit(transaction)

        sink = Failing(bank)
        with OneInputOperatorHarness(sink, name="to the bank") as harness:
            for checkpoint in (1, 2, 3):
                harness.snapshot(checkpoint)
            with pytest.raises(UserCodeError, match=r"Operator 'to the bank'.*OSError: no answer for 0"):
                harness.notify_checkpoint_complete(3)
            assert sink.pending_transactions() == {1: 0, 2: 1}, "they still wait"
        assert bank.states[:3] == ["prepared", "prepared", "committed"]

    def test_invoke_without_a_context(self) -> None:
        bank = Bank()

        class Short(BankSink):
            def invoke(self, transaction: int, value: Any) -> None:  # type: ignore[override]
                self.bank.write(transaction, value)

        with OneInputOperatorHarness(Short(bank)) as harness:
            harness.process_element("a")
            assert bank.written == [["a"]]

    def test_the_context_tells_the_time(self) -> None:
        bank = Bank()

        class Timed(BankSink):
            def invoke(self, transaction: int, value: Any, context: Any) -> None:
                self.bank.write(transaction, (value, context.timestamp(), context.current_watermark()))

        with OneInputOperatorHarness(Timed(bank)) as harness:
            harness.process_watermark(4)
            harness.process_element("a", 5)
            harness.snapshot(1)
            harness.process_element("b", 6)
        assert bank.written == [[("a", 5, 4)], [("b", 6, 4)]]

    def test_a_failing_record_is_named(self) -> None:
        class Picky(BankSink):
            def invoke(self, transaction: int, value: Any, context: Any) -> None:
                raise ValueError("not this one")

        with (
            pytest.raises(UserCodeError, match="Record at fault: 'a'"),
            OneInputOperatorHarness(Picky(Bank())) as harness,
        ):
            harness.process_element("a")


@pytest.mark.parametrize(
    "options",
    [
        {"late": True},
        {"parallelism": (2, 3), "gracefully": False},
        {"parallelism": (3, 1), "aborted": (1, 3)},
    ],
    ids=str,
)
def test_killed_anywhere(options: dict[str, Any]) -> None:
    def drill(kill_at: Collection[int]) -> Drill:
        nonlocal bank
        bank = Bank()
        made = Drill(lambda: BankSink(bank), lambda: bank.committed(), kill_at, **options)
        bank.drill = made
        return made

    bank = Bank()
    for done in killed_everywhere(drill):
        assert sorted(bank.committed()) == RECORDS, f"after {done.points} points"


class TestUserContext:
    class Pooled(BankSink):
        recovered: list[Any]

        def open(self, runtime_context: Any) -> None:
            self.recovered = []

        def initialize_user_context(self) -> dict[str, int]:
            self.calls.append("initialize")
            return {"next id": 0}

        def begin_transaction(self) -> int:
            self.get_user_context()["next id"] += 1
            return super().begin_transaction()

        def finish_recovering_context(self, handled_transactions: list[Any]) -> None:
            self.recovered.append((dict(self.get_user_context()), handled_transactions))

    def test_it_is_part_of_checkpoints(self) -> None:
        bank = Bank()
        with OneInputOperatorHarness(self.Pooled(bank)) as harness:
            kept = harness.snapshot(1)
        sink = self.Pooled(bank)
        again = OneInputOperatorHarness(sink)
        again.restore(kept)
        with again:
            assert sink.recovered == [({"next id": 2}, [0, 1])]
            assert sink.get_user_context() == {"next id": 3}
            assert "initialize" not in sink.calls

    def test_it_goes_with_its_transactions_to_other_subtasks(self) -> None:
        bank = Bank()
        kept = []
        for subtask in range(2):
            with OneInputOperatorHarness(self.Pooled(bank), parallelism=2, subtask=subtask) as harness:
                kept.append(harness.snapshot(1))
        sink = self.Pooled(bank)
        again = OneInputOperatorHarness(sink)
        again.restore(*kept)
        with again:
            assert [handled for _, handled in sink.recovered] == [[0, 1], [2, 3]]
        new = self.Pooled(bank)
        third = OneInputOperatorHarness(new, parallelism=3, subtask=2)
        third.restore(*kept)
        with third:
            assert new.recovered == []
            assert new.get_user_context() == {"next id": 1}, "there was none left for it"


class TestTimeouts:
    def failing(self, bank: Bank) -> BankSink:
        class Failing(BankSink):
            def recover_and_commit(self, transaction: int) -> None:
                raise OSError("the transaction has expired")

        return Failing(bank)

    def kept(self, bank: Bank) -> Any:
        with OneInputOperatorHarness(BankSink(bank), processing_time=1_000) as harness:
            return harness.snapshot(1)

    def test_a_commit_that_fails_after_a_restore_fails_the_job(self) -> None:
        bank = Bank()
        again = OneInputOperatorHarness(self.failing(bank), processing_time=60_000)
        again.restore(self.kept(bank))
        with pytest.raises(UserCodeError, match="the transaction has expired"), again:
            pass

    @pytest.mark.parametrize(("now", "fails"), [(11_000, True), (11_001, False)])
    def test_unless_the_time_out_is_over_and_that_is_accepted(
        self, now: int, fails: bool, caplog: pytest.LogCaptureFixture
    ) -> None:
        bank = Bank()
        sink = self.failing(bank).set_transaction_timeout(Duration.of_seconds(10))
        again = OneInputOperatorHarness(sink.ignore_failures_after_transaction_timeout(), processing_time=now)
        again.restore(self.kept(bank))
        if fails:
            with pytest.raises(UserCodeError, match="the transaction has expired"), again:
                pass
        else:
            with again:
                assert "could not be committed" in caplog.text
                assert "the transaction has expired" in caplog.text

    @pytest.mark.parametrize(("now", "warned"), [(9_000, False), (9_001, True)])
    def test_warnings(self, now: int, warned: bool, caplog: pytest.LogCaptureFixture) -> None:
        sink = BankSink(Bank()).set_transaction_timeout(10_000).enable_transaction_timeout_warnings(0.8)
        with OneInputOperatorHarness(sink, processing_time=1_000) as harness, caplog.at_level(logging.WARNING):
            harness.snapshot(1)
            harness.set_processing_time(now)
            harness.notify_checkpoint_complete(1)
            assert ("close to its timeout of 10000 ms" in caplog.text) is warned

    def test_bad_settings(self) -> None:
        with pytest.raises(ValueError, match="set_transaction_timeout"):
            BankSink(Bank()).set_transaction_timeout(-1)
        with pytest.raises(ValueError, match="between 0 and 1, got 1.5"):
            BankSink(Bank()).enable_transaction_timeout_warnings(1.5)


class TestSerializers:
    class Number(TypeSerializer[int]):
        def serialize(self, element: int, stream: Any) -> None:
            stream.write(b"number %d" % element)

        def deserialize(self, stream: Any) -> int:
            return int(stream.read().removeprefix(b"number "))

    @pytest.mark.parametrize("serializer", [Number(), Types.LONG()])
    def test_of_ones_own_or_by_type(self, serializer: Any) -> None:
        class Typed(BankSink):
            def __init__(self, bank: Bank) -> None:
                TwoPhaseCommitSinkFunction.__init__(self, serializer, Types.STRING())
                self.bank, self.calls = bank, []

            def initialize_user_context(self) -> str:
                return "context"

        bank = Bank()
        with OneInputOperatorHarness(Typed(bank)) as harness:
            harness.process_element("a")
            kept = harness.snapshot(1)
        again = OneInputOperatorHarness(Typed(bank))
        again.restore(kept)
        with again:
            assert bank.committed() == ["a"]

    def test_a_transaction_that_cannot_be_stored_is_told(self) -> None:
        class Locked(BankSink):
            def begin_transaction(self) -> Any:
                return threading.Lock()

            def pre_commit(self, transaction: Any) -> None: ...

            def abort(self, transaction: Any) -> None: ...

        with (
            OneInputOperatorHarness(Locked(Bank())) as harness,
            pytest.raises(UserCodeError, match=r"transaction <unlocked.* cannot be stored in a checkpoint"),
        ):
            harness.snapshot(1)

    def test_what_is_no_serializer_is_refused(self) -> None:
        class Sink(BankSink):
            def __init__(self) -> None:
                TwoPhaseCommitSinkFunction.__init__(self, "pickle")  # type: ignore[arg-type]

        with pytest.raises(TypeError, match="transaction_serializer must be a TypeSerializer or one of Types"):
            Sink()


def test_a_sink_may_have_state_of_its_own() -> None:
    class Counting(BankSink, CheckpointedFunction, CheckpointListener):
        count = 0
        told: int | None = None

        def initialize_state(self, context: Any) -> None:
            descriptor = ListStateDescriptor("count", Types.LONG())
            self.state = context.get_operator_state_store().get_list_state(descriptor)
            self.count = sum(self.state)

        def snapshot_state(self, context: Any) -> None:
            self.state.update([self.count])

        def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
            self.told = checkpoint_id

        def invoke(self, transaction: int, value: Any, context: Any) -> None:
            self.count += 1

    bank = Bank()
    sink = Counting(bank)
    with OneInputOperatorHarness(sink) as harness:
        harness.process_elements("ab")
        kept = harness.snapshot(1)
        harness.notify_checkpoint_complete(1)
        assert sink.told == 1
        assert bank.states[0] == "committed"
    again = OneInputOperatorHarness(Counting(bank))
    again.restore(kept)
    with again:
        again.process_element("c")
        assert again._operator.function.count == 3  # type: ignore[attr-defined]


def test_without_its_methods_it_cannot_be_made() -> None:
    class Half(TwoPhaseCommitSinkFunction):
        def begin_transaction(self) -> None: ...

    with pytest.raises(TypeError, match="abstract"):
        Half()  # type: ignore[abstract]


def test_add_sink_takes_it() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    sink = env.from_collection([1]).add_sink(BankSink(Bank()))
    assert isinstance(sink._transformation.operator, TwoPhaseCommitOperator)
    assert sink._transformation.operator.commits
