"""JdbcSink.exactly_once_sink: each row once, whatever fails and when."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from flintstream.common import Types
from flintstream.connectors.jdbc import exactly_once as jdbc_exactly_once
from flintstream.connectors.jdbc import transactions as jdbc_transactions
from flintstream.connectors.jdbc.databases import PostgreSql
from flintstream.datastream.connectors.jdbc import JdbcExactlyOnceOptions, JdbcExecutionOptions, JdbcSink
from flintstream.runtime.faults import UserCodeError
from flintstream.testing import OneInputOperatorHarness

from .databases import Database
from .postgres import PostgresServer

pytestmark = pytest.mark.timeout(900)  # The server may have to be downloaded first.

INSERT = "INSERT INTO items (n) VALUES (?)"  # Not idempotent: a row that is written again is there twice.
JOB = "0" * 32
PREFIX = f"flint:{JOB}:{'0' * 32}:"
"""Of the operator, in all jobs that go back to this one."""


@pytest.fixture
def items(database: Database) -> Database:
    database.run("CREATE TABLE items (n INT)")
    return database


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits between attempts to commit, which take no time."""
    waits: list[float] = []
    monkeypatch.setattr(jdbc_transactions, "time", SimpleNamespace(sleep=waits.append))
    return waits


def harness(
    items: Database,
    sql: str = INSERT,
    options: JdbcExactlyOnceOptions | None = None,
    interval: int = 0,
    job: str = JOB,
    **place: int,
) -> OneInputOperatorHarness:
    execution = JdbcExecutionOptions.builder().with_batch_size(2).with_batch_interval_ms(interval).with_max_retries(0)
    sink = JdbcSink.exactly_once_sink(sql, Types.INT(), items.options, execution.build(), options)
    operator = pickle.loads(pickle.dumps(sink.create_operator(None)))
    sinking = OneInputOperatorHarness(operator, name="to the items", **place)
    context = operator.context.runtime_context
    context._job = replace(context._job, job_id=job)
    return sinking


def restored(items: Database, *snapshots: Any, **options: Any) -> OneInputOperatorHarness:
    sinking = harness(items, **options)
    sinking.restore(*snapshots)
    return sinking


def written(items: Database) -> list[int]:
    return [number for (number,) in items.run("SELECT n FROM items ORDER BY n")]


# --- the protocol ---


def test_rows_are_seen_when_their_checkpoint_is_complete(items: Database) -> None:
    with harness(items) as sinking:
        sinking.process_elements([1, 2, 3])
        assert (written(items), items.prepared) == ([], [])
        sinking.snapshot(7)
        (gid,) = items.prepared
        assert gid.startswith(f"{PREFIX}{JOB}:0:") and gid.endswith(":7")
        assert written(items) == []
        sinking.notify_checkpoint_complete(7)
        assert (written(items), items.prepared) == ([1, 2, 3], [])


def test_an_empty_transaction_is_not_prepared(items: Database) -> None:
    with harness(items) as sinking:
        sinking.snapshot(1)
        assert items.prepared == []
        sinking.notify_checkpoint_complete(1)
        sinking.process_element(1)
        sinking.snapshot(2)
        sinking.notify_checkpoint_complete(2)
        sinking.snapshot(3)
        assert items.prepared == []
    assert written(items) == [1]


def test_rows_are_held_back_while_a_transaction_waits_for_its_checkpoint(items: Database) -> None:
    items.run("CREATE UNIQUE INDEX ON items (n)")
    upsert = f"{INSERT} ON CONFLICT (n) DO UPDATE SET n = excluded.n"
    with harness(items, upsert, interval=1, processing_time=1000) as sinking:
        sinking.process_elements([1, 2])
        sinking.snapshot(1)
        sinking.process_elements([1, 2, 3])  # Written now, they would wait for locks that the same thread must free.
        sinking.set_processing_time(2000)
        assert sinking._task.next_due() is None
        sinking.notify_checkpoint_complete(1)
        assert sinking._task.next_due() is not None
        sinking.end_epoch()
        sinking.snapshot(2)
        sinking.notify_checkpoint_complete(2)
    assert written(items) == [1, 2, 3]


