"""RMQConnectionConfig, RMQSink and RMQSource: what they are told and refuse."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from flintstream.common import SimpleStringSchema, Types
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.connectors.rabbitmq import RMQConnectionConfig, RMQSink, RMQSource
from flintstream.datastream.connectors.redis import (
    FlinkJedisPoolConfig,
    RedisCommand,
    RedisCommandDescription,
    RedisMapper,
    RedisSink,
)
from flintstream.graph.guarantees import guarantees_text
from flintstream.runtime.faults import UserCodeError
from flintstream.testing import OneInputOperatorHarness


def builder() -> RMQConnectionConfig.Builder:
    made = RMQConnectionConfig.Builder().set_host("127.0.0.1").set_port(1).set_virtual_host("/shop")
    return made.set_user_name("flint").set_password("secret")


def test_a_configuration_keeps_what_was_set() -> None:
    made = builder().set_connection_timeout(1).set_requested_channel_max(2).set_requested_frame_max(4096)
    made = made.set_requested_heartbeat(4).set_network_recovery_interval(5).set_prefetch_count(6)
    config = made.set_automatic_recovery(False).set_topology_recovery_enabled(True).build()
    assert (config.get_host(), config.get_port(), config.get_virtual_host()) == ("127.0.0.1", 1, "/shop")
    assert (config.get_user_name(), config.get_password(), config.get_uri()) == ("flint", "secret", None)
    assert (config.get_connection_timeout(), config.get_requested_channel_max()) == (1, 2)
    assert (config.get_requested_frame_max(), config.get_requested_heartbeat()) == (4096, 4)
    assert (config.get_network_recovery_interval(), config.get_prefetch_count()) == (5, 6)
    assert (config.is_automatic_recovery(), config.is_topology_recovery()) == (False, True)


def test_what_was_not_set_is_none() -> None:
    config = builder().build()
    assert (config.get_connection_timeout(), config.get_requested_channel_max()) == (None, None)
    assert (config.get_requested_frame_max(), config.get_requested_heartbeat()) == (None, None)
    assert (config.get_network_recovery_interval(), config.get_prefetch_count()) == (None, None)
    assert (config.is_automatic_recovery(), config.is_topology_recovery()) == (None, None)


def test_a_uri_is_enough() -> None:
    config = RMQConnectionConfig.Builder().set_uri("amqp://flint:secret@rabbit.example/shop").build()
    assert config.get_uri() == "amqp://flint:secret@rabbit.example/shop"
    assert str(config) == "RabbitMQ rabbit.example:5672/shop"


def test_a_password_is_shown_nowhere() -> None:
    by_uri = RMQConnectionConfig.Builder().set_uri("amqp://flint:secret@rabbit.example/shop").build()
    assert "secret" not in f"{builder().build()!r} {builder().build()} {by_uri!r} {by_uri}"


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("set_host", 5, "set_host: host must be a string, got 5"),
        ("set_host", "", "set_host: host must be a non-empty string"),
        ("set_port", "5672", "set_port: port must be an integer, got '5672'"),
        ("set_port", 65_536, "set_port: port must be at most 65535, got 65536"),
        ("set_password", 5, "set_password: password must be a string, got a int"),
        ("set_uri", "http://localhost", "set_uri: uri must start with amqp:// or amqps://, got the scheme 'http'"),
        ("set_uri", "amqp://[::1", "set_uri: uri is no URI"),
        ("set_requested_heartbeat", -1, "requested_heartbeat must be at least 0, got -1"),
        ("set_requested_frame_max", 100, "requested_frame_max must be at least 4096, got 100"),
        ("set_requested_channel_max", 0, "requested_channel_max must be at least 1, got 0"),
        ("set_network_recovery_interval", 0, "network_recovery_interval must be at least 1, got 0"),
        ("set_connection_timeout", 0, "connection_timeout must be at least 1, got 0"),
        ("set_prefetch_count", 70_000, "prefetch_count must be at most 65535, got 70000"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(setting: str, value: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        getattr(RMQConnectionConfig.Builder(), setting)(value)


def test_what_is_missing_is_named() -> None:
    incomplete = RMQConnectionConfig.Builder().set_host("localhost").set_port(5672)
    with pytest.raises(ValueError, match=r"call set_virtual_host, set_user_name, set_password, or set_uri"):
        incomplete.build()


def test_other_arguments_are_refused() -> None:
    config, schema = builder().build(), SimpleStringSchema()
    with pytest.raises(TypeError, match=r"RMQSink: connection_config must be an RMQConnectionConfig, got 'localhost'"):
        RMQSink("localhost", "q", schema)  # type: ignore[arg-type]
    for name in ("", "q" * 256, 5):
        with pytest.raises(ValueError, match=r"RMQSink: queue_name must be a string of 1 to 255 bytes, got"):
            RMQSink(config, name, schema)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"RMQSink: serialization_schema must be a SerializationSchema, got <class"):
        RMQSink(config, "q", str)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"RMQSink: retry_timeout_ms must be at least 0, got -1"):
        RMQSink(config, "q", schema, -1)


def test_the_plan_tells_the_guarantee() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(1000)
    env.from_collection(["a"]).add_sink(RMQSink(builder().build(), "q", SimpleStringSchema())).name("out")
    assert "'Sink: out': at least once" in guarantees_text(env.generate_stream_graph(), True)


def sinking() -> OneInputOperatorHarness:
    sink = RMQSink(builder().build(), "lines", SimpleStringSchema())
    return OneInputOperatorHarness(sink.create_operator(None), name="to the queue")


def test_a_server_that_is_not_there_is_named() -> None:
    with pytest.raises(UserCodeError) as caught:
        sinking().open()
    told = "RabbitMqError: RabbitMQ 127.0.0.1:1, virtual host /shop, queue 'lines': ConnectionRefusedError"
    assert "Operator 'to the queue'" in str(caught.value) and told in str(caught.value)


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pika", None)
    with pytest.raises(UserCodeError, match=r"pika is not installed: pip install 'flintstream\[rabbitmq\]'"):
        sinking().open()


# --- the source ---


def test_arguments_of_a_source_that_make_no_sense_are_refused() -> None:
    config, schema = builder().build(), SimpleStringSchema()
    with pytest.raises(TypeError, match=r"RMQSource: connection_config must be an RMQConnectionConfig, got None"):
        RMQSource(None, "q", True, schema)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"RMQSource: queue_name must be a string of 1 to 255 bytes, got ''"):
        RMQSource(config, "", True, schema)
    with pytest.raises(TypeError, match=r"RMQSource: use_correlation_id must be True or False, got 'yes'"):
        RMQSource(config, "q", "yes", schema)  # type: ignore[arg-type]
    with pytest.raises(
        TypeError, match=r"RMQSource: deserialization_schema must be a DeserializationSchema, got <class"
    ):
        RMQSource(config, "q", True, bytes)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"RMQSource: retry_timeout_ms must be at least 0, got -1"):
        RMQSource(config, "q", True, schema, -1)


@pytest.mark.parametrize(
    ("use_correlation_id", "told"),
    [(True, "exactly once"), (False, "at least once (the source may deliver a record again)")],
)
def test_a_source_has_one_subtask_and_its_guarantee_is_told(use_correlation_id: bool, told: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(4)
    env.enable_checkpointing(1000)
    stream = env.add_source(RMQSource(builder().build(), "q", use_correlation_id, SimpleStringSchema()), "in")
    assert stream.get_type() == Types.STRING()
    stream.add_sink(RedisSink(REDIS, Lines())).name("out")
    graph = env.generate_stream_graph()
    assert f"'Source: in' → 'Sink: out': {told}" in guarantees_text(graph, True)
    assert [node.parallelism for node in graph.nodes.values() if node.kind == "source"] == [1]


class Lines(RedisMapper):
    """A sink that may count each record once."""

    def get_command_description(self) -> RedisCommandDescription:
        return RedisCommandDescription(RedisCommand.SADD)

    def get_key_from_data(self, data: str) -> str:
        return "lines"

    def get_value_from_data(self, data: str) -> str:
        return data


REDIS = FlinkJedisPoolConfig.Builder().set_host("127.0.0.1").build()
