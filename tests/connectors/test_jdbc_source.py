"""JdbcSource on real servers: values, streaming, lost connections; and a program on Spark that fails on the way."""

from __future__ import annotations

import datetime
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.unit.connectors.test_jdbc_source import Reading, read
from tests.waiting import wait_until

from flintstream.common import Instant, RestartStrategies, Row, Types, WatermarkStrategy
from flintstream.datastream import MapFunction, StreamExecutionEnvironment
from flintstream.datastream.connectors.jdbc import (
    JdbcGenericParameterValuesProvider,
    JdbcNumericBetweenParametersProvider,
    JdbcSource,
    JdbcSourceBuilder,
)
from flintstream.runtime.source import SourceError

from .databases import Database, Shop
from .postgres import PostgresServer

pytestmark = pytest.mark.timeout(900)  # The server may have to be downloaded first.

RANGE = "SELECT n FROM numbers WHERE n BETWEEN ? AND ? ORDER BY n"
LAST = 20_000


@pytest.fixture(params=["PostgreSQL", "MariaDB"])
def numbers(request: pytest.FixtureRequest) -> Database | Shop:
    """A database with a table of numbers."""
    if request.param == "PostgreSQL":
        database: Any = request.getfixturevalue("database")
        series = f"generate_series(1, {LAST}) AS n"
    else:
        database = request.getfixturevalue("shop")
        series = f"(SELECT seq AS n FROM seq_1_to_{LAST}) AS n"
    database.run("CREATE TABLE numbers (n BIGINT PRIMARY KEY)")
    database.run(f"INSERT INTO numbers SELECT n FROM {series}")
    return database


def builder(database: Database | Shop) -> JdbcSourceBuilder:
    return JdbcSource.builder().set_connection_options(database.options).set_type_information(Types.LONG())


def ranges(batches: int) -> JdbcNumericBetweenParametersProvider:
    return JdbcNumericBetweenParametersProvider(1, LAST).of_batch_num(batches)


@pytest.mark.parametrize("auto_commit", [False, True])
def test_all_ranges_are_read(numbers: Database | Shop, auto_commit: bool) -> None:
    source = builder(numbers).set_sql(RANGE).set_jdbc_parameter_values_provider(ranges(5)).set_auto_commit(auto_commit)
    assert read(source.set_result_set_fetch_size(1500).build()) == list(range(1, LAST + 1))


def test_reading_goes_on_behind_a_position(numbers: Database | Shop) -> None:
    source = builder(numbers).set_sql(RANGE).set_jdbc_parameter_values_provider(ranges(2)).build()
    with Reading(source, {"1": 5000}) as reading:
        assert reading.read(LAST) == list(range(15_001, LAST + 1))


def test_connections_that_are_lost_while_rows_are_read_are_made_again(
    numbers: Database | Shop, caplog: pytest.LogCaptureFixture
) -> None:
    """The rows are so long that the buffers of a connection do not hold many."""
    sql = "SELECT n, repeat('x', 2000) FROM numbers WHERE n BETWEEN ? AND ? ORDER BY n"
    source = builder(numbers).set_sql(sql).set_type_information(Types.ROW([Types.LONG(), Types.STRING()]))
    source.set_jdbc_parameter_values_provider(ranges(2)).set_result_set_fetch_size(50)
    with Reading(source.build()) as reading:
        for _ in range(3):
            reading.read(3000)
            while numbers.disconnect_clients() == 0:  # The rows that a lost connection had received are read first.
                assert reading.read(100)
        reading.read(LAST)
        assert [row[0] for row in reading.records] == list(range(1, LAST + 1))
    assert sum("with a new connection" in record.message for record in caplog.records) >= 3


def test_percent_signs_and_quoted_marks_stay_as_they_are(numbers: Database | Shop) -> None:
    sql = "SELECT concat(n, ' is 5% of what?') FROM numbers WHERE n % 7 = ? AND n < 10 ORDER BY n -- why?"
    source = builder(numbers).set_sql(sql).set_type_information(Types.STRING())
    source.set_jdbc_parameter_values_provider(JdbcGenericParameterValuesProvider([[2]]))
    assert read(source.build()) == ["2 is 5% of what?", "9 is 5% of what?"]


def test_a_reader_that_is_closed_ends_its_query_on_the_server(numbers: Database | Shop) -> None:
    if isinstance(numbers, Database):
        condition = "pg_sleep(200) IS NULL"
        running = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'FETCH FORWARD%' AND state = 'active'"
    else:
        condition = "sleep(200) < 0"
        running = "SELECT 1 FROM information_schema.processlist WHERE info LIKE '%sleep(2%' AND id != CONNECTION_ID()"
    source = builder(numbers).set_sql(f"SELECT n FROM numbers WHERE {condition}")
    with Reading(source.build()) as reading:
        wait_until(lambda: reading.reader.poll(1) == [] and numbers.run(running), what="the query on the server")
    wait_until(lambda: not numbers.run(running), what="its end")


