"""JdbcSource: parameters, options, values and errors, from SQLite files."""

from __future__ import annotations

import datetime
import pickle
import sqlite3
import threading
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import ENOUGH_SECONDS, wait_until

from flintstream.common import Instant, Row, Types, WatermarkStrategy
from flintstream.common.pickling import dumps
from flintstream.connectors.jdbc.databases import Sqlite
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.connectors.jdbc import (
    JdbcConnectionOptions,
    JdbcGenericParameterValuesProvider,
    JdbcNumericBetweenParametersProvider,
    JdbcParameterValuesProvider,
    JdbcSource,
    JdbcSourceBuilder,
)
from flintstream.runtime.source import SourceError
from flintstream.testing.local_job import LocalJob

PAIR = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
RANGE = "SELECT id, name FROM items WHERE id BETWEEN ? AND ? ORDER BY id"
LAST = 1000


class Reading:
    """The splits of a source, read without a job."""

    def __init__(self, source: JdbcSource, positions: dict[str, int] | None = None) -> None:
        source = pickle.loads(dumps(source))
        enumerator = source.create_enumerator(1)
        self.splits = list(enumerator.discover())
        assert enumerator.no_more_splits
        self.reader = source.create_source_reader(None)  # type: ignore[arg-type]
        self.records: list[Any] = []
        self.left = {split.split_id for split in self.splits}
        if positions is not None:
            self.left = set(positions)
        known = positions or {}
        self.reader.add_splits(
            [(split, known.get(split.split_id)) for split in self.splits if split.split_id in self.left]
        )

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, *_: Any) -> None:
        self.reader.close()

    def read(self, count: int, limit: int = 100) -> list[Any]:
        """Reads until there are so many records more, or all splits have ended."""
        wanted = len(self.records) + count
        deadline = time.monotonic() + ENOUGH_SECONDS
        while len(self.records) < wanted and self.left:
            assert time.monotonic() < deadline, f"record {wanted} did not come in time"
            for block in self.reader.poll(min(limit, wanted - len(self.records))):
                assert len(block.values) <= limit
                self.records += block.values
                self.left -= {block.split_id} if block.finished else set()
        return self.records[wanted - count :]


def read(source: JdbcSource) -> list[Any]:
    with Reading(source) as reading:
        return reading.read(1_000_000)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    shop = sqlite3.connect(tmp_path / "shop.db")
    shop.execute("CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT)")
    shop.executemany("INSERT INTO items VALUES (?, ?)", [(n, f"item {n}") for n in range(1, LAST + 1)])
    shop.commit()
    yield shop
    shop.close()


@pytest.fixture
def builder(shop: sqlite3.Connection, tmp_path: Path) -> JdbcSourceBuilder:
    return JdbcSource.builder().set_db_url(f"jdbc:sqlite:{tmp_path / 'shop.db'}").set_type_information(PAIR)


def ranges(batches: int, last: int = LAST) -> JdbcParameterValuesProvider:
    return JdbcNumericBetweenParametersProvider(1, last).of_batch_num(batches)


# --- parameters ---