def test_a_checkpoint_may_complete_while_the_next_transaction_is_open(
    items: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jdbc_exactly_once, "_HELD_ROWS", 2)
    with harness(items) as sinking:
        sinking.process_elements([1, 2])
        sinking.snapshot(1)
        sinking.process_elements([3, 4])
        assert sinking._operator._in_transaction
        sinking.notify_checkpoint_complete(1)
        assert written(items) == [1, 2]
        sinking.snapshot(2)
        sinking.notify_checkpoint_complete(2)
    assert written(items) == [1, 2, 3, 4]


def test_a_wait_for_a_lock_of_the_transaction_before_ends_with_an_error(items: Database) -> None:
    items.run("CREATE UNIQUE INDEX ON items (n)")
    url = f"{items.options.get_db_url()}?options=-clock_timeout%3D100ms"
    items.options = replace(items.options, _url=url)
    with pytest.raises(UserCodeError, match="canceling statement due to lock timeout"), harness(items) as sinking:
        sinking.process_element(1)
        sinking.snapshot(1)
        sinking.notify_checkpoint_aborted(1)
        sinking.process_element(1)
        sinking.snapshot(2)
    with harness(items) as again:
        again.process_element(1)
        again.snapshot(3)
        again.notify_checkpoint_complete(3)
    assert written(items) == [1]


def test_waits_for_locks_have_an_end_unless_the_user_says_otherwise(items: Database) -> None:
    show = "SELECT current_setting('lock_timeout')"
    with harness(items) as sinking:
        assert sinking._operator._connection.execute(show).fetchone() == ("1min",)


def test_the_server_notices_that_the_machine_of_a_subtask_has_gone(items: Database) -> None:
    with harness(items) as sinking:
        shown = sinking._operator._connection.execute(
            "SELECT current_setting('tcp_keepalives_idle'), current_setting('tcp_keepalives_interval')"
        )
        assert shown.fetchone() == ("10", "5")


def test_a_completed_checkpoint_covers_those_before_it_and_no_later_one(items: Database) -> None:
    with harness(items) as sinking:
        for number in (1, 2, 3):
            sinking.process_element(number)
            sinking.snapshot(number)
        sinking.notify_checkpoint_aborted(1)
        assert len(items.prepared) == 3
        sinking.notify_checkpoint_complete(2)
        assert written(items) == [1, 2]
        sinking.notify_checkpoint_complete(2)
        sinking.notify_checkpoint_complete(3)
    assert written(items) == [1, 2, 3]


def test_the_last_checkpoint_commits_what_came_before_the_end(items: Database) -> None:
    with harness(items) as sinking:
        assert sinking._operator.commits
        sinking.process_element(1)
        sinking.end_input()
        assert written(items) == []
        sinking.snapshot(1)
        sinking.notify_checkpoint_complete(1)
    assert written(items) == [1]


def test_what_was_not_prepared_ends_with_the_job(items: Database) -> None:
    with harness(items) as sinking:
        sinking.process_elements([1, 2])
    with harness(items):
        assert (written(items), items.prepared) == ([], [])


# --- after a restore ---


def test_a_restored_transaction_is_committed_whether_or_not_it_was_before(items: Database) -> None:
    with harness(items) as sinking:
        sinking.process_element(1)
        taken = sinking.snapshot(1)
    with restored(items, taken):
        assert (written(items), items.prepared) == ([1], [])
    with restored(items, taken) as again:
        assert written(items) == [1]
        again.process_element(2)
        later = again.snapshot(2)
        again.notify_checkpoint_complete(2)
    with restored(items, later):
        assert written(items) == [1, 2]


def test_a_checkpoint_holds_the_transactions_of_those_before_it_that_were_given_up(items: Database) -> None:
    with harness(items) as sinking:
        sinking.process_element(1)
        sinking.snapshot(1)
        sinking.notify_checkpoint_aborted(1)
        sinking.process_element(2)
        taken = sinking.snapshot(2)
    with restored(items, taken):
        assert (written(items), items.prepared) == ([1, 2], [])


def test_a_transaction_of_a_checkpoint_that_never_completed_is_rolled_back(items: Database) -> None:
    with harness(items) as sinking:
        sinking.process_element(1)
        taken = sinking.snapshot(1)
        sinking.process_element(2)
        sinking.snapshot(2)
    with restored(items, taken):
        assert (written(items), items.prepared) == ([1], [])


def test_a_job_that_starts_again_without_a_checkpoint_rolls_everything_back(items: Database) -> None:
    with harness(items) as sinking:
        sinking.process_element(1)
        sinking.snapshot(1)
    with harness(items):
        assert (written(items), items.prepared) == ([], [])