def test_a_query_that_the_server_refuses_is_named(numbers: Database | Shop) -> None:
    with pytest.raises(
        SourceError, match=r"(?s)(PostgreSQL|MySQL) at 127.0.0.1:\d+/.*nowhere.*Query: SELECT n FROM now"
    ):
        read(builder(numbers).set_sql("SELECT n FROM nowhere").build())


def test_values_of_postgresql(database: Database) -> None:
    columns = {
        "'it''s'::text": (Types.STRING(), "it's"),
        "5::numeric": (Types.LONG(), 5),
        "1.50::numeric(5, 2)": (Types.BIG_DEC(), Decimal("1.50")),
        "true": (Types.BOOLEAN(), True),
        "'2024-02-29'::date": (Types.SQL_DATE(), datetime.date(2024, 2, 29)),
        "'12:30:05'::time": (Types.SQL_TIME(), datetime.time(12, 30, 5)),
        "'2024-02-29 12:30:05+02'::timestamptz": (Types.SQL_TIMESTAMP(), datetime.datetime(2024, 2, 29, 10, 30, 5)),
        "'1970-01-01 02:01:00+02'::timestamptz": (Types.INSTANT(), Instant(60, 0)),
        "'\\x00ff'::bytea": (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\x00\xff"),
        "ARRAY[1, 2]": (Types.LIST(Types.INT()), [1, 2]),
        "'{\"a\": [1]}'::jsonb": (Types.STRING(), '{"a": [1]}'),
        "'6ba7b810-9dad-11d1-80b4-00c04fd430c8'::uuid": (Types.STRING(), "6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
    }
    check_values(database, columns)


def test_values_of_mariadb(shop: Shop) -> None:
    columns = {
        "'it''s'": (Types.STRING(), "it's"),
        "5": (Types.INT(), 5),
        "CAST(1.50 AS DECIMAL(5, 2))": (Types.BIG_DEC(), Decimal("1.50")),
        "1 = 1": (Types.BOOLEAN(), True),
        "CAST('2024-02-29' AS DATE)": (Types.SQL_DATE(), datetime.date(2024, 2, 29)),
        "CAST('12:30:05' AS TIME)": (Types.SQL_TIME(), datetime.time(12, 30, 5)),
        "CAST('2024-02-29 12:30:05' AS DATETIME)": (Types.SQL_TIMESTAMP(), datetime.datetime(2024, 2, 29, 12, 30, 5)),
        "CAST('1970-01-01 00:01:00' AS DATETIME)": (Types.INSTANT(), Instant(60, 0)),
        "x'00ff'": (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\x00\xff"),
    }
    check_values(shop, columns)


def check_values(database: Database | Shop, columns: dict[str, tuple[Any, Any]]) -> None:
    """Each column has its value, and then NULL."""
    nulls = ", ".join(["NULL"] * len(columns))
    source = builder(database).set_sql(f"SELECT {', '.join(columns)} UNION ALL SELECT {nulls}")
    row, empty = read(source.set_type_information(Types.ROW([kind for kind, _ in columns.values()])).build())
    assert list(row) == [value for _, value in columns.values()]
    assert set(empty) == {None}


def test_a_wrong_password_is_refused_at_the_start(database: Database) -> None:
    with pytest.raises(SourceError, match=r"PostgreSQL at .*password authentication failed"):
        read(builder(database).set_password("wrong").set_sql("SELECT 1").build())


def test_a_server_that_starts_again_is_waited_for(database: Database, postgres: PostgresServer) -> None:
    database.run("CREATE TABLE numbers (n INT)")
    database.run(f"INSERT INTO numbers SELECT generate_series(1, {LAST})")
    source = builder(database).set_sql("SELECT n FROM numbers ORDER BY n").set_result_set_fetch_size(100)
    with Reading(source.build()) as reading:
        reading.read(1000)
        postgres.restart(crash=True)
        database.reconnect()
        reading.read(LAST)
        assert reading.records == list(range(1, LAST + 1))


class Trip(MapFunction):
    """Fails once, when much has been read and a checkpoint is complete."""

    def __init__(self, directory: Path) -> None:
        self.mark = directory / "tripped"

    def map(self, value: Row) -> int:
        time.sleep(0.0003)
        if value.n == 2500 and not self.mark.exists():
            self.mark.touch()
            raise ValueError("tripped")
        return int(value.n)


def test_a_failed_job_reads_on_behind_its_checkpoint(
    env: StreamExecutionEnvironment, database: Database, tmp_path: Path
) -> None:
    database.run("CREATE TABLE numbers (n INT)")
    database.run("INSERT INTO numbers SELECT generate_series(1, 4000)")
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(1, 0))
    env.enable_checkpointing(100)
    source = builder(database).set_sql(RANGE).set_type_information(Types.ROW_NAMED(["n"], [Types.INT()]))
    source.set_jdbc_parameter_values_provider(JdbcNumericBetweenParametersProvider(1, 4000).of_batch_size(1500))
    rows = env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "numbers")
    with rows.map(Trip(tmp_path), Types.INT()).execute_and_collect() as results:
        assert sorted(results) == list(range(1, 4001))
    assert (tmp_path / "tripped").exists()