@pytest.mark.parametrize(
    ("provider", "expected"),
    [
        (JdbcNumericBetweenParametersProvider(0, 9).of_batch_num(3), [(0, 3), (4, 6), (7, 9)]),
        (JdbcNumericBetweenParametersProvider(0, 9).of_batch_size(4), [(0, 3), (4, 6), (7, 9)]),
        (JdbcNumericBetweenParametersProvider(-5, 5).of_batch_size(100), [(-5, 5)]),
        (JdbcNumericBetweenParametersProvider(1, 2).of_batch_num(5), [(1, 1), (2, 2)]),
        (JdbcGenericParameterValuesProvider([["a"], ("b",)]), [["a"], ["b"]]),
    ],
)
def test_the_parameters_of_each_split(provider: JdbcParameterValuesProvider, expected: Any) -> None:
    assert provider.get_parameter_values() == expected


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: JdbcNumericBetweenParametersProvider(2, 1), "max_val must be at least min_val, got 2 and 1"),
        (lambda: JdbcNumericBetweenParametersProvider("1", 2), "min_val must be an integer, got '1'"),
        (lambda: JdbcNumericBetweenParametersProvider(1, 2).of_batch_num(0), "batch_num must be at least 1, got 0"),
        (lambda: JdbcNumericBetweenParametersProvider(1, 2).get_parameter_values(), r"call of_batch_size\(n\) or"),
        (lambda: JdbcSource.builder().set_db_url(""), "db_url must be a non-empty string, got ''"),
        (lambda: JdbcSource.builder().set_sql(None), "sql must be a string, got None"),
        (lambda: JdbcSource.builder().set_result_set_fetch_size(0), "fetch_size must be at least 1, got 0"),
        (lambda: JdbcSource.builder().set_query_timeout(0), "query_timeout must be at least 1, got 0"),
        (lambda: JdbcSource.builder().set_type_information("int"), "expected a TypeInformation, got 'int'"),
        (lambda: JdbcSource.builder().set_connection_options("x"), "expected JdbcConnectionOptions, got 'x'"),
        (lambda: JdbcSource.builder().set_jdbc_parameter_values_provider([]), "expected a JdbcParameterValuesProvider"),
        (lambda: JdbcSource.builder().build(), r"call set_db_url\(\.\.\.\) first"),
        (lambda: JdbcSource.builder().set_db_url("jdbc:sqlite:x").build(), r"call set_sql\(\.\.\.\) first"),
        (
            lambda: JdbcSource.builder().set_db_url("jdbc:oracle:x").set_sql("x").set_type_information(PAIR).build(),
            "expected one",
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused(build: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        build()


def test_a_password_is_not_shown_where_it_is_refused() -> None:
    with pytest.raises(TypeError, match="^JdbcSourceBuilder.set_password: expected a string, got a bytes$"):
        JdbcSource.builder().set_password(b"secret")  # type: ignore[arg-type]


def test_a_query_with_placeholders_needs_parameters(builder: JdbcSourceBuilder) -> None:
    with pytest.raises(ValueError, match=r"has 2 placeholders: call set_jdbc_parameter_values_provider"):
        builder.set_sql(RANGE).build()


def test_the_number_of_parameters_must_be_that_of_the_placeholders(builder: JdbcSourceBuilder) -> None:
    provider = JdbcGenericParameterValuesProvider([[1, 2], [3]])
    source = builder.set_sql(RANGE).set_jdbc_parameter_values_provider(provider).build()
    with pytest.raises(SourceError, match=r"(?s)has 2 placeholders, and 1 values were provided.*Parameters: \(3,\)"):
        read(source)


# --- reading ---


def test_a_query_without_parameters_is_one_split(builder: JdbcSourceBuilder) -> None:
    source = builder.set_sql("SELECT id, name FROM items ORDER BY id LIMIT 2").build()
    assert (source.bounded, source.produced_type) == (True, PAIR)
    assert read(source) == [Row(id=1, name="item 1"), Row(id=2, name="item 2")]


@pytest.mark.parametrize("fetch_size", [7, 100, 250, 4096])
def test_each_range_is_a_split(builder: JdbcSourceBuilder, fetch_size: int) -> None:
    source = builder.set_sql(RANGE).set_jdbc_parameter_values_provider(ranges(4)).set_result_set_fetch_size(fetch_size)
    with Reading(source.build()) as reading:
        assert [split.content for split in reading.splits] == [(1, 250), (251, 500), (501, 750), (751, 1000)]
        assert [row.id for row in reading.read(LAST)] == list(range(1, LAST + 1))
        reading.read(1)
        assert (reading.left, reading.reader.snapshot()) == (set(), {})


def test_a_provider_of_ones_own(builder: JdbcSourceBuilder) -> None:
    class Names(JdbcParameterValuesProvider):
        def get_parameter_values(self) -> Any:
            return (["item 3"], ["no such item"], ["item 5"])

    source = builder.set_sql("SELECT id FROM items WHERE name = ?").set_type_information(Types.LONG())
    assert read(source.set_jdbc_parameter_values_provider(Names()).build()) == [3, 5]


def test_options_of_a_sink_serve_a_source(builder: JdbcSourceBuilder, tmp_path: Path) -> None:
    url = f"jdbc:sqlite:{tmp_path / 'shop.db'}"
    options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(url).build()
    source = JdbcSource.builder().set_connection_options(options).set_type_information(Types.INT())
    assert read(source.set_sql("SELECT count(*) FROM items").build()) == [LAST]


@pytest.mark.parametrize("position", [0, 1, 99, 100, 101, 250])
def test_reading_goes_on_behind_a_position(builder: JdbcSourceBuilder, position: int) -> None:
    source = builder.set_sql(RANGE).set_jdbc_parameter_values_provider(ranges(4)).set_result_set_fetch_size(100).build()
    with Reading(source, {"1": position}) as reading:
        assert reading.reader.snapshot() == {"1": position}
        assert [row.id for row in reading.read(LAST)] == list(range(251 + position, 501))


def test_a_position_counts_the_records_that_were_returned_not_those_fetched(builder: JdbcSourceBuilder) -> None:
    with Reading(builder.set_sql("SELECT id, name FROM items ORDER BY id").build()) as reading:
        reading.read(17)
        assert reading.reader.snapshot() == {"0": 17}


def test_fewer_rows_than_were_read_before_are_an_error(builder: JdbcSourceBuilder) -> None:
    source = builder.set_sql("SELECT id, name FROM items ORDER BY id").build()
    message = "1001 rows were read before, and now the query returns only 1000: the data has changed"
    with Reading(source, {"0": 1001}) as reading, pytest.raises(SourceError, match=message):
        reading.read(1)


@pytest.mark.parametrize(("order", "warnings"), [("", 1), ("ORDER  BY id", 0)])
def test_rows_are_skipped_in_silence_only_if_they_are_ordered(
    builder: JdbcSourceBuilder, caplog: pytest.LogCaptureFixture, order: str, warnings: int
) -> None:
    with Reading(builder.set_sql(f"SELECT id, name FROM items {order}").build(), {"0": 1}) as reading:
        reading.read(1)
    assert sum("without ORDER BY" in record.message for record in caplog.records) == warnings


def test_the_watermark_alignment_of_the_source_is_heeded(builder: JdbcSourceBuilder) -> None:
    with Reading(builder.set_sql("SELECT id, name FROM items ORDER BY id").build()) as reading:
        reading.reader.align({"0": 3})
        wait_until(lambda: reading.reader.next_due() == 0.0)
        (block,) = reading.reader.poll(100)
        assert len(block.values) == 3
        reading.reader.align({})
        assert all(not block.values for block in reading.reader.poll(100))


def test_a_table_larger_than_memory_is_not_held_in_it(builder: JdbcSourceBuilder, shop: sqlite3.Connection) -> None:
    """The query is endless: a reader that took all rows first would never return one."""
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i, 'x' FROM n"
    with Reading(builder.set_sql(endless).build()) as reading:
        assert [row.id for row in reading.read(20_000)] == list(range(1, 20_001))


# --- values ---


def test_values_have_the_declared_types(builder: JdbcSourceBuilder, shop: sqlite3.Connection) -> None:
    values = {
        "5": (Types.INT(), 5),
        "5.0": (Types.LONG(), 5),
        "7": (Types.DOUBLE(), 7.0),
        "1": (Types.BOOLEAN(), True),
        "'1.50'": (Types.BIG_DEC(), Decimal("1.50")),
        "'text'": (Types.STRING(), "text"),
        "x'00ff'": (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\x00\xff"),
        "'2024-02-29'": (Types.SQL_DATE(), datetime.date(2024, 2, 29)),
        "'12:30:05'": (Types.SQL_TIME(), datetime.time(12, 30, 5)),
        "'2024-02-29 12:30:05'": (Types.SQL_TIMESTAMP(), datetime.datetime(2024, 2, 29, 12, 30, 5)),
        "'2024-02-29 12:30:05+02:00'": (Types.SQL_TIMESTAMP(), datetime.datetime(2024, 2, 29, 10, 30, 5)),
        "'1970-01-01 00:01:00.000005+00:00'": (Types.INSTANT(), Instant(60, 5000)),
        "'1969-12-31 23:59:59.500000'": (Types.INSTANT(), Instant(-1, 500_000_000)),
    }
    kind = Types.ROW([kind for kind, _ in values.values()])
    nulls = ", ".join(["NULL"] * len(values))
    source = builder.set_type_information(kind).set_sql(f"SELECT {', '.join(values)} UNION ALL SELECT {nulls}").build()
    row, empty = read(source)
    assert list(row) == [value for _, value in values.values()]
    assert [type(value) for value in row] == [type(value) for _, value in values.values()]
    assert set(empty) == {None}


@pytest.mark.parametrize(
    ("sql", "kind", "message"),
    [
        ("SELECT 1 AS id, 5 AS name", PAIR, r"column 'name' of row \(1, 5\): 5 \(int\) is not a value of .* String"),
        ("SELECT 1.5 AS id, 'x' AS name", PAIR, r"column 'id' of row \(1.5, 'x'\).*fraction would be lost"),
        ("SELECT 'soon' AS day", Types.SQL_DATE(), r"column 'day' of row \('soon',\): Invalid isoformat string"),
        ("SELECT NULL AS name", Types.STRING(), r"column 'name' of row \(None,\): None is not a value"),
        ("SELECT NULL AS n", Types.TUPLE([Types.INT()]), r"column 'n' of row \(None,\): None is not a value"),
        ("SELECT 1 AS id", PAIR, r"the query returns 1 columns \(id\), but the type .* has 2 fields"),
        ("SELECT * FROM nowhere", PAIR, "OperationalError: no such table: nowhere"),
    ],
)
def test_what_does_not_fit_is_named_with_its_query(
    builder: JdbcSourceBuilder, sql: str, kind: Any, message: str
) -> None:
    with pytest.raises(SourceError, match=f"(?s)^SQLite file .*{message}.*Query: {sql[:8]}"):
        read(builder.set_type_information(kind).set_sql(sql).build())


def test_an_error_names_the_parameters(builder: JdbcSourceBuilder) -> None:
    sql = "SELECT id, CASE id WHEN 700 THEN 5 ELSE name END FROM items WHERE id BETWEEN ? AND ? ORDER BY id"
    source = builder.set_sql(sql).set_jdbc_parameter_values_provider(ranges(4)).build()
    with Reading(source) as reading:
        with pytest.raises(SourceError, match=r"(?s)of row \(700, 5\): .*Parameters: \(501, 750\)"):
            reading.read(LAST)
        assert len(reading.records) == 500


# --- the database fails ---


def test_a_file_that_is_not_there_is_named_and_not_created(tmp_path: Path) -> None:
    source = JdbcSource.builder().set_db_url(f"jdbc:sqlite:{tmp_path / 'none.db'}").set_sql("SELECT 1")
    with pytest.raises(SourceError, match=r"SQLite file .*none\.db: OperationalError: unable to open"):
        read(source.set_type_information(Types.INT()).build())
    assert not (tmp_path / "none.db").exists()


def test_a_lost_connection_is_made_again_and_no_row_is_missed_or_doubled(
    builder: JdbcSourceBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the first rows, in the middle of a split, and while rows are skipped."""
    fetches = 0

    class Failing:
        def __init__(self, cursor: sqlite3.Cursor) -> None:
            self.cursor = cursor

        def __getattr__(self, name: str) -> Any:
            return getattr(self.cursor, name)

        def fetchmany(self, size: int) -> list[Any]:
            nonlocal fetches
            fetches += 1
            rows = self.cursor.fetchmany(size)
            if fetches in (1, 3, 8):
                raise sqlite3.OperationalError("database is locked")
            return rows

    monkeypatch.setattr(Sqlite, "open_cursor", lambda self, connection: Failing(connection.cursor()))
    source = builder.set_sql(RANGE).set_jdbc_parameter_values_provider(ranges(2)).set_result_set_fetch_size(200)
    assert [row.id for row in read(source.build())] == list(range(1, LAST + 1))
    assert fetches > 8


def test_a_query_that_takes_too_long_is_an_error_and_ends_with_the_reader(
    builder: JdbcSourceBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i, 'x' FROM n WHERE i < 0"
    with Reading(builder.set_sql(hangs).set_query_timeout(1).build()) as reading:
        with pytest.raises(SourceError, match=r"no answer within 1 s \(JdbcSourceBuilder.set_query_timeout\)"):
            reading.read(1)
        threads = [thread for thread in threading.enumerate() if thread.name == "JDBC fetcher"]
        assert threads
    wait_until(lambda: not any(thread.is_alive() for thread in threads), what="the end of the fetcher")


# --- whole jobs ---


def test_a_job_reads_all_ranges_in_parallel(builder: JdbcSourceBuilder) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    source = builder.set_sql(RANGE).set_jdbc_parameter_values_provider(ranges(7)).build()
    env.from_source(source, WatermarkStrategy.no_watermarks(), "items").map(lambda row: row.id).print()
    printed = LocalJob(env.generate_stream_graph(), records_per_epoch=100).run(60.0).printed
    assert sorted(int(line.rpartition(" ")[2]) for line in printed) == list(range(1, LAST + 1))
