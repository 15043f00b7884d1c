"""HBaseSinkFunction and HBaseLookupFunction with a real cluster: what they write and read, and what is refused."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import cloudpickle
import pytest
from tests.forwarder import Forwarder

from flintstream.common import Time, Types
from flintstream.datastream import AsyncDataStream, StreamExecutionEnvironment
from flintstream.datastream.connectors.hbase import (
    Delete,
    HBaseConnectionOptions,
    HBaseError,
    HBaseLookupFunction,
    HBaseMutationConverter,
    HBaseSinkFunction,
    Put,
)
from flintstream.runtime.faults import UserCodeError
from flintstream.testing import OneInputOperatorHarness

from .hbase import HBaseServer

pytestmark = pytest.mark.timeout(900)  # The server may have to be downloaded first.


class Given(HBaseMutationConverter):
    """Records are mutations, as functions without arguments."""

    def convert_to_mutation(self, record: Any) -> Any:
        return record()


class Counts(HBaseMutationConverter):
    """Records are words and counts; no count deletes the word."""

    def convert_to_mutation(self, record: tuple[str, int]) -> Put | Delete:
        word, n = record
        return Put(word, {"counts:n": str(n)}) if n else Delete(word)


@pytest.fixture(scope="module")
def counts(hbase: HBaseServer) -> str:
    """A table with two column families."""
    return hbase.create_table("counts", "notes")


@pytest.fixture
def table(hbase: HBaseServer, counts: str) -> Iterator[str]:
    """The table, empty."""
    yield counts
    with hbase.connection() as connection:
        batch = connection.table(counts).batch()
        for key in hbase.rows(counts):
            batch.delete(key, ["counts", "notes"])
        batch.send()


def harness(
    options: HBaseConnectionOptions, table: str, converter: Any = None, **settings: Any
) -> OneInputOperatorHarness:
    sink = HBaseSinkFunction(table, options, converter or Counts(), **settings)
    operator = pickle.loads(cloudpickle.dumps(sink.create_operator(None)))
    return OneInputOperatorHarness(operator, name="to the table")


def test_mutations_are_written_when_the_buffer_is_full_at_checkpoints_and_at_the_end(
    hbase: HBaseServer, table: str
) -> None:
    with harness(hbase.options, table, buffer_flush_max_mutations=3, buffer_flush_interval_millis=0) as sinking:
        sinking.process_elements([("to", 1), ("be", 1)])
        assert hbase.rows(table) == {}
        sinking.process_elements([("or", 1), ("not", 1)])
        assert sorted(hbase.rows(table)) == ["be", "or", "to"]
        sinking.snapshot()
        assert sorted(hbase.rows(table)) == ["be", "not", "or", "to"]
        sinking.process_elements([("to", 2)])
        sinking.end_input()
    assert hbase.rows(table)["to"] == {"counts:n": "2"}


def test_a_buffer_is_flushed_by_size(hbase: HBaseServer, table: str) -> None:
    with harness(hbase.options, table, buffer_flush_max_size_in_bytes=30, buffer_flush_interval_millis=0) as sinking:
        sinking.process_elements([("a" * 20, 1)])
        assert hbase.rows(table) == {}
        sinking.process_elements([("b", 1)])
        assert len(hbase.rows(table)) == 2


def test_mutations_of_a_row_have_their_effect_in_their_order(hbase: HBaseServer, table: str) -> None:
    """A Thrift server alone puts before it deletes, and a delete hides what is put in the same millisecond."""
    with harness(hbase.options, table) as sinking:
        for n in range(1, 30):
            sinking.process_elements([("a", n), ("a", 0), ("a", n), ("b", n), ("b", 0)])
        sinking.end_input()
    assert hbase.rows(table) == {"a": {"counts:n": "29"}}


def test_columns_and_families_are_deleted(hbase: HBaseServer, table: str) -> None:
    full = {"counts:n": "1", "counts:m": "2", "notes:x": "3"}
    with harness(hbase.options, table, Given()) as sinking:
        sinking.process_elements([lambda row=row: Put(row, full) for row in "abcd"])
        sinking.snapshot()
        sinking.process_elements(
            [
                lambda: Delete("a").add_columns("counts", "n"),
                lambda: Delete("b").add_family("counts"),
                lambda: Delete("c"),
                lambda: Put("d").add_column("notes", "x", "4"),
                lambda: Delete("d").add_family("counts"),
                lambda: None,
            ]
        )
        sinking.end_input()
    assert hbase.rows(table) == {
        "a": {"counts:m": "2", "notes:x": "3"},
        "b": {"notes:x": "3"},
        "d": {"notes:x": "4"},
    }


def test_a_record_that_does_not_fit_is_named(hbase: HBaseServer, table: str) -> None:
    for record, told in (
        (("", 1), "Put: row must not be empty"),
        ((b"x", "no family"), r"has no column family 'wrong'; it has counts, notes"),
    ):
        converter = Counts() if record[0] == "" else Given()
        given: Any = record if record[0] == "" else lambda: Put("a", {"wrong:n": "1"})
        with harness(hbase.options, table, converter) as sinking, pytest.raises(UserCodeError, match=told) as caught:
            sinking.process_element(given)
        assert "Operator 'to the table' (subtask 1) failed" in str(caught.value)
        assert "Record at fault: " in str(caught.value)


def test_a_missing_table_and_a_wrong_port_are_told_at_once(hbase: HBaseServer, table: str) -> None:
    with pytest.raises(UserCodeError, match=r"HBase Thrift server 127.0.0.1, port \d+, table 'nowhere'"):
        harness(hbase.options, "nowhere").open()
    with pytest.raises(UserCodeError, match=r"HBase Thrift server 127.0.0.1, port 1, table"):
        harness(replace(hbase.options, port=1), table).open()


def test_a_lost_connection_is_made_anew_and_one_that_stays_away_is_told(hbase: HBaseServer, table: str) -> None:
    forwarder = Forwarder(("127.0.0.1", hbase.port))
    options = replace(hbase.options, port=forwarder.address[1])
    with harness(options, table, retry_timeout_ms=60_000) as sinking:
        sinking.process_element(("a", 1))
        forwarder.cut()
        sinking.snapshot()
    assert hbase.rows(table) == {"a": {"counts:n": "1"}}
    with harness(options, table, retry_timeout_ms=100) as sinking:
        sinking.process_element(("a", 2))
        forwarder.close()
        forwarder.cut()
        with pytest.raises(UserCodeError, match=r"Retried for 0.1 seconds \(retry_timeout_ms\)"):
            sinking.snapshot()


def test_a_dropped_table_is_told_and_not_retried(hbase: HBaseServer) -> None:
    table = hbase.create_table("counts")
    with harness(hbase.options, table, retry_timeout_ms=120_000) as sinking:
        sinking.process_element(("a", 1))
        with hbase.connection() as connection:
            connection.delete_table(table, disable=True)
        with pytest.raises(UserCodeError, match="TableNotFoundException"):
            sinking.snapshot()


def test_rows_are_looked_up_for_records(env: StreamExecutionEnvironment, hbase: HBaseServer, table: str) -> None:
    with hbase.connection() as connection, connection.table(table).batch() as batch:
        for n in range(0, 300, 2):
            batch.put(f"{n}", {"counts:n": f"{n * n}", "notes:x": "unseen"})

    def squared(number: int, row: dict[str, bytes]) -> list[tuple[int, int]]:
        assert set(row) <= {"counts:n"}
        return [(number, int(row["counts:n"]))] if row else [(number, -1)]

    lookup = HBaseLookupFunction(table, hbase.options, str, squared, columns=["counts"], cache_max_rows=100)
    numbers = env.from_collection([*range(300), *range(300)], Types.INT())
    pair = Types.TUPLE([Types.INT(), Types.INT()])
    found = AsyncDataStream.unordered_wait(numbers, lookup, Time.seconds(120), 100, pair)
    with found.execute_and_collect() as results:
        assert sorted(results) == sorted([(n, n * n if n % 2 == 0 else -1) for n in range(300)] * 2)


def test_a_lookup_in_a_missing_table_is_told(hbase: HBaseServer) -> None:
    with pytest.raises(HBaseError, match="table 'nowhere'"):
        HBaseLookupFunction("nowhere", hbase.options, str, lambda value, row: []).open(None)  # type: ignore[arg-type]
