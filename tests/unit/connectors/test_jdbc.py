"""JdbcSink: statements, URLs, options, and writing at least once, to SQLite files."""

from __future__ import annotations

import datetime
import pickle
import sqlite3
import sys
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flintstream.common import Instant, Row, Types
from flintstream.connectors.jdbc import operators as jdbc_operators
from flintstream.connectors.jdbc.databases import MySql, PostgreSql, database_of
from flintstream.connectors.jdbc.operators import JdbcSinkOperator
from flintstream.connectors.jdbc.sql import MYSQL, POSTGRESQL, SQLITE
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.connectors.jdbc import (
    JdbcConnectionOptions,
    JdbcExactlyOnceOptions,
    JdbcExecutionOptions,
    JdbcSink,
)
from flintstream.runtime.faults import UserCodeError
from flintstream.testing import OneInputOperatorHarness

PAIR = Types.ROW([Types.STRING(), Types.INT()])
INSERT = "INSERT INTO counts (word, n) VALUES (?, ?)"
UPSERT = f"{INSERT} ON CONFLICT (word) DO UPDATE SET n = excluded.n"


def connection(url: str, **credentials: str) -> JdbcConnectionOptions:
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(url)
    if "user" in credentials:
        builder.with_user_name(credentials["user"])
    if "password" in credentials:
        builder.with_password(credentials["password"])
    return builder.build()


def execution(size: int = 5000, interval: int = 0, retries: int = 3) -> JdbcExecutionOptions:
    builder = JdbcExecutionOptions.builder().with_batch_size(size).with_batch_interval_ms(interval)
    return builder.with_max_retries(retries).build()