def test_unknown_transactions_stay_if_the_options_say_so(items: Database) -> None:
    with harness(items) as sinking:
        sinking.process_element(1)
        sinking.snapshot(1)
    with harness(items, options=JdbcExactlyOnceOptions.builder().with_recovered_and_rollback(False).build()):
        assert len(items.prepared) == 1


def test_transactions_of_others_stay(items: Database) -> None:
    others = [
        f"flint:{'1' * 32}:{'0' * 32}:{JOB}:0:a:1",
        f"flint:{JOB}:{'1' * 32}:{JOB}:0:a:1",
        f"{PREFIX}{JOB}:1:a:1",
        f"{PREFIX}0:a:1",
        "mine",
    ]
    for gid in others:
        items.run(f"BEGIN; INSERT INTO items VALUES (1); PREPARE TRANSACTION '{gid}'")
    with harness(items, parallelism=2):
        assert items.prepared == sorted(others)


@pytest.mark.parametrize(("before", "after"), [(3, 2), (3, 1), (1, 3), (2, 2)])
def test_all_transactions_are_settled_with_another_parallelism(items: Database, before: int, after: int) -> None:
    with ExitStack() as stack:
        first = [stack.enter_context(harness(items, parallelism=before, subtask=each)) for each in range(before)]
        for number, sinking in enumerate(first):
            sinking.process_element(number)
        taken = [sinking.snapshot(1) for sinking in first]
        for sinking in first:
            sinking.process_element(99)
            sinking.snapshot(2)
    with ExitStack() as stack:
        for subtask in reversed(range(after)):
            stack.enter_context(restored(items, *taken, parallelism=after, subtask=subtask))
    assert (written(items), items.prepared) == (list(range(before)), [])


# --- restored under other ids ---

SECOND, THIRD = "2" * 32, "3" * 32


@pytest.fixture
def keyed_items(items: Database) -> Database:
    """A table with a primary key: an insert waits for whoever has inserted the same row and not ended."""
    items.run("ALTER TABLE items ADD PRIMARY KEY (n)")
    return items


def killed(items: Database, sinking: OneInputOperatorHarness) -> None:
    """Ends the connections of a subtask as the death of its process does."""
    for connection in (sinking._operator._connection, sinking._operator._prepared._connection):
        items.run(f"SELECT pg_terminate_backend({connection.info.backend_pid})")
        while items.run(f"SELECT 1 FROM pg_stat_activity WHERE pid = {connection.info.backend_pid}"):
            time.sleep(0.01)
    sinking._operator.close()


def test_a_job_that_is_restored_under_another_id_is_not_kept_waiting_by_its_predecessor(keyed_items: Database) -> None:
    """The first one is killed between the preparation of a transaction and the completion of its checkpoint."""
    first = harness(keyed_items)
    first.open()
    first.process_elements([1, 2])
    taken = first.snapshot(1)
    first.notify_checkpoint_complete(1)
    first.process_elements([3, 4])
    first.snapshot(2)
    killed(keyed_items, first)
    assert len(keyed_items.prepared) == 1
    with restored(keyed_items, taken, job=SECOND) as second:
        assert keyed_items.prepared == [], "nobody holds locks any more"
        second.process_elements([3, 4])
        second.snapshot(1)
        (gid,) = keyed_items.prepared
        assert gid.startswith(f"{PREFIX}{SECOND}:0:")
        second.notify_checkpoint_complete(1)
    assert (written(keyed_items), keyed_items.prepared) == ([1, 2, 3, 4], [])


def test_transactions_are_found_through_chains_of_restores(keyed_items: Database) -> None:
    """Also those of a job that ends before its first checkpoint is complete, of which no checkpoint knows."""
    with harness(keyed_items) as first:
        first.process_element(1)
        taken = first.snapshot(1)
    with restored(keyed_items, taken, job=SECOND) as second:
        second.process_element(2)
        second.snapshot(1)
    assert len(keyed_items.prepared) == 1
    with restored(keyed_items, taken, job=THIRD) as third:
        assert (written(keyed_items), keyed_items.prepared) == ([1], [])
        third.process_element(2)
        later = third.snapshot(1)
        third.process_element(3)
        third.snapshot(2)
    with restored(keyed_items, later, job="4" * 32):
        assert (written(keyed_items), keyed_items.prepared) == ([1, 2], [])


