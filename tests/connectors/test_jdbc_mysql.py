"""JdbcSink on a real MariaDB server: upserts, values, lost connections, the rows at fault."""

from __future__ import annotations

import datetime
import pickle
from collections.abc import Iterator
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from flintstream.common import Instant, Types
from flintstream.connectors.jdbc import operators as jdbc_operators
from flintstream.datastream.connectors.jdbc import JdbcSink
from flintstream.runtime.faults import UserCodeError
from flintstream.testing import OneInputOperatorHarness

from .databases import Shop
from .mariadb import MariaDbServer

pytestmark = pytest.mark.timeout(900)  # The server may have to be downloaded first.

PAIR = Types.ROW([Types.STRING(), Types.INT()])
INSERT = "INSERT INTO counts (word, n) VALUES (?, ?)"
UPSERT = f"{INSERT} ON DUPLICATE KEY UPDATE n = VALUES(n)"


class Counts(Shop):
    """A database with a table of counts."""

    def __init__(self, server: MariaDbServer) -> None:
        super().__init__(server)
        self.run("CREATE TABLE counts (word VARCHAR(20) PRIMARY KEY, n INT CHECK (n >= 0), note TEXT)")

    @property
    def counts(self) -> list[tuple[Any, ...]]:
        return self.run("SELECT word, n FROM counts ORDER BY word")

    def sinking(self, sql: str, type_info: Any = PAIR) -> OneInputOperatorHarness:
        operator = JdbcSink.sink(sql, type_info, self.options).create_operator(None)
        return OneInputOperatorHarness(pickle.loads(pickle.dumps(operator)), name="to the shop")


@pytest.fixture
def shop(mariadb: MariaDbServer) -> Iterator[Counts]:
    shop = Counts(mariadb)
    yield shop
    shop.run("DROP DATABASE shop")


def test_an_upsert_keeps_the_last_value_of_each_key(shop: Counts) -> None:
    with shop.sinking(UPSERT) as harness:
        harness.process_elements([("a", 1), ("b", 1), ("a", 2), ("ü😀", 3)])
        harness.end_input()
    assert shop.counts == [("a", 2), ("b", 1), ("ü😀", 3)]


def test_a_lost_connection_is_made_again(shop: Counts, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(jdbc_operators, "time", SimpleNamespace(sleep=waits.append))
    with shop.sinking(UPSERT) as harness:
        harness.process_element(("a", 1))
        harness.snapshot(1)
        assert shop.disconnect_clients() == 1
        harness.process_element(("a", 2))
        harness.end_input()
    assert (shop.counts, waits) == ([("a", 2)], [0])


def test_the_row_that_is_refused_is_named_and_none_of_its_batch_is_written(shop: Counts) -> None:
    with pytest.raises(UserCodeError) as failure, shop.sinking(INSERT) as harness:
        harness.process_elements([("a", 1), ("b", -1), ("c", 3)])
        harness.end_input()
    fault = failure.value.fault
    assert (fault.operator, fault.record) == ("to the shop", "('b', -1)")
    assert f"Statement: {INSERT}" in fault.describe()
    assert shop.counts == []


def test_percent_signs_and_quoted_marks_stay_as_they_are(shop: Counts) -> None:
    sql = f"{INSERT} ON DUPLICATE KEY UPDATE n = VALUES(n) % 10, note = '5% of what?' # why?"
    with shop.sinking(sql) as harness:
        harness.process_elements([("a", 1), ("a", 25), ("b", 2)])
        harness.end_input()
    assert shop.run("SELECT * FROM counts ORDER BY word") == [("a", 5, "5% of what?"), ("b", 2, None)]


def test_values_of_all_types_arrive_as_they_are(shop: Counts) -> None:
    columns = {
        "text": (Types.STRING(), r"it's \ 100%: ?"),
        "bigint": (Types.LONG(), 2**62),
        "double": (Types.DOUBLE(), 0.1),
        "decimal(5, 2)": (Types.BIG_DEC(), Decimal("1.50")),
        "date": (Types.SQL_DATE(), datetime.date(2024, 2, 29)),
        "datetime(3)": (Types.SQL_TIMESTAMP(), datetime.datetime(2024, 2, 29, 12, 30, 5, 1000)),
        "datetime(6)": (Types.INSTANT(), Instant(60, 5000)),
        "blob": (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\x00\xff'"),
    }
    shop.run(f"CREATE TABLE kinds ({', '.join(f'c{index} {kind}' for index, kind in enumerate(columns))})")
    values = [value for _, value in columns.values()]
    types = Types.ROW([kind for kind, _ in columns.values()])
    with shop.sinking(f"INSERT INTO kinds VALUES ({', '.join('?' * len(columns))})", types) as harness:
        harness.process_elements([tuple(values), (None,) * len(columns)])
        harness.end_input()
    values[6] = datetime.datetime(1970, 1, 1, 0, 1, 0, 5)
    (row, empty) = shop.run("SELECT * FROM kinds")
    assert list(row) == values
    assert set(empty) == {None}
