"""JdbcSink on a real PostgreSQL server: values, upserts, lost connections, the rows at fault."""

from __future__ import annotations

import datetime
import pickle
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from flintstream.common import Instant, Types
from flintstream.connectors.jdbc import operators as jdbc_operators
from flintstream.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcExecutionOptions, JdbcSink
from flintstream.runtime.faults import UserCodeError
from flintstream.testing import OneInputOperatorHarness

from .databases import Database
from .postgres import PASSWORD, USER, PostgresServer

pytestmark = pytest.mark.timeout(900)  # The server may have to be downloaded first.

PAIR = Types.ROW([Types.STRING(), Types.INT()])
INSERT = "INSERT INTO counts (word, n) VALUES (?, ?)"
UPSERT = f"{INSERT} ON CONFLICT (word) DO UPDATE SET n = excluded.n"


@pytest.fixture
def shop(database: Database) -> Database:
    database.run("CREATE TABLE counts (word TEXT PRIMARY KEY, n INT CHECK (n >= 0))")
    return database


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits between retries, which take no time."""
    waits: list[float] = []
    monkeypatch.setattr(jdbc_operators, "time", SimpleNamespace(sleep=waits.append))
    return waits


def sinking(database: Database, sql: str, type_info: Any = PAIR, size: int = 5000) -> OneInputOperatorHarness:
    execution = JdbcExecutionOptions.builder().with_batch_size(size).build()
    sink = JdbcSink.sink(sql, type_info, database.options, execution)
    return OneInputOperatorHarness(pickle.loads(pickle.dumps(sink.create_operator(None))), name="to the shop")


def counts(database: Database) -> list[tuple[Any, ...]]:
    return database.run("SELECT word, n FROM counts ORDER BY word")


def test_an_upsert_keeps_the_last_value_of_each_key(shop: Database) -> None:
    with sinking(shop, UPSERT, size=3) as harness:
        harness.process_elements([("a", 1), ("b", 1), ("a", 2), ("a", 3)])
        harness.end_input()
    assert counts(shop) == [("a", 3), ("b", 1)]


def test_values_of_all_types_arrive_as_they_are(database: Database) -> None:
    columns = {
        "text": (Types.STRING(), "it's 100%: ?"),
        "boolean": (Types.BOOLEAN(), True),
        "smallint": (Types.SHORT(), -7),
        "bigint": (Types.LONG(), 2**62),
        "double precision": (Types.DOUBLE(), 0.1),
        "numeric": (Types.BIG_DEC(), Decimal("1.50")),
        "date": (Types.SQL_DATE(), datetime.date(2024, 2, 29)),
        "time": (Types.SQL_TIME(), datetime.time(12, 30)),
        "timestamp": (Types.SQL_TIMESTAMP(), datetime.datetime(2024, 2, 29, 12, 30, 5, 1000)),
        "timestamptz": (Types.INSTANT(), Instant(60, 5000)),
        "bytea": (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\x00\xff"),
        "int[]": (Types.BASIC_ARRAY(Types.INT()), [1, 2]),
        "jsonb": (Types.STRING(), '{"a": 1}'),
    }
    database.run(f"CREATE TABLE kinds ({', '.join(f'c{index} {kind}' for index, kind in enumerate(columns))})")
    marks = ", ".join("?" * len(columns))
    values = [value for _, value in columns.values()]
    types = Types.ROW([kind for kind, _ in columns.values()])
    with sinking(database, f"INSERT INTO kinds VALUES ({marks})", types) as harness:
        harness.process_elements([tuple(values), (None,) * len(columns)])
        harness.end_input()
    (row, empty) = database.run("SELECT * FROM kinds")
    values[9] = datetime.datetime(1970, 1, 1, 0, 1, 0, 5, datetime.timezone.utc)
    values[12] = {"a": 1}
    assert list(row) == values
    assert set(empty) == {None}


def test_a_statement_may_hold_quoted_marks_and_operators_with_a_question_mark(database: Database) -> None:
    database.run("CREATE TABLE tags (name TEXT, labels JSONB, rest INT)")
    sql = """INSERT INTO tags -- why?
        SELECT 'what?' || v, '{"a": 1}', 7 % 4 FROM (SELECT ?::text AS v) AS given
        WHERE '{"a": 1}'::jsonb ?? 'a' /* ? /* ? */ */"""
    with sinking(database, sql, Types.STRING()) as harness:
        harness.process_element("!")
        harness.end_input()
    assert database.run("SELECT * FROM tags") == [("what?!", {"a": 1}, 3)]


def test_the_row_that_is_refused_is_named_and_none_of_its_batch_is_written(shop: Database) -> None:
    with pytest.raises(UserCodeError) as failure, sinking(shop, INSERT) as harness:
        harness.process_elements([("a", 1), ("b", 2), ("a", 3), ("c", 4)])
        harness.end_input()
    fault = failure.value.fault
    assert (fault.operator, fault.record) == ("to the shop", "('a', 3)")
    assert "UniqueViolation: duplicate key value" in fault.describe()
    assert f"Statement: {INSERT}" in fault.describe()
    assert PASSWORD not in fault.describe()
    assert counts(shop) == []


def test_a_lost_connection_is_made_again(shop: Database, waits: list[float]) -> None:
    with sinking(shop, UPSERT) as harness:
        harness.process_elements([("a", 1)])
        harness.snapshot(1)
        assert shop.disconnect_clients() == 1
        harness.process_elements([("a", 2), ("b", 1)])
        harness.snapshot(2)
    assert (counts(shop), waits) == ([("a", 2), ("b", 1)], [0])


def test_rows_wait_for_a_server_that_starts_again(
    shop: Database, postgres: PostgresServer, waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    with sinking(shop, UPSERT) as harness:
        harness.process_elements([("a", 1)])
        postgres.stop()

        def wait(seconds: float) -> None:
            waits.append(seconds)
            if seconds == 1:
                postgres.start()
                shop.reconnect()

        monkeypatch.setattr(jdbc_operators, "time", SimpleNamespace(sleep=wait))
        harness.end_input()
    assert (counts(shop), waits) == ([("a", 1)], [0, 1])


def test_a_server_that_stays_away_fails_the_job(shop: Database, postgres: PostgresServer, waits: list[float]) -> None:
    try:
        with (
            pytest.raises(UserCodeError, match=rf"Operator 'to the shop'.*PostgreSQL at 127.0.0.1:{postgres.port}/"),
            sinking(shop, UPSERT) as harness,
        ):
            harness.process_elements([("a", 1)])
            postgres.stop()
            harness.end_input()
    finally:
        postgres.start()
        shop.reconnect()
    assert (counts(shop), waits) == ([], [0, 1, 2])


def test_a_wrong_password_is_refused_when_the_job_starts(shop: Database) -> None:
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(shop.options.get_db_url())
    options = builder.with_user_name(USER).with_password("another").build()
    with pytest.raises(UserCodeError, match="password authentication failed") as failure:
        operator = JdbcSink.sink(INSERT, PAIR, options).create_operator(None)
        OneInputOperatorHarness(operator, name="to the shop").open()
    assert "another" not in failure.value.fault.describe()


def test_the_schema_of_a_url_is_that_of_the_statement(shop: Database) -> None:
    shop.run("CREATE SCHEMA other")
    shop.run("CREATE TABLE other.counts (word TEXT, n INT)")
    url = f"{shop.options.get_db_url()}?user={USER}&currentSchema=other&ApplicationName=flintstream"
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(url).with_password(PASSWORD)
    operator = JdbcSink.sink(INSERT, PAIR, builder.build()).create_operator(None)
    with OneInputOperatorHarness(operator) as harness:
        harness.process_element(("a", 1))
        harness.end_input()
    assert (shop.run("SELECT * FROM other.counts"), counts(shop)) == ([("a", 1)], [])
