"""HBase without a server: mutations and their net effect, settings, lookups that share requests."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

import pytest

from flintstream.common import Types
from flintstream.connectors.hbase.connection import driver
from flintstream.connectors.hbase.lookup import MOST_KEYS, Row, RowCache, RowLookup
from flintstream.connectors.hbase.mutations import MutationBuffer
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.connectors.hbase import (
    Delete,
    HBaseConnectionOptions,
    HBaseError,
    HBaseLookupFunction,
    HBaseMutationConverter,
    HBaseSinkFunction,
    Mutation,
    Put,
)
from flintstream.graph.guarantees import guarantees_text

SERVER = HBaseConnectionOptions("127.0.0.1")


class Words(HBaseMutationConverter):
    def convert_to_mutation(self, record: Any) -> Mutation:
        return Put(record, {"f:n": "1"})


def buffered(*mutations: Mutation) -> MutationBuffer:
    buffer = MutationBuffer(frozenset([b"f", b"g"]))
    for mutation in mutations:
        assert not buffer.must_flush_before(mutation)
        buffer.add(mutation)
    return buffer


def test_the_last_put_of_a_cell_remains() -> None:
    buffer = buffered(
        Put("a", {"f:x": "1", "f:y": b"\xff"}), Put(b"a", {"f:x": "2"}), Put("b").add_column("g", "", "é")
    )
    assert buffer.puts == {b"a": {b"f:x": b"2", b"f:y": b"\xff"}, b"b": {b"g:": "é".encode()}}
    assert (buffer.mutations, buffer.deletes) == (3, {})


def test_a_delete_drops_the_puts_before_it() -> None:
    cells = {"f:x": "1", "f:y": "2", "g:x": "3"}
    assert buffered(Put("a", cells), Delete("a").add_columns("f", "x")).puts[b"a"] == {b"f:y": b"2", b"g:x": b"3"}
    assert buffered(Put("a", cells), Delete("a").add_family("f")).puts[b"a"] == {b"g:x": b"3"}
    whole = buffered(Put("a", cells), Delete("a"))
    assert (whole.puts, whole.deletes) == ({}, {b"a": {b"f", b"g"}})


def test_a_put_behind_a_delete_of_its_row_needs_a_flush() -> None:
    buffer = buffered(Delete("a").add_columns("f", "x"))
    assert buffer.must_flush_before(Put("a", {"f:x": "1"}))
    assert not buffer.must_flush_before(Put("b", {"f:x": "1"}))
    assert not buffer.must_flush_before(Delete("a"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Put(1), "Put: row must be bytes or a string, got 1"),
        (lambda: Put("a", {"f:x": 1}), "Put: the value of 'f:x' must be bytes or a string, got 1"),
        (lambda: Put("a", {":x": "1"}), "Put: family must be the name of a column family"),
        (lambda: buffered(Put("a")), "Put: no cells are given: call add_column"),
        (lambda: buffered(Delete("a").add_family("h")), "Delete: the table has no column family 'h'; it has f, g"),
        (lambda: Delete(""), "Delete: row must not be empty"),
        (lambda: HBaseConnectionOptions(""), "host must be a non-empty string"),
        (lambda: HBaseConnectionOptions("h", 70_000), "port must be at most 65535, got 70000"),
        (lambda: HBaseConnectionOptions("h", timeout_ms=0), "timeout_ms must be at least 1, got 0"),
        (lambda: HBaseConnectionOptions("h", transport="udp"), "transport must be one of buffered, framed, got 'udp'"),
        (lambda: HBaseConnectionOptions("h", protocol="json"), "protocol must be one of binary, compact, got 'json'"),
        (lambda: HBaseSinkFunction("", SERVER, Words()), "HBaseSinkFunction: table_name must be a non-empty string"),
        (lambda: HBaseSinkFunction("t", "h:1", Words()), "connection must be an HBaseConnectionOptions, got 'h:1'"),
        (lambda: HBaseSinkFunction("t", SERVER, print), "mutation_converter must be an HBaseMutationConverter"),
        (lambda: HBaseSinkFunction("t", SERVER, Words(), 0), "buffer_flush_max_size_in_bytes must be at least 1"),
        (lambda: HBaseLookupFunction("t", SERVER, "key", print), "row_key must be a function, got 'key'"),
        (lambda: HBaseLookupFunction("t", SERVER, str, print, columns="f:x"), "columns must be a list of strings"),
        (lambda: HBaseLookupFunction("t", SERVER, str, print, cache_ttl_ms=0), "cache_ttl_ms must be at least 1"),
    ],
)
def test_what_is_wrong_is_told(make: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        make()


def test_the_plan_says_what_is_guaranteed() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    words = env.from_collection(["a"], Types.STRING())
    words.add_sink(HBaseSinkFunction("words", SERVER, Words())).name("to the table")
    assert "exactly once (in effect, if a replay computes the same: a cell" in guarantees_text(
        env.generate_stream_graph(), True
    )


def test_a_missing_package_is_told_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "happybase", None)
    with pytest.raises(HBaseError, match=r"pip install 'flintstream\[hbase\]'"):
        driver()


class Rows:
    """Gives a row for every key that is a number; waits for leave before it answers."""

    def __init__(self) -> None:
        self.requests: list[list[bytes]] = []
        self.leave = threading.Event()

    def __call__(self, keys: list[bytes]) -> dict[bytes, Row]:
        self.requests.append(keys)
        assert self.leave.wait(60)
        if b"fail" in keys:
            raise HBaseError("not today")
        return {key: {"f:n": key} for key in keys if key.isdigit()}


def test_keys_that_wait_together_are_asked_for_together() -> None:
    rows = Rows()
    rows.leave.set()

    async def ask() -> list[Row]:
        lookup = RowLookup(rows, RowCache(0, 1))
        keys = [b"%d" % n for n in range(MOST_KEYS + 5)] + [b"7", b"none"]
        try:
            return await asyncio.wait_for(asyncio.gather(*map(lookup.get, keys)), 60)
        finally:
            lookup.close()

    found = asyncio.run(ask())
    assert found[7] == found[-2] == {"f:n": b"7"}
    assert found[-1] == {}
    assert [len(keys) for keys in rows.requests] == [MOST_KEYS, 6]


def test_an_error_reaches_all_that_wait_and_the_next_request_goes_out() -> None:
    rows = Rows()
    rows.leave.set()

    async def ask() -> list[Any]:
        lookup = RowLookup(rows, RowCache(10, 60_000))
        try:
            failed = await asyncio.gather(lookup.get(b"1"), lookup.get(b"fail"), return_exceptions=True)
            return [*failed, await lookup.get(b"1"), await lookup.get(b"1")]
        finally:
            lookup.close()

    one, fail, again, cached = asyncio.run(asyncio.wait_for(ask(), 60))
    assert str(one) == str(fail) == "not today"
    assert again == cached == {"f:n": b"1"}
    assert rows.requests == [[b"1", b"fail"], [b"1"]]


def test_one_that_gives_up_takes_the_row_from_no_other() -> None:
    rows = Rows()

    async def ask() -> Row:
        lookup = RowLookup(rows, RowCache(0, 1))
        try:
            first, second = asyncio.ensure_future(lookup.get(b"1")), asyncio.ensure_future(lookup.get(b"1"))
            while not rows.requests:
                await asyncio.sleep(0.001)
            first.cancel()
            rows.leave.set()
            return await second
        finally:
            lookup.close()

    assert asyncio.run(asyncio.wait_for(ask(), 60)) == {"f:n": b"1"}


def test_a_cache_forgets_what_is_old_and_what_is_too_much() -> None:
    now = 0.0
    cache = RowCache(2, 1000, lambda: now)
    for key in (b"a", b"b"):
        cache.put(key, {"f:n": key})
    assert cache.get(b"a") == {"f:n": b"a"}
    cache.put(b"c", {})
    assert (cache.get(b"a"), cache.get(b"b"), cache.get(b"c")) == ({"f:n": b"a"}, None, {})
    now = 1.0
    assert (cache.get(b"a"), cache.get(b"c")) == (None, None)