def test_a_predecessor_without_a_pending_transaction_is_known_too(items: Database) -> None:
    with harness(items) as first:
        taken = first.snapshot(1)
        first.process_element(1)
        first.snapshot(2)
    assert len(items.prepared) == 1
    with restored(items, taken, job=SECOND):
        assert (written(items), items.prepared) == ([], [])


def test_transactions_of_a_predecessor_that_is_still_connected_are_left_alone(
    items: Database, waits: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    """A savepoint was taken, and both jobs go on from it."""
    with harness(items) as first:
        taken = first.snapshot(1)
        first.process_element(1)
        first.snapshot(2)
        with restored(items, taken, job=SECOND):
            (gid,) = items.prepared
            assert (
                f"job {JOB}, from which this one was restored or which has the same transaction id prefix, is still"
                in caplog.text
            )
            assert gid in caplog.text
        first.notify_checkpoint_complete(2)
    assert (written(items), items.prepared) == ([1], [])


@pytest.mark.parametrize(("before", "after"), [(3, 2), (1, 3), (3, 1)])
def test_each_transaction_of_a_predecessor_is_rolled_back_by_one_subtask(
    items: Database, before: int, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        first = [stack.enter_context(harness(items, parallelism=before, subtask=each)) for each in range(before)]
        taken = [sinking.snapshot(1) for sinking in first]
        for number, sinking in enumerate(first):
            sinking.process_element(number)
            sinking.snapshot(2)
    left = items.prepared
    assert len(left) == before
    rolled_back: list[str] = []
    roll_back = jdbc_transactions.PreparedTransactions.roll_back

    def counted(self: jdbc_transactions.PreparedTransactions, gid: str) -> None:
        rolled_back.append(gid)
        roll_back(self, gid)

    monkeypatch.setattr(jdbc_transactions.PreparedTransactions, "roll_back", counted)
    with ExitStack() as stack:
        for subtask in range(after):
            stack.enter_context(restored(items, *taken, job=SECOND, parallelism=after, subtask=subtask))
        assert (written(items), items.prepared) == ([], [])
    assert sorted(rolled_back) == left


# --- started anew, under one prefix ---


def prefixed(prefix: str) -> JdbcExactlyOnceOptions:
    return JdbcExactlyOnceOptions.builder().with_transaction_id_prefix(prefix).build()


def test_a_job_started_without_a_checkpoint_finds_what_a_dead_job_with_its_prefix_has_left(
    keyed_items: Database,
) -> None:
    first = harness(keyed_items, options=prefixed("orders"))
    first.open()
    first.process_elements([1, 2])
    first.snapshot(1)
    killed(keyed_items, first)
    (gid,) = keyed_items.prepared
    assert gid.startswith(f"flint:orders:{'0' * 32}:{JOB}:0:")
    for other in (None, prefixed("order"), prefixed("orders2")):
        with harness(keyed_items, options=other, job=SECOND):
            assert keyed_items.prepared == [gid], "it is not theirs"
    with harness(keyed_items, options=prefixed("orders"), job=SECOND) as second:
        assert keyed_items.prepared == [], "nobody holds locks any more"
        second.process_elements([1, 2])
        second.snapshot(1)
        second.notify_checkpoint_complete(1)
    assert (written(keyed_items), keyed_items.prepared) == ([1, 2], [])


def test_a_job_with_the_same_prefix_that_is_still_connected_keeps_its_transactions(
    items: Database, waits: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    with harness(items, options=prefixed("orders")) as first:
        first.process_element(1)
        first.snapshot(1)
        with harness(items, options=prefixed("orders"), job=SECOND):
            (gid,) = items.prepared
            assert f"job {JOB}, from which" in caplog.text and gid in caplog.text
        first.notify_checkpoint_complete(1)
    assert (written(items), items.prepared) == ([1], [])


def test_a_restored_job_with_a_prefix_commits_what_its_checkpoint_knows(items: Database) -> None:
    with harness(items, options=prefixed("orders")) as first:
        first.process_element(1)
        taken = first.snapshot(1)
        first.process_element(2)
        first.snapshot(2)
    with restored(items, taken, options=prefixed("orders"), job=SECOND):
        assert (written(items), items.prepared) == ([1], [])


@pytest.mark.parametrize(("before", "after"), [(None, "orders"), ("orders", "shop"), ("orders", None)])
def test_transactions_are_found_although_the_prefix_has_changed(
    items: Database, before: str | None, after: str | None
) -> None:
    old, new = [None if prefix is None else prefixed(prefix) for prefix in (before, after)]
    with harness(items, options=old) as first:
        taken = first.snapshot(1)
        first.process_element(1)
        first.snapshot(2)
    with restored(items, taken, options=new, job=SECOND) as second:
        assert items.prepared == []
        later = second.snapshot(1)
        second.process_element(2)
        second.snapshot(2)
    items.run(
        f"BEGIN; INSERT INTO items VALUES (1); PREPARE TRANSACTION 'flint:{before or JOB}:{'0' * 32}:{JOB}:0:a:9'"
    )
    assert len(items.prepared) == 2
    with restored(items, later, options=new, job=THIRD):
        assert (written(items), items.prepared) == ([], [])


def test_a_transaction_that_was_rolled_back_by_another_job_is_missed(items: Database) -> None:
    """The first job is believed to be over, and is not: it must not go on as if its rows were there."""
    with harness(items) as first:
        older = first.snapshot(1)
        first.process_element(1)
        newer = first.snapshot(2)
    with restored(items, older, job=SECOND):
        assert items.prepared == []
    with pytest.raises(UserCodeError, match=r"of checkpoint 2 was rolled back, by hand or by another job") as caught:
        restored(items, newer).open()
    assert caught.value.fault.permanent, "no restart brings the rows back"
    assert written(items) == []


def test_whoever_waits_for_a_lock_in_vain_is_told_who_holds_it(items: Database) -> None:
    items.run("CREATE UNIQUE INDEX ON items (n)")
    items.run("BEGIN; INSERT INTO items VALUES (1); PREPARE TRANSACTION 'left by somebody'")
    items.run("CREATE TABLE others (n INT)")
    items.run("BEGIN; INSERT INTO others VALUES (1); PREPARE TRANSACTION 'of other tables'")
    url = f"{items.options.get_db_url()}?options=-clock_timeout%3D100ms"
    items.options = replace(items.options, _url=url)
    with pytest.raises(UserCodeError) as caught, harness(items) as sinking:
        sinking.process_elements([1, 2])
    told = str(caught.value)
    assert "canceling statement due to lock timeout" in told
    assert "Prepared transactions hold locks of the table: 'left by somebody', prepared at 20" in told
    assert "run ROLLBACK PREPARED with its name" in told
    assert "of other tables" not in told


def test_a_transaction_of_the_job_itself_is_told_as_such(items: Database) -> None:
    items.run("CREATE UNIQUE INDEX ON items (n)")
    url = f"{items.options.get_db_url()}?options=-clock_timeout%3D100ms"
    items.options = replace(items.options, _url=url)
    with pytest.raises(UserCodeError, match="so key_by its key before the sink"), harness(items) as sinking:
        sinking.process_element(1)
        sinking.snapshot(1)
        sinking.process_element(1)
        sinking.snapshot(2)


# --- a whole job, with a failure at each point ---


class Failure:
    """Fails the call with a number, before or after it is done. After that the connection is lost, or the process
    is dead: then every call fails until the job is restored."""

    def __init__(self, numbers: set[int], after: bool, deadly: bool) -> None:
        self.numbers, self.after, self.deadly = numbers, after, deadly
        self.calls = 0
        self.dead = False

    def call(self, function: Callable[..., Any], *arguments: Any, lose: Callable[[], None] = lambda: None) -> Any:
        self.calls += 1
        fails = self.calls in self.numbers
        if not (self.dead or (fails and not self.after)):
            result = function(*arguments)
            if not fails:
                return result
        self.dead = self.dead or self.deadly
        lose()
        raise psycopg.OperationalError(f"call {self.calls} fails")


class FailingConnection:
    """A connection whose calls may fail."""

    def __init__(self, connection: psycopg.Connection[Any], failure: Failure) -> None:
        self._connection = connection
        self._failure = failure

    def execute(self, *arguments: Any) -> Any:
        return self._failure.call(self._connection.execute, *arguments, lose=self._connection.close)

    def cursor(self) -> Any:
        cursor, call, lose = self._connection.cursor(), self._failure.call, self._connection.close
        return SimpleNamespace(
            executemany=lambda *arguments: call(cursor.executemany, *arguments, lose=lose),
            execute=lambda *arguments: call(cursor.execute, *arguments, lose=lose),
        )

    @property
    def closed(self) -> bool:
        return self._connection.closed

    def close(self) -> None:
        self._connection.close()


class Job:
    """A job of some subtasks that is restored from its last checkpoint after each failure."""

    def __init__(self, items: Database, epochs: list[list[int]], parallelisms: list[int], failure: Failure) -> None:
        self.items, self.epochs, self.failure = items, epochs, failure
        self.parallelisms = iter(parallelisms)
        self.restarts = 0
        self.complete = 0
        self.snapshots: list[Any] = []

    def run(self) -> None:
        while True:
            parallelism = next(self.parallelisms)
            try:
                with ExitStack() as stack:
                    self._attempt([stack.enter_context(self._subtask(parallelism, n)) for n in range(parallelism)])
                return
            except (UserCodeError, psycopg.OperationalError):
                self.failure.dead = False
                self.restarts += 1

    def _subtask(self, parallelism: int, subtask: int) -> OneInputOperatorHarness:
        sinking = harness(self.items, parallelism=parallelism, subtask=subtask)
        if self.snapshots:
            sinking.restore(*self.snapshots)
        return sinking

    def _attempt(self, subtasks: list[OneInputOperatorHarness]) -> None:
        for epoch in range(self.complete, len(self.epochs)):
            for number in self.epochs[epoch]:
                subtasks[number % len(subtasks)].process_element(number)
            # That the checkpoint before is complete is told late, while the next transaction is open.
            self._notify(subtasks, epoch)
            if epoch == len(self.epochs) - 1:
                for sinking in subtasks:
                    sinking.end_input()
            taken = [sinking.snapshot(epoch + 1) for sinking in subtasks]
            self.failure.call(self._complete, epoch + 1, pickle.dumps(taken))
        self._notify(subtasks, self.complete)

    def _complete(self, checkpoint_id: int, taken: bytes) -> None:
        self.complete, self.snapshots = checkpoint_id, pickle.loads(taken)

    def _notify(self, subtasks: list[OneInputOperatorHarness], checkpoint_id: int) -> None:
        for sinking in subtasks:
            sinking.notify_checkpoint_complete(checkpoint_id)


EPOCHS = [[1, 2, 3], [], [4, 5]]


@pytest.mark.parametrize("after", [False, True], ids=["before the call", "after the call"])
@pytest.mark.parametrize(
    ("deadly", "parallelisms", "again"),
    [(False, [1] * 9, None), (True, [1] * 9, None), (True, [1] * 9, 3), (True, [2, 1] * 9, None)],
    ids=["lost connection", "killed", "killed twice", "killed and rescaled"],
)
def test_each_row_is_there_once_wherever_the_job_fails(
    items: Database,
    waits: list[float],
    monkeypatch: pytest.MonkeyPatch,
    deadly: bool,
    parallelisms: list[int],
    again: int | None,
    after: bool,
) -> None:
    connect = PostgreSql.connect
    failures = 0
    for number in range(1, 200):
        failure = Failure({number} if again is None else {number, number + again}, after, deadly)

        def failing(self: PostgreSql, autocommit: bool = False, failure: Failure = failure) -> Any:
            return FailingConnection(connect(self, autocommit), failure)

        monkeypatch.setattr(PostgreSql, "connect", failing)
        items.run("TRUNCATE items")
        job = Job(items, EPOCHS, parallelisms, failure)
        job.run()
        assert (written(items), items.prepared) == ([1, 2, 3, 4, 5], []), f"call {number} fails"
        if failure.calls < number:
            break
        failures += job.restarts
    assert number > 15
    assert failures > 5


def test_a_commit_whose_answer_is_lost_is_no_failure(
    items: Database, waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    connect, failure = PostgreSql.connect, Failure(set(), after=True, deadly=False)
    monkeypatch.setattr(
        PostgreSql, "connect", lambda self, autocommit: FailingConnection(connect(self, autocommit), failure)
    )
    with harness(items) as sinking:
        sinking.process_element(1)
        sinking.snapshot(1)
        failure.numbers = {failure.calls + 1}
        sinking.notify_checkpoint_complete(1)
    assert (written(items), waits) == ([1], [0])


# --- the server fails ---


@pytest.mark.parametrize("crash", [False, True], ids=["stopped", "crashed"])
def test_a_server_that_starts_again_between_prepare_and_commit_has_lost_nothing(
    items: Database, postgres: PostgresServer, waits: list[float], crash: bool
) -> None:
    with harness(items) as sinking:
        sinking.process_elements([1, 2, 3])
        sinking.snapshot(1)
        postgres.restart(crash)
        items.reconnect()
        sinking.notify_checkpoint_complete(1)
        assert (written(items), waits) == ([1, 2, 3], [0])


def test_a_server_that_stays_away_fails_the_job_after_the_last_attempt(
    items: Database, postgres: PostgresServer, waits: list[float]
) -> None:
    options = JdbcExactlyOnceOptions.builder().with_max_commit_attempts(4).build()
    try:
        with pytest.raises(UserCodeError, match="Operator 'to the items'"), harness(items, options=options) as sinking:
            sinking.process_element(1)
            taken = sinking.snapshot(1)
            postgres.stop()
            sinking.notify_checkpoint_complete(1)
    finally:
        postgres.start()
        items.reconnect()
    assert waits == [0, 1, 2]
    with restored(items, taken):
        assert written(items) == [1]


def test_rows_of_a_lost_transaction_are_not_passed_over(items: Database) -> None:
    with harness(items) as sinking:
        sinking.process_elements([1, 2])
        assert items.disconnect_clients() == 2
        with pytest.raises(
            UserCodeError, match=f"(?s)Operator 'to the items'.*PostgreSQL at.*Statement: {INSERT[:12]}"
        ):
            sinking.snapshot(1)
        for further in (2, 3):
            with pytest.raises(UserCodeError, match="the transaction was lost, and its rows with it"):
                sinking.snapshot(further)
    assert (written(items), items.prepared) == ([], [])


def test_a_transaction_that_somebody_else_has_settled_is_an_error_once(items: Database) -> None:
    message = "prepared transaction with identifier .* does not exist"
    with pytest.raises(UserCodeError, match=message), harness(items) as sinking:
        sinking.process_element(1)
        taken = sinking.snapshot(1)
        items.run(f"COMMIT PREPARED '{items.prepared[0]}'")
        sinking.notify_checkpoint_complete(1)
    with restored(items, taken):
        assert written(items) == [1]


@pytest.mark.parametrize(("out_of_order", "expected"), [(False, []), (True, [2])])
def test_later_transactions_are_committed_without_an_earlier_one_if_allowed(
    items: Database, out_of_order: bool, expected: list[int]
) -> None:
    options = JdbcExactlyOnceOptions.builder().with_allow_out_of_order_commits(out_of_order).build()
    with pytest.raises(UserCodeError, match="does not exist"), harness(items, options=options) as sinking:
        sinking.process_element(1)
        sinking.snapshot(1)
        items.run(f"ROLLBACK PREPARED '{items.prepared[0]}'")
        sinking.process_element(2)
        sinking.snapshot(2)
        sinking.notify_checkpoint_complete(2)
    assert written(items) == expected


# --- errors ---


def test_the_row_that_is_refused_is_named_also_if_an_earlier_batch_is_in_its_way(items: Database) -> None:
    items.run("CREATE UNIQUE INDEX ON items (n)")
    with pytest.raises(UserCodeError) as failure, harness(items) as sinking:
        sinking.process_elements([1, 2, 3, 1])
    fault = failure.value.fault
    assert (fault.operator, fault.record) == ("to the items", "(1,)")
    assert "UniqueViolation" in fault.describe()
    assert f"Statement: {INSERT}" in fault.describe()


def test_a_row_that_is_refused_at_the_checkpoint_fails_the_job(items: Database) -> None:
    items.run("ALTER TABLE items ADD UNIQUE (n) DEFERRABLE INITIALLY DEFERRED")
    with pytest.raises(UserCodeError, match="UniqueViolation"), harness(items) as sinking:
        sinking.process_elements([1, 1])
        sinking.snapshot(1)
    assert items.prepared == []


@pytest.mark.parametrize("allowed", [0, 1])
def test_a_server_without_enough_prepared_transactions_is_refused(
    items: Database, postgres: PostgresServer, allowed: int
) -> None:
    postgres.restart(max_prepared_transactions=str(allowed))
    try:
        message = (
            f"each of its 2 subtasks, and max_prepared_transactions of the server is {allowed}: set it to 4 or more"
        )
        with pytest.raises(UserCodeError, match=message), harness(items, parallelism=2):
            pass
    finally:
        postgres.restart()
        items.reconnect()
