"""RedisStreamSource with a real server: when entries are acknowledged, and which come again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from tests.waiting import wait_until

from flintstream.datastream.connectors.redis import FlinkJedisPoolConfig, RedisError, RedisStreamSource
from flintstream.runtime.source import SourceReader

from .redis import RedisServer

pytestmark = pytest.mark.timeout(900)  # The server may have to be downloaded first.


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[Any]:
    """A client of the test; the server is empty."""
    client = redis_server.connect()
    client.flushall()
    yield client
    client.close()


def add(client: Any, first: int, last: int, stream: str = "in") -> None:
    for number in range(first, last + 1):
        client.xadd(stream, {"n": number}, f"{1000 + number}-0")


def pending(client: Any) -> int:
    return int(client.xpending("in", "group")["pending"])


class Reading:
    """A reader as the engine drives it; records are the numbers in the entries."""

    def __init__(self, reader: SourceReader) -> None:
        self.reader = reader
        self.timestamps: list[int] = []

    def take(self, count: int) -> list[int]:
        """That many numbers, once they are there."""
        numbers: list[int] = []
        wait_until(lambda: self._poll(numbers, count), what=f"{count} entries, not {numbers}")
        return numbers

    def finds_nothing(self) -> bool:
        """Whether there is nothing to read."""
        numbers: list[int] = []
        for _ in range(4):
            self._poll(numbers, 100)
        return not numbers

    def _poll(self, numbers: list[int], count: int) -> bool:
        for block in self.reader.poll(count - len(numbers)):
            numbers += [int(entry.fields["n"]) for entry in block.values]
            self.timestamps += block.timestamps or []
        return len(numbers) == count

    def complete(self) -> None:
        """A checkpoint is taken, and completes."""
        self.reader.notify_checkpoint_complete(self.reader.snapshot())


@contextmanager
def reading(
    config: FlinkJedisPoolConfig,
    positions: Any = None,
    checkpointing: bool = True,
    retry_timeout_ms: int = 120_000,
    consumers: int = 1,
    starting_id: str = "0",
    streams: tuple[str, ...] = ("in",),
) -> Iterator[Reading]:
    builder = RedisStreamSource.builder().set_config(config).set_streams(*streams).set_group("group")
    builder.set_consumers(consumers).set_starting_id(starting_id).set_retry_timeout_ms(retry_timeout_ms)
    source = builder.build()
    context: Any = SimpleNamespace(is_checkpointing_enabled=lambda: checkpointing)
    reader = source.create_source_reader(context)
    try:
        splits = source.discover(1, frozenset())
        reader.add_splits([(split, (positions or {}).get(split.split_id)) for split in splits])
        yield Reading(reader)
    finally:
        reader.close()


# --- acknowledgements ---


def test_entries_are_acknowledged_when_their_checkpoint_is_complete(redis_server: RedisServer, client: Any) -> None:
    add(client, 1, 10)
    with reading(redis_server.config) as source:
        assert source.take(4) == [1, 2, 3, 4]
        positions = source.reader.snapshot()
        assert positions == {"in/0": "1004-0"}
        assert source.take(2) == [5, 6]
        assert pending(client) == 6
        source.reader.notify_checkpoint_complete(positions)
        assert pending(client) == 2
        source.complete()
        source.complete()
        assert pending(client) == 0
    assert source.timestamps == [1001, 1002, 1003, 1004, 1005, 1006]


def test_without_checkpoints_nothing_is_pending(redis_server: RedisServer, client: Any) -> None:
    add(client, 1, 10)
    with reading(redis_server.config) as source:
        assert source.take(2) == [1, 2]
    with reading(redis_server.config, checkpointing=False) as source:
        assert source.take(4) == [1, 2, 3, 4]
        assert pending(client) == 0
    with reading(redis_server.config, checkpointing=False) as source:
        assert source.take(6) == [5, 6, 7, 8, 9, 10]


# --- what comes again ---


def test_each_entry_counts_once(redis_server: RedisServer, client: Any) -> None:
    """After a failure behind a checkpoint, what is in it does not come again, and what is not in it does."""
    add(client, 1, 10)
    with reading(redis_server.config) as source:
        assert source.take(6) == [1, 2, 3, 4, 5, 6]
        positions = source.reader.snapshot()
        assert source.take(2) == [7, 8]
    with reading(redis_server.config, positions) as source:
        assert source.take(4) == [7, 8, 9, 10]
        assert pending(client) == 4  # What the checkpoint holds is acknowledged by now.
        assert source.finds_nothing()
        source.complete()
        assert pending(client) == 0


def test_entries_that_were_deleted_do_not_come_again(redis_server: RedisServer, client: Any) -> None:
    add(client, 1, 4)
    with reading(redis_server.config) as source:
        source.take(4)
    client.xdel("in", "1002-0", "1003-0")
    with reading(redis_server.config) as source:
        assert source.take(2) == [1, 4]
        assert pending(client) == 2


def test_consumers_of_a_stream_share_its_entries(redis_server: RedisServer, client: Any) -> None:
    add(client, 1, 100)
    with reading(redis_server.config, consumers=2) as source:
        source._poll(numbers := [], 30)
        source._poll(more := [], 30)
        assert numbers + more == list(range(1, 61))
        positions = source.reader.snapshot()
        assert positions == {"in/0": "1030-0", "in/1": "1060-0"}
        rest = source.take(40)
    assert {consumer["name"] for consumer in client.xinfo_consumers("in", "group")} == {
        "flintstream-0",
        "flintstream-1",
    }
    with reading(redis_server.config, positions, consumers=2) as source:
        assert sorted(source.take(40)) == sorted(rest)


def test_several_streams_have_their_turns(redis_server: RedisServer, client: Any) -> None:
    add(client, 1, 3)
    add(client, 11, 13, "other")
    with reading(redis_server.config, streams=("in", "other")) as source:
        assert sorted(source.take(6)) == [1, 2, 3, 11, 12, 13]
        assert source.reader.snapshot() == {"in/0": "1003-0", "other/0": "1013-0"}


def test_a_new_group_may_start_at_the_end(redis_server: RedisServer, client: Any) -> None:
    add(client, 1, 3)
    with reading(redis_server.config, starting_id="$") as source:
        assert source.finds_nothing()
        add(client, 4, 5)
        assert source.take(2) == [4, 5]


# --- faults ---


def test_a_lost_connection_loses_and_doubles_nothing(redis_server: RedisServer, client: Any) -> None:
    add(client, 1, 10)
    with reading(redis_server.config) as source:
        assert source.take(4) == [1, 2, 3, 4]
        # The server may still count clients of earlier tests, which have closed their connections.
        assert client.client_kill_filter(_type="normal", skipme=True) >= 1
        assert source.take(2) == [5, 6]
        redis_server.restart(crash=True)
        assert source.take(4) == [7, 8, 9, 10]
        source.complete()
        assert pending(client) == 0


def test_what_could_not_be_acknowledged_is_acknowledged_without_another_checkpoint(
    redis_server: RedisServer, client: Any
) -> None:
    add(client, 1, 4)
    with reading(redis_server.config) as source:
        assert source.take(4) == [1, 2, 3, 4]
        redis_server.stop()
        try:
            source.complete()
        finally:
            redis_server.start()
        assert pending(client) == 4
        wait_until(lambda: [source.reader.poll(1), pending(client)][1] == 0, what="the acknowledgements")


def test_what_the_server_has_sent_and_nobody_got_is_read_from_the_pending_entries(
    redis_server: RedisServer, client: Any
) -> None:
    add(client, 1, 6)
    with reading(redis_server.builder.set_timeout(1000).build()) as source:
        assert source.take(2) == [1, 2]
        with redis_server.paused():
            assert source.reader.poll(2) == []  # It has asked, and given up.
        wait_until(lambda: pending(client) == 4, what="entries for a connection that is gone")
        assert source.take(4) == [3, 4, 5, 6]


def test_a_group_that_was_destroyed_goes_on_where_it_was(redis_server: RedisServer, client: Any) -> None:
    add(client, 1, 4)
    with reading(redis_server.config) as source:
        source.take(2)
        client.xgroup_destroy("in", "group")
        assert source.take(2) == [3, 4]


def test_a_key_that_is_no_stream_is_named(redis_server: RedisServer, client: Any) -> None:
    client.set("in", "text")
    where = rf"Redis 127.0.0.1:{redis_server.port}, database 0, group 'group', stream 'in': ResponseError: "
    with reading(redis_server.config) as source, pytest.raises(RedisError, match=where):
        source.reader.poll(1)


def test_a_server_that_stays_away_fails_the_job_after_a_time(redis_server: RedisServer, client: Any) -> None:
    with reading(redis_server.config, retry_timeout_ms=200) as source:
        redis_server.stop()
        try:
            with pytest.raises(RedisError, match=r"Tried again for 0.2 seconds \(retry_timeout_ms\)"):
                source.take(1)
        finally:
            redis_server.start()


def test_a_server_that_is_not_there_is_told_at_the_start() -> None:
    config = FlinkJedisPoolConfig.Builder().set_host("127.0.0.1").set_port(1).build()
    with pytest.raises(RedisError, match=r"Redis 127.0.0.1:1, database 0, group 'group': Conn"), reading(config):
        pass
