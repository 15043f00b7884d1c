"""RedisSink: what it is told, and which commands records become."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from flintstream.connectors.redis.commands import CommandsOfRecords
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.connectors.redis import (
    FlinkJedisPoolConfig,
    RedisCommand,
    RedisCommandDescription,
    RedisDataType,
    RedisMapper,
    RedisSink,
    RedisStreamSource,
)
from flintstream.graph.guarantees import guarantees_text
from flintstream.runtime.faults import UserCodeError
from flintstream.testing import OneInputOperatorHarness


def config(port: int = 6379) -> FlinkJedisPoolConfig:
    return FlinkJedisPoolConfig.Builder().set_host("127.0.0.1").set_port(port).build()


class Pairs(RedisMapper):
    """Records are pairs of a key and a value."""

    def __init__(self, *description: Any, **more: Any) -> None:
        self.description = RedisCommandDescription(*description, **more)

    def get_command_description(self) -> RedisCommandDescription:
        return self.description

    def get_key_from_data(self, data: Any) -> Any:
        return data[0]

    def get_value_from_data(self, data: Any) -> Any:
        return data[1]


class OwnPlaces(Pairs):
    """Records say to which hash they belong, and for how long it lives."""

    def get_additional_key(self, data: Any) -> Any:
        return data[2]

    def get_additional_ttl(self, data: Any) -> int | None:
        return data[3]


def commands(mapper: RedisMapper, record: Any = ("k", "v")) -> list[tuple[Any, ...]]:
    return CommandsOfRecords("RedisSink", mapper).of(record)


# --- options ---


def test_a_configuration_has_jedis_defaults() -> None:
    made = FlinkJedisPoolConfig.Builder().set_host("redis.example").build()
    assert (made.get_host(), made.get_port(), made.get_database()) == ("redis.example", 6379, 0)
    assert (made.get_user(), made.get_password(), made.get_connection_timeout()) == (None, None, 2000)
    assert (made.get_ssl(), made.get_ssl_ca_file()) == (False, None)


def test_a_configuration_keeps_what_was_set() -> None:
    builder = FlinkJedisPoolConfig.Builder().set_host("h").set_port(1).set_database(2).set_user("u").set_password("p")
    builder.set_timeout(3).set_ssl(True).set_ssl_ca_file("/ca.pem").set_max_total(4).set_max_idle(5).set_min_idle(0)
    made = builder.build()
    assert (made.get_port(), made.get_database(), made.get_user(), made.get_password()) == (1, 2, "u", "p")
    assert (made.get_connection_timeout(), made.get_ssl(), made.get_ssl_ca_file()) == (3, True, "/ca.pem")


def test_a_password_is_shown_nowhere() -> None:
    made = FlinkJedisPoolConfig.Builder().set_host("h").set_password("secret").build()
    assert "secret" not in f"{made!r} {made}"


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("set_host", 5, "set_host: host must be a string, got 5"),
        ("set_host", "", "set_host: host must be a non-empty string"),
        ("set_port", "6379", "set_port: port must be an integer, got '6379'"),
        ("set_port", 65_536, "set_port: port must be at most 65535, got 65536"),
        ("set_database", -1, "set_database: database must be at least 0, got -1"),
        ("set_timeout", 0, "set_timeout: timeout must be at least 1, got 0"),
        ("set_password", 5, "set_password: password must be a string, got a int"),
        ("set_max_total", "8", "set_max_total: max_total must be an integer, got '8'"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(setting: str, value: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        getattr(FlinkJedisPoolConfig.Builder(), setting)(value)


def test_a_configuration_needs_a_host() -> None:
    with pytest.raises(ValueError, match=r"the host is missing: call set_host"):
        FlinkJedisPoolConfig.Builder().build()


def test_certificates_without_encryption_are_refused() -> None:
    with pytest.raises(ValueError, match=r"set_ssl_ca_file has no effect without set_ssl\(True\)"):
        FlinkJedisPoolConfig.Builder().set_host("h").set_ssl_ca_file("/ca.pem").build()


# --- commands ---


@pytest.mark.parametrize(
    ("description", "sent"),
    [
        ((RedisCommand.SET,), [("SET", "k", "v")]),
        ((RedisCommand.SET, None, 9), [("SET", "k", "v", "EX", 9)]),
        ((RedisCommand.SETEX, 9), [("SET", "k", "v", "EX", 9)]),
        ((RedisCommand.INCRBY,), [("INCRBY", "k", "v")]),
        ((RedisCommand.INCRBY_EX, 9), [("INCRBY", "k", "v"), ("EXPIRE", "k", 9)]),
        ((RedisCommand.DECRBY,), [("DECRBY", "k", "v")]),
        ((RedisCommand.DESCRBY_EX, None, 9), [("DECRBY", "k", "v"), ("EXPIRE", "k", 9)]),
        ((RedisCommand.HSET, "h"), [("HSET", "h", "k", "v")]),
        ((RedisCommand.HSET, "h", 9), [("HSET", "h", "k", "v"), ("EXPIRE", "h", 9)]),
        ((RedisCommand.HINCRBY, "h"), [("HINCRBY", "h", "k", "v")]),
        ((RedisCommand.LPUSH,), [("LPUSH", "k", "v")]),
        ((RedisCommand.RPUSH,), [("RPUSH", "k", "v")]),
        ((RedisCommand.SADD,), [("SADD", "k", "v")]),
        ((RedisCommand.ZADD, "z"), [("ZADD", "z", "v", "k")]),
        ((RedisCommand.ZINCRBY, "z"), [("ZINCRBY", "z", "v", "k")]),
        ((RedisCommand.ZREM, "z"), [("ZREM", "z", "k")]),
        ((RedisCommand.PFADD,), [("PFADD", "k", "v")]),
        ((RedisCommand.PUBLISH,), [("PUBLISH", "k", "v")]),
        ((RedisCommand.XADD, "x"), [("XADD", "x", "*", "k", "v")]),
        ((RedisCommand.XADD, "x", None, 5), [("XADD", "x", "MAXLEN", "~", 5, "*", "k", "v")]),
    ],
)
def test_each_command(description: Any, sent: list[tuple[Any, ...]]) -> None:
    assert commands(Pairs(*description)) == sent


def test_every_command_has_a_type_and_is_idempotent_or_not() -> None:
    assert {command.get_redis_data_type() for command in RedisCommand} == set(RedisDataType)
    again = {command.name for command in RedisCommand if command.idempotent}
    assert again == {"SET", "SETEX", "HSET", "SADD", "ZADD", "ZREM", "PFADD"}


def test_an_entry_of_a_stream_has_the_fields_of_a_dict() -> None:
    sent = commands(Pairs(RedisCommand.XADD, "x"), ("k", {"a": 1, "b": 2}))
    assert sent == [("XADD", "x", "*", "a", 1, "b", 2)]


def test_a_record_may_say_where_it_goes_and_for_how_long() -> None:
    mapper = OwnPlaces(RedisCommand.HSET, "h", 9)
    assert commands(mapper, ("k", 1, "own", 5)) == [("HSET", "own", "k", 1), ("EXPIRE", "own", 5)]
    assert commands(mapper, ("k", 1, None, None)) == [("HSET", "h", "k", 1), ("EXPIRE", "h", 9)]


def test_what_a_mapper_gives_for_each_record_need_not_be_in_the_description() -> None:
    assert commands(OwnPlaces(RedisCommand.SETEX), ("k", 1, None, 5)) == [("SET", "k", 1, "EX", 5)]
    with pytest.raises(ValueError, match=r"get_additional_ttl returned None, but SETEX needs a time-to-live"):
        commands(OwnPlaces(RedisCommand.SETEX), ("k", 1, None, None))
    with pytest.raises(TypeError, match=r"get_additional_key must return a string, bytes or a number, got None"):
        commands(OwnPlaces(RedisCommand.HSET), ("k", 1, None, None))


@pytest.mark.parametrize("record", [(None, 1), (True, 1), ("k", None), ("k", ["v"])])
def test_keys_and_values_that_redis_does_not_know_are_refused(record: Any) -> None:
    with pytest.raises(TypeError, match=r"must return a string, bytes or a number, got"):
        commands(Pairs(RedisCommand.SET), record)


def test_a_removal_asks_for_no_value() -> None:
    assert commands(Pairs(RedisCommand.ZREM, "z"), ("k", None)) == [("ZREM", "z", "k")]


# --- what is refused when the graph is built ---


@pytest.mark.parametrize(
    ("description", "message"),
    [
        (("SET",), "command must be a RedisCommand, got 'SET'"),
        ((RedisCommand.HSET, b"h"), "additional_key must be a string, got b'h'"),
        ((RedisCommand.SETEX, "k", "9"), "additional_ttl must be an integer, got '9'"),
        ((RedisCommand.SETEX, None, 0), "additional_ttl must be at least 1, got 0"),
        ((RedisCommand.PUBLISH, None, 9), "PUBLISH writes no key, so additional_ttl has no meaning"),
        ((RedisCommand.XADD, "x", None, 0), "max_length must be at least 1, got 0"),
        ((RedisCommand.LPUSH, None, None, 5), "max_length is for XADD, not for LPUSH"),
    ],
)
def test_a_description_that_makes_no_sense_is_refused(description: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"RedisCommandDescription: {message}"):
        RedisCommandDescription(*description)


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ((RedisCommand.HSET,), "HSET needs the name of a hash: RedisCommandDescription"),
        ((RedisCommand.ZADD,), "ZADD needs the name of a sorted set"),
        ((RedisCommand.XADD,), "XADD needs the name of a stream"),
        ((RedisCommand.SETEX,), "SETEX needs a time-to-live"),
        ((RedisCommand.INCRBY_EX, "k"), "INCRBY_EX needs a time-to-live"),
    ],
)
def test_a_description_that_lacks_something_is_refused(description: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"RedisSink: {message}"):
        RedisSink(config(), Pairs(*description))


def test_other_arguments_are_refused() -> None:
    mapper = Pairs(RedisCommand.SET)
    with pytest.raises(
        TypeError, match=r"RedisSink: flink_jedis_config must be a FlinkJedisPoolConfig, got 'localhost'"
    ):
        RedisSink("localhost", mapper)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"RedisSink: redis_sink_mapper must be a RedisMapper"):
        RedisSink(config(), RedisCommand.SET)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"RedisSink: retry_timeout_ms must be at least 0, got -1"):
        RedisSink(config(), mapper, -1)
    mapper.description = "SET"  # type: ignore[assignment]
    with pytest.raises(TypeError, match=r"Pairs.get_command_description\(\) must return a RedisCommandDescription"):
        RedisSink(config(), mapper)
    with pytest.raises(ValueError, match=r"PUBLISH writes no key, so get_additional_ttl in the mapper has no meaning"):
        RedisSink(config(), OwnPlaces(RedisCommand.PUBLISH))


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (RedisCommand.SET, "exactly once (in effect, if a replay computes the same: SET is idempotent)"),
        (RedisCommand.RPUSH, "at least once (the sink writes immediately)"),
    ],
)
def test_the_plan_tells_the_guarantee(command: RedisCommand, told: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(1000)
    env.from_collection([("k", "v")]).add_sink(RedisSink(config(), Pairs(command))).name("to redis")
    assert f"'Sink: to redis': {told}" in guarantees_text(env.generate_stream_graph(), True)


# --- without a server ---


def test_a_server_that_is_not_there_is_named() -> None:
    sink = RedisSink(config(port=1), Pairs(RedisCommand.SET))
    harness = OneInputOperatorHarness(sink.create_operator(None), name="to redis")
    with pytest.raises(UserCodeError, match=r"Operator 'to redis' .*RedisError: Redis 127.0.0.1:1, database 0: Conn"):
        harness.open()


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    harness = OneInputOperatorHarness(RedisSink(config(), Pairs(RedisCommand.SET)).create_operator(None))
    with pytest.raises(UserCodeError, match=r"redis is not installed: pip install 'flintstream\[redis\]'"):
        harness.open()


# --- streams ---


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("set_config", "localhost", "set_config: config must be a FlinkJedisPoolConfig, got 'localhost'"),
        ("set_streams", 5, "set_streams: a stream must be a string, got 5"),
        ("set_streams", "", "set_streams: a stream must be a non-empty string"),
        ("set_group", "", "set_group: group must be a non-empty string"),
        ("set_consumer_name", None, "set_consumer_name: name must be a string, got None"),
        ("set_consumers", 0, "set_consumers: consumers must be at least 1, got 0"),
        ("set_starting_id", "now", r"set_starting_id: starting_id must be '\$' or an id such as '0', got 'now'"),
        ("set_retry_timeout_ms", -1, "set_retry_timeout_ms: retry_timeout_ms must be at least 0, got -1"),
    ],
)
def test_a_setting_of_a_stream_source_that_makes_no_sense_is_refused(setting: str, value: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        getattr(RedisStreamSource.builder(), setting)(value)


def test_what_a_stream_source_lacks_is_named() -> None:
    with pytest.raises(ValueError, match=r"RedisStreamSource: call set_streams, set_group"):
        RedisStreamSource.builder().set_config(config()).build()
    with pytest.raises(ValueError, match=r"set_streams: a stream is named twice: \('a', 'a'\)"):
        RedisStreamSource.builder().set_streams("a", "a")