class Shop:
    """A SQLite file with a table of counts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.options = connection(f"jdbc:sqlite:{path}")
        self.run("CREATE TABLE counts (word TEXT PRIMARY KEY, n INTEGER CHECK (n >= 0))")

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        with sqlite3.connect(self.path) as database:
            return database.execute(sql).fetchall()

    @property
    def counts(self) -> list[tuple[Any, ...]]:
        return self.run("SELECT word, n FROM counts ORDER BY word")

    def sink(self, sql: str = INSERT, type_info: Any = PAIR, **options: int) -> JdbcSink:
        return JdbcSink.sink(sql, type_info, self.options, execution(**options))


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path / "shop.db")


def harness(sink: JdbcSink, **options: Any) -> OneInputOperatorHarness:
    operator = pickle.loads(pickle.dumps(sink.create_operator(None)))
    return OneInputOperatorHarness(operator, name="to the shop", **options)


# --- statements ---


@pytest.mark.parametrize(
    ("sql", "translated", "values"),
    [
        ("INSERT INTO t VALUES (?, ?)", "INSERT INTO t VALUES (%s, %s)", 2),
        ("INSERT INTO t VALUES ('?', 'it''s ?', ?)", "INSERT INTO t VALUES ('?', 'it''s ?', %s)", 1),
        (r"INSERT INTO t VALUES (E'\'?', ?)", r"INSERT INTO t VALUES (E'\'?', %s)", 1),
        (r"INSERT INTO t VALUES ('\', ?, '?')", r"INSERT INTO t VALUES ('\', %s, '?')", 1),
        (r"INSERT INTO t VALUES (type'\', ?, '?')", r"INSERT INTO t VALUES (type'\', %s, '?')", 1),
        ('INSERT INTO "what?""?" VALUES (?)', 'INSERT INTO "what?""?" VALUES (%s)', 1),
        ("INSERT INTO t -- why?\nVALUES (?)", "INSERT INTO t -- why?\nVALUES (%s)", 1),
        ("INSERT /* ? /* ? */ ? */ INTO t VALUES (?)", "INSERT /* ? /* ? */ ? */ INTO t VALUES (%s)", 1),
        ("SELECT $$ ? $$, $a$ ? $$ ? $a$, ?", "SELECT $$ ? $$, $a$ ? $$ ? $a$, %s", 1),
        ("UPDATE t SET a = ? WHERE b ?? 'x'", "UPDATE t SET a = %s WHERE b ? 'x'", 1),
        ("UPDATE t SET a = a % ? WHERE b LIKE '%?'", "UPDATE t SET a = a %% %s WHERE b LIKE '%%?'", 1),
    ],
)
def test_question_marks_of_postgresql_become_those_of_the_driver(sql: str, translated: str, values: int) -> None:
    assert POSTGRESQL.translate(sql) == (translated, values)


@pytest.mark.parametrize(
    ("sql", "translated", "values"),
    [
        (r"INSERT INTO t VALUES ('\'?', ?)", r"INSERT INTO t VALUES ('\'?', %s)", 1),
        ('INSERT INTO `a?` VALUES ("?", ?)', 'INSERT INTO `a?` VALUES ("?", %s)', 1),
        ("INSERT INTO t # ?\nVALUES (?, 1--?)", "INSERT INTO t # ?\nVALUES (%s, 1--%s)", 2),
        ("INSERT /* /* ? */ INTO t VALUES (?) -- ?", "INSERT /* /* ? */ INTO t VALUES (%s) -- ?", 1),
    ],
)
def test_question_marks_of_mysql_become_those_of_the_driver(sql: str, translated: str, values: int) -> None:
    assert MYSQL.translate(sql) == (translated, values)


def test_statements_of_sqlite_stay_as_they_are() -> None:
    sql = "INSERT INTO [a?] VALUES ('?', '100%', ?) -- ?"
    assert SQLITE.translate(sql) == (sql, 1)


@pytest.mark.parametrize(("sql", "opened"), [("SELECT 'a", "' at 7"), ("SELECT /* /* */ ?", r"/\* at 7")])
def test_a_statement_with_something_left_open_is_refused(sql: str, opened: str) -> None:
    with pytest.raises(ValueError, match=f"has a {opened} that is not closed"):
        POSTGRESQL.translate(sql)


# --- URLs ---


def server_of(url: str, **credentials: str) -> Any:
    found = database_of(connection(url, **credentials))
    assert isinstance(found, (PostgreSql, MySql))
    return found.server


@pytest.mark.parametrize(
    ("url", "hosts", "database"),
    [
        ("jdbc:postgresql://db.example:6000/shop", [("db.example", 6000)], "shop"),
        ("jdbc:postgresql://db.example/", [("db.example", 5432)], ""),
        ("jdbc:postgresql:shop", [("localhost", 5432)], "shop"),
        ("jdbc:postgresql:/", [("localhost", 5432)], ""),
        ("jdbc:postgresql://[::1]:6000/my%20shop", [("::1", 6000)], "my shop"),
        ("jdbc:postgresql://[::1]/shop", [("::1", 5432)], "shop"),
        ("jdbc:postgresql://one:1,two/shop", [("one", 1), ("two", 5432)], "shop"),
        ("jdbc:mysql://db.example/shop", [("db.example", 3306)], "shop"),
        ("jdbc:mariadb://db.example:1/shop", [("db.example", 1)], "shop"),
    ],
)
def test_urls_are_read_as_the_java_drivers_read_them(url: str, hosts: Any, database: str) -> None:
    server = server_of(url)
    assert (list(server.hosts), server.database) == (hosts, database)


def test_parameters_of_a_url_go_to_the_driver_and_options_come_before_them() -> None:
    url = "jdbc:postgresql://h/shop?user=a&password=b&ssl=true&currentSchema=s&connectTimeout=3&reWriteBatchedInserts=true"
    server = server_of(url, password="c")
    assert (server.user, server.password) == ("a", "c")
    assert server.parameters == {"sslmode": "verify-full", "options": "-csearch_path=s", "connect_timeout": 3}
    assert server_of("jdbc:mysql://h/shop?connectTimeout=3000").parameters == {"connect_timeout": 3}


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql://h/shop", "'postgresql://h/shop': expected one that starts with jdbc:postgresql:"),
        ("jdbc:oracle:thin:@h", "'jdbc:oracle:thin:@h': expected one that starts with"),
        ("jdbc:postgresql://h:x/shop", "the port must be a number, got 'x'"),
        (
            "jdbc:postgresql://h/shop?password=p&color=red",
            "shop': parameter 'color' is not supported; supported are App",
        ),
        ("jdbc:postgresql://h/shop?connectTimeout=soon", "parameter connectTimeout must be a number, got 'soon'"),
        ("jdbc:mysql://one,two/shop", "expected one host"),
        ("jdbc:sqlite:", "name a file"),
        ("jdbc:sqlite::memory:", "would be lost with its slot: name a file"),
        ("jdbc:sqlite:a.db?cache=shared", "parameters of SQLite are not supported"),
    ],
)
def test_a_url_that_cannot_work_is_refused(url: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        JdbcSink.sink(INSERT, PAIR, connection(url))


def test_a_sqlite_path_is_that_of_the_driver_program(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shop.path.parent)
    sink = JdbcSink.sink(INSERT, PAIR, connection("jdbc:sqlite:shop.db"))
    monkeypatch.chdir("/")
    with harness(sink) as sinking:
        sinking.process_element(("a", 1))
        sinking.end_input()
    assert shop.counts == [("a", 1)]


@pytest.mark.parametrize(("scheme", "package"), [("postgresql", "psycopg"), ("mysql", "pymysql")])
def test_a_missing_driver_is_named_with_what_to_install(
    scheme: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"package {package}.*pip install 'flintstream\[{scheme}\]'"):
        JdbcSink.sink(INSERT, PAIR, connection(f"jdbc:{scheme}://h/shop"))


# --- options ---


def test_options_give_back_what_they_were_told() -> None:
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_driver_name("org.postgresql.Driver")
    options = builder.with_url("jdbc:postgresql:shop?password=p").with_user_name("u").with_password("secret").build()
    assert options.get_db_url() == "jdbc:postgresql:shop?password=p"
    assert options.get_driver_name() == "org.postgresql.Driver"
    assert (options.get_user_name(), options.get_password()) == ("u", "secret")
    assert repr(options) == "JdbcConnectionOptions('jdbc:postgresql:shop', user='u')"
    defaults = JdbcExecutionOptions.defaults()
    assert (defaults.get_batch_interval_ms(), defaults.get_batch_size(), defaults.get_max_retries()) == (0, 5000, 3)
    chosen = execution(10, 20, 0)
    assert (chosen.get_batch_size(), chosen.get_batch_interval_ms(), chosen.get_max_retries()) == (10, 20, 0)


def test_a_password_is_not_shown(tmp_path: Path) -> None:
    options = connection("jdbc:postgresql://h/shop?password=secret1", password="secret2")
    assert "secret" not in repr(options) + repr(database_of(options)) + str(database_of(options))
    with pytest.raises(TypeError, match="got a bytes"):
        connection("jdbc:postgresql:shop", password=b"secret")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: JdbcConnectionOptions.JdbcConnectionOptionsBuilder().build(), "the URL is missing"),
        (lambda: execution(size=-1), "with_batch_size: size must be at least 0, got -1"),
        (lambda: execution(interval=-1), "with_batch_interval_ms: interval_ms must be at least 0, got -1"),
        (lambda: execution(retries=-1), "with_max_retries: max_retries must be at least 0, got -1"),
        (lambda: JdbcExactlyOnceOptions.builder().with_max_commit_attempts(0), "attempts must be at least 1, got 0"),
        (lambda: JdbcExactlyOnceOptions.builder().with_transaction_id_prefix("a:b"), "'-' and '.', got 'a:b'"),
        (lambda: JdbcExactlyOnceOptions.builder().with_transaction_id_prefix("a" * 65), "must be 1 to 64 letters"),
    ],
)
def test_options_that_make_no_sense_are_refused(build: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


def test_a_time_out_of_transactions_is_refused_with_the_reason() -> None:
    JdbcExactlyOnceOptions.builder().with_transaction_per_connection(True).with_timeout_sec(None).build()
    with pytest.raises(NotImplementedError, match=r"with_timeout_sec\(5\): PostgreSQL has no timeout"):
        JdbcExactlyOnceOptions.builder().with_timeout_sec(5)


def test_exactly_once_is_for_postgresql_and_without_retries(shop: Shop) -> None:
    with pytest.raises(NotImplementedError, match="PostgreSQL only, not SQLite file .*shop.db"):
        JdbcSink.exactly_once_sink(INSERT, PAIR, shop.options)
    with pytest.raises(ValueError, match="max_retries must be 0, got 3"):
        defaults = JdbcExecutionOptions.defaults()
        JdbcSink.exactly_once_sink(INSERT, PAIR, connection("jdbc:postgresql:shop"), defaults)


# --- types ---


@pytest.mark.parametrize(
    ("type_info", "message"),
    [
        (Types.ROW([Types.STRING()]), r"VALUES \(\?, \?\)' has 2 placeholders, but the type .* has 1 fields"),
        (Types.STRING(), "has 2 placeholders, but the type String has 1 fields"),
        (
            Types.ROW_NAMED(["word", "n"], [Types.STRING(), Types.MAP(Types.STRING(), Types.INT())]),
            "field 'n' has the type MapTypeInfo.*, which no column supports",
        ),
        (Types.TUPLE([Types.LIST(Types.INT()), Types.INT()]), "field 'f0' has the type ListTypeInfo.*has no arrays"),
    ],
)
def test_a_type_that_does_not_fit_the_statement_is_refused(shop: Shop, type_info: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        shop.sink(type_info=type_info)


@pytest.mark.parametrize("argument", ["sql", "type_info", "jdbc_connection_options", "jdbc_execution_options"])
def test_an_argument_of_another_kind_is_named(shop: Shop, argument: str) -> None:
    arguments = {"sql": INSERT, "type_info": PAIR, "jdbc_connection_options": shop.options, argument: 7}
    with pytest.raises(TypeError, match=f"JdbcSink: {argument} must be a .*, got 7"):
        JdbcSink.sink(**arguments)


@pytest.mark.parametrize(
    ("type_info", "record"),
    [
        (PAIR, Row("a", 1)),
        (PAIR, ("a", 1)),
        (Types.ROW_NAMED(["word", "n"], [Types.STRING(), Types.INT()]), Row(n=1, word="a")),
        (Types.TUPLE([Types.STRING(), Types.INT()]), ("a", 1)),
        (Types.TUPLE([Types.STRING(), Types.INT()]), Row("a", 1.0)),
    ],
)
def test_rows_and_tuples_are_written_by_their_declared_type(shop: Shop, type_info: Any, record: Any) -> None:
    with harness(shop.sink(type_info=type_info)) as sinking:
        sinking.process_element(record)
        sinking.end_input()
    assert shop.counts == [("a", 1)]


def test_single_values_are_written_by_their_declared_type(shop: Shop) -> None:
    with harness(shop.sink("INSERT INTO counts (word) VALUES (?)", Types.STRING())) as sinking:
        sinking.process_elements(["a", "b"])
        sinking.end_input()
    assert shop.counts == [("a", None), ("b", None)]


def test_sqlite_gets_numbers_and_times_that_it_has_no_type_for_as_text(shop: Shop) -> None:
    shop.run("CREATE TABLE kinds (a, b, c, d, e, f)")
    kinds = [
        Types.BIG_DEC(),
        Types.SQL_DATE(),
        Types.SQL_TIME(),
        Types.SQL_TIMESTAMP(),
        Types.INSTANT(),
        Types.PRIMITIVE_ARRAY(Types.BYTE()),
    ]
    day = datetime.datetime(2024, 2, 29, 12, 30, 5)
    record = (Decimal("1.50"), day.date(), day.time(), day, Instant(60, 5000), b"\x00")
    with harness(shop.sink("INSERT INTO kinds VALUES (?, ?, ?, ?, ?, ?)", Types.ROW(kinds))) as sinking:
        sinking.process_elements([record, (None,) * 6])
        sinking.end_input()
    assert shop.run("SELECT * FROM kinds") == [
        ("1.50", "2024-02-29", "12:30:05", "2024-02-29 12:30:05", "1970-01-01 00:01:00.000005+00:00", b"\x00"),
        (None,) * 6,
    ]


def test_a_record_of_another_type_is_named(shop: Shop) -> None:
    with (
        pytest.raises(UserCodeError, match="Operator 'to the shop'.*'one' .*not a value of the declared type Integer"),
        harness(shop.sink()) as sinking,
    ):
        sinking.process_element(("a", "one"))


# --- batches ---


def test_rows_wait_until_there_are_enough(shop: Shop) -> None:
    with harness(shop.sink(size=2)) as sinking:
        sinking.process_element(("a", 1))
        sinking.end_epoch()
        assert shop.counts == []
        sinking.process_elements([("b", 2), ("c", 3), ("d", 4), ("e", 5)])
        assert [word for word, _ in shop.counts] == ["a", "b", "c", "d"]
        sinking.end_input()
        assert [word for word, _ in shop.counts] == ["a", "b", "c", "d", "e"]


def test_rows_wait_as_long_as_the_interval_says(shop: Shop) -> None:
    with harness(shop.sink(interval=500), processing_time=10_000) as sinking:
        assert sinking._task.next_due() is None
        sinking.process_element(("a", 1))
        assert sinking._task.next_due() == 10.5
        sinking.set_processing_time(10_400)
        sinking.process_element(("b", 2))
        assert (sinking._task.next_due(), shop.counts) == (10.5, [])
        sinking.set_processing_time(10_500)
        assert (sinking._task.next_due(), shop.counts) == (None, [("a", 1), ("b", 2)])


def test_the_interval_counts_anew_for_rows_that_a_full_batch_leaves(shop: Shop) -> None:
    with harness(shop.sink(size=2, interval=500), processing_time=10_000) as sinking:
        sinking.process_element(("a", 1))
        sinking.set_processing_time(10_400)
        sinking.process_elements([("b", 2), ("c", 3)])
        assert sinking._task.next_due() == 10.9


def test_without_an_interval_nothing_is_due(shop: Shop) -> None:
    with harness(shop.sink(size=0)) as sinking:
        sinking.process_elements([(str(number), number) for number in range(9000)])
        sinking.end_epoch()
        assert (sinking._task.next_due(), shop.counts) == (None, [])
        sinking.end_input()
    assert len(shop.counts) == 9000


def test_a_checkpoint_writes_what_waits(shop: Shop) -> None:
    with harness(shop.sink()) as sinking:
        sinking.process_element(("a", 1))
        sinking.snapshot(1)
        assert shop.counts == [("a", 1)]


def test_rows_are_lost_with_a_job_that_fails_and_an_upsert_takes_them_again(shop: Shop) -> None:
    with harness(shop.sink(UPSERT)) as first:
        first.process_elements([("a", 1), ("b", 1)])
        taken = first.snapshot(1)
        first.process_elements([("a", 2)])
        first.snapshot(2)  # not complete when the job fails
        first.process_elements([("c", 1)])
    assert shop.counts == [("a", 2), ("b", 1)]
    second = harness(shop.sink(UPSERT))
    second.restore(taken)
    with second:
        second.process_elements([("a", 2), ("c", 1)])
        second.end_input()
    assert shop.counts == [("a", 2), ("b", 1), ("c", 1)]


def test_several_subtasks_write_to_one_file(shop: Shop) -> None:
    with harness(shop.sink(size=1), parallelism=2) as one, harness(shop.sink(size=1), parallelism=2, subtask=1) as two:
        one.process_element(("a", 1))
        two.process_element(("b", 2))
        one.process_element(("c", 3))
    assert [word for word, _ in shop.counts] == ["a", "b", "c"]


# --- failures ---


def test_the_row_that_is_refused_is_named_with_operator_and_statement(shop: Shop) -> None:
    with pytest.raises(UserCodeError) as failure, harness(shop.sink()) as sinking:
        sinking.process_elements([("a", 1), ("b", -1), ("c", 3)])
        sinking.end_input()
    fault = failure.value.fault
    assert (fault.operator, fault.subtask, fault.record) == ("to the shop", 0, "('b', -1)")
    assert fault.summary.startswith("flintstream.connectors.jdbc.operators.JdbcError: SQLite file")
    assert "IntegrityError: CHECK constraint failed: n >= 0" in fault.summary
    assert f"Statement: {INSERT}" in fault.describe()
    assert shop.counts == []


def test_a_statement_that_the_database_refuses_is_not_tried_again(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jdbc_operators, "time", SimpleNamespace(sleep=lambda seconds: pytest.fail("it waits")))
    with (
        pytest.raises(UserCodeError, match="no such table: prices"),
        harness(shop.sink("INSERT INTO prices VALUES (?, ?)")) as sinking,
    ):
        sinking.process_element(("a", 1))
        sinking.end_input()


def test_a_database_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    sink = JdbcSink.sink(INSERT, PAIR, connection(f"jdbc:sqlite:{tmp_path}/no/shop.db"))
    with (
        pytest.raises(UserCodeError, match="Operator 'to the shop'.*no/shop.db: OperationalError: unable to open"),
        harness(sink),
    ):
        pass


class Locked:
    """Stands for a connection to a file on which another program keeps a lock."""

    def __init__(self, times: int, database: Any) -> None:
        self.times = times
        self.database = database
        self.connected = 0
        self.slept: list[float] = []

    def connect(self) -> Any:
        self.connected += 1
        return self.database.connect()

    def begin(self, connection: Any) -> None:
        if self.times:
            self.times -= 1
            raise sqlite3.OperationalError("database is locked")
        self.database.begin(connection)

    def execute_all(self, *arguments: Any) -> None:
        self.database.execute_all(*arguments)

    def is_temporary(self, error: Exception) -> bool:
        return self.database.is_temporary(error)

    def __str__(self) -> str:
        return str(self.database)


def locked(shop: Shop, times: int, monkeypatch: pytest.MonkeyPatch, retries: int = 3) -> tuple[Locked, Any]:
    operator: Any = shop.sink(retries=retries).create_operator(None)
    database = Locked(times, operator._database)
    monkeypatch.setattr(jdbc_operators, "time", SimpleNamespace(sleep=database.slept.append))
    return database, OneInputOperatorHarness(JdbcSinkOperator(operator._binder, database, operator._execution))


def test_rows_are_written_again_by_a_new_connection_after_longer_and_longer_waits(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, sinking = locked(shop, 3, monkeypatch)
    with sinking:
        sinking.process_element(("a", 1))
        sinking.end_input()
    assert (shop.counts, database.slept, database.connected) == ([("a", 1)], [0, 1, 2], 4)


def test_after_the_last_retry_the_job_fails(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    database, sinking = locked(shop, 2, monkeypatch, retries=1)
    with pytest.raises(UserCodeError, match=r"OperationalError: database is locked\nStatement: INSERT"), sinking:
        sinking.process_element(("a", 1))
        sinking.end_input()
    assert (shop.counts, database.slept) == ([], [0])


def test_rows_that_could_not_be_written_wait_for_the_next_time(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    _, sinking = locked(shop, 1, monkeypatch, retries=0)
    with sinking:
        sinking.process_element(("a", 1))
        with pytest.raises(UserCodeError):
            sinking.snapshot(1)
        sinking.snapshot(2)
    assert shop.counts == [("a", 1)]


# --- in a program ---


def test_a_sink_is_added_to_any_number_of_streams(shop: Shop) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    sink = shop.sink()
    assert sink.create_operator(None) is not sink.create_operator(None)
    env.from_collection([("a", 1)], PAIR).add_sink(sink).name("counts")
    env.from_collection([("b", 1)], PAIR).add_sink(sink)
    assert "counts" in env.get_execution_plan()
