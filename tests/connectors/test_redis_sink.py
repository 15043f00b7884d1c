"""RedisSink with a real server: what it writes, and what happens when the server is hurt."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import wait_until

from flintstream.datastream.connectors.redis import (
    FlinkJedisPoolConfig,
    RedisCommand,
    RedisSink,
)
from flintstream.runtime.faults import UserCodeError
from flintstream.testing import OneInputOperatorHarness

from .redis import Pairs, RedisServer

pytestmark = pytest.mark.timeout(900)  # The server may have to be downloaded first.


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[Any]:
    """A client of the test; the server is empty."""
    client = redis_server.connect()
    client.flushall()
    yield client
    client.close()


def harness(
    config: FlinkJedisPoolConfig, *description: Any, retry_timeout_ms: int = 60_000, **options: Any
) -> OneInputOperatorHarness:
    sink = RedisSink(config, Pairs(*description), retry_timeout_ms)
    operator = pickle.loads(pickle.dumps(sink.create_operator(None)))
    return OneInputOperatorHarness(operator, name="to redis", **options)


def write(server: RedisServer, records: list[Any], *description: Any) -> None:
    with harness(server.config, *description) as sinking:
        sinking.process_elements(records)


# --- commands ---


def test_strings(redis_server: RedisServer, client: Any) -> None:
    write(redis_server, [("a", "x"), ("b", b"y"), ("a", "é")], RedisCommand.SET)
    assert (client.get("a"), client.get("b"), client.ttl("a")) == ("é", "y", -1)
    write(redis_server, [("c", 1.5)], RedisCommand.SETEX, 1000)
    assert client.get("c") == "1.5" and 0 < client.ttl("c") <= 1000


def test_counters(redis_server: RedisServer, client: Any) -> None:
    write(redis_server, [("n", 5), ("n", "2")], RedisCommand.INCRBY)
    write(redis_server, [("n", 3)], RedisCommand.DECRBY)
    assert (client.get("n"), client.ttl("n")) == ("4", -1)
    write(redis_server, [("n", 1)], RedisCommand.INCRBY_EX, 1000)
    assert client.get("n") == "5" and 0 < client.ttl("n") <= 1000
    write(redis_server, [("m", 1)], RedisCommand.DECRBY_EX, 1000)
    assert client.get("m") == "-1" and 0 < client.ttl("m") <= 1000


def test_hashes(redis_server: RedisServer, client: Any) -> None:
    write(redis_server, [("a", 1), ("b", 2), ("a", 3)], RedisCommand.HSET, "counts")
    assert (client.hgetall("counts"), client.ttl("counts")) == ({"a": "3", "b": "2"}, -1)
    write(redis_server, [("a", 10), ("c", 1)], RedisCommand.HINCRBY, "counts", 1000)
    assert client.hgetall("counts") == {"a": "13", "b": "2", "c": "1"} and 0 < client.ttl("counts") <= 1000


def test_lists_and_sets(redis_server: RedisServer, client: Any) -> None:
    write(redis_server, [("l", "b"), ("l", "a")], RedisCommand.LPUSH)
    write(redis_server, [("l", "c"), ("l", "d")], RedisCommand.RPUSH)
    assert client.lrange("l", 0, -1) == ["a", "b", "c", "d"]
    write(redis_server, [("s", "a"), ("s", "b"), ("s", "a")], RedisCommand.SADD)
    assert client.smembers("s") == {"a", "b"}
    write(redis_server, [("u", "a"), ("u", "b"), ("u", "a")], RedisCommand.PFADD)
    assert client.pfcount("u") == 2


def test_sorted_sets(redis_server: RedisServer, client: Any) -> None:
    write(redis_server, [("tea", 1), ("rice", 2.5), ("ink", 9)], RedisCommand.ZADD, "sales")
    write(redis_server, [("tea", 4)], RedisCommand.ZINCRBY, "sales")
    write(redis_server, [("ink", None)], RedisCommand.ZREM, "sales")
    assert client.zrange("sales", 0, -1, withscores=True) == [("rice", 2.5), ("tea", 5.0)]


def test_streams(redis_server: RedisServer, client: Any) -> None:
    write(redis_server, [("a", 1), ("", {"b": 2, "c": 3})], RedisCommand.XADD, "log")
    assert [fields for _, fields in client.xrange("log")] == [{"a": "1"}, {"b": "2", "c": "3"}]
    write(redis_server, [("n", number) for number in range(1000)], RedisCommand.XADD, "short", None, 100)
    assert 100 <= client.xlen("short") < 1000  # About: a whole node of the stream at a time.


def test_messages_to_subscribers(redis_server: RedisServer, client: Any) -> None:
    with client.pubsub(ignore_subscribe_messages=True) as subscriber:
        subscriber.subscribe("news")
        subscriber.get_message(timeout=60)
        write(redis_server, [("news", "hello")], RedisCommand.PUBLISH)
        message = wait_until(lambda: subscriber.get_message(timeout=1), what="the message")
    assert message["data"] == "hello"


# --- when it writes ---


def test_a_block_is_one_round_trip_and_written_before_the_next_one(redis_server: RedisServer, client: Any) -> None:
    with harness(redis_server.config, RedisCommand.RPUSH) as sinking:
        before = client.info("stats")["total_reads_processed"]
        sinking.process_elements([("l", number) for number in range(500)])
        assert client.llen("l") == 500
        # The server may read a long pipeline in several parts of 16 kB; the test's own two commands are counted too.
        assert client.info("stats")["total_reads_processed"] - before < 20


def test_a_long_block_is_written_in_order(redis_server: RedisServer, client: Any) -> None:
    numbers = range(12_000)
    write(redis_server, [("l", number) for number in numbers], RedisCommand.RPUSH)
    assert client.lrange("l", 0, -1) == [str(number) for number in numbers]


# --- what is refused ---


def test_a_refused_command_is_told_with_its_record(redis_server: RedisServer, client: Any) -> None:
    client.set("b", "a string")
    with harness(redis_server.config, RedisCommand.RPUSH) as sinking, pytest.raises(UserCodeError) as caught:
        sinking.process_elements([("a", 1), ("b", 2), ("c", 3)])
    told = str(caught.value)
    assert "Operator 'to redis' (subtask 1) failed: " in told
    assert f"RedisError: Redis 127.0.0.1:{redis_server.port}, database 0: " in told
    assert "WRONGTYPE" in told
    assert "Command: RPUSH b 2" in told
    assert "Record at fault: ('b', 2)" in told


def test_a_key_that_redis_does_not_know_is_told_with_its_record(redis_server: RedisServer, client: Any) -> None:
    with harness(redis_server.config, RedisCommand.SET) as sinking, pytest.raises(UserCodeError) as caught:
        sinking.process_elements([("a", 1), (None, 2), ("c", 3)])
    assert "get_key_from_data must return a string, bytes or a number, got None" in str(caught.value)
    assert "Record at fault: (None, 2)" in str(caught.value)
    assert client.keys() == []


def test_passwords_users_and_databases(redis_server: RedisServer, client: Any) -> None:
    client.acl_setuser("flint", enabled=True, passwords=["+it's a secret"], keys=["*"], categories=["+@all"])
    builder = redis_server.builder.set_database(3).set_user("flint")
    with harness(builder.set_password("it's a secret").build(), RedisCommand.SET) as sinking:
        sinking.process_element(("a", 1))
    client.select(3)
    assert client.get("a") == "1"
    client.select(0)
    assert client.get("a") is None
    with pytest.raises(UserCodeError, match=r"database 3: AuthenticationError: ") as caught:
        harness(builder.set_password("mistaken").build(), RedisCommand.SET).open()
    assert "mistaken" not in str(caught.value)
    client.acl_deluser("flint")


def test_an_encrypted_connection(redis_server: RedisServer, client: Any, tmp_path: Path) -> None:
    authority, port = tmp_path / "authority.pem", redis_server.listen_encrypted(tmp_path)
    builder = redis_server.builder.set_port(port).set_ssl(True)
    with pytest.raises(UserCodeError, match=r"CERTIFICATE_VERIFY_FAILED"):
        harness(builder.build(), RedisCommand.SET).open()
    with harness(builder.set_ssl_ca_file(str(authority)).build(), RedisCommand.SET) as sinking:
        sinking.process_element(("safe", 1))
    assert client.get("safe") == "1"


# --- faults ---


def test_a_connection_that_was_cut_is_made_anew(redis_server: RedisServer, client: Any) -> None:
    with harness(redis_server.config, RedisCommand.SET) as sinking:
        sinking.process_element(("a", 1))
        # The server may still count clients of earlier tests, which have closed their connections.
        assert client.client_kill_filter(_type="normal", skipme=True) >= 1
        sinking.process_element(("b", 2))
    assert client.mget("a", "b") == ["1", "2"]


def test_a_server_that_comes_back_gets_everything(redis_server: RedisServer, client: Any) -> None:
    with harness(redis_server.config, RedisCommand.SADD) as sinking:
        sinking.process_elements([("s", number) for number in range(100)])
        redis_server.stop(crash=True)
        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(sinking.process_elements, [("s", number) for number in range(100, 200)])
            assert wait([writing], 0.2).not_done  # It cannot write.
            redis_server.start()
            writing.result(120)
    assert len(client.smembers("s")) == 200


def test_a_server_that_stays_away_fails_the_job_after_a_time(redis_server: RedisServer, client: Any) -> None:
    with harness(redis_server.config, RedisCommand.SET, retry_timeout_ms=200) as sinking:
        redis_server.stop()
        try:
            with pytest.raises(UserCodeError) as caught:
                sinking.process_element(("a", 1))
        finally:
            redis_server.start()
    assert "Tried again for 0.2 seconds (retry_timeout_ms)." in str(caught.value)
    assert "Command: SET a 1" in str(caught.value)


def test_a_server_that_does_not_answer_is_given_up_after_its_timeout(redis_server: RedisServer, client: Any) -> None:
    config = redis_server.builder.set_timeout(1000).build()
    refused = pytest.raises(UserCodeError, match=r"database 0: TimeoutError: ")
    with harness(config, RedisCommand.SET, retry_timeout_ms=0) as sinking, redis_server.paused(), refused:
        sinking.process_element(("a", 1))


def test_a_full_server_is_waited_for(redis_server: RedisServer, client: Any) -> None:
    client.config_set("maxmemory", 1)
    with harness(redis_server.config, RedisCommand.RPUSH) as sinking, ThreadPoolExecutor(1) as pool:
        writing = pool.submit(sinking.process_elements, [("l", number) for number in range(10)])
        assert wait([writing], 0.2).not_done
        client.config_set("maxmemory", 0)
        writing.result(120)
    assert client.lrange("l", 0, -1) == [str(number) for number in range(10)]
