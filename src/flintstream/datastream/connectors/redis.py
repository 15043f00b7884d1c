"""RedisSink: records as commands to a Redis server."""

from __future__ import annotations

from functools import partial

from flintstream.common.arguments import positive
from flintstream.common.type_variables import IN
from flintstream.common.typeinfo import TypeInformation
from flintstream.connectors.redis.commands import (
    CommandsOfRecords,
    RedisCommand,
    RedisCommandDescription,
    RedisDataType,
    RedisMapper,
)
from flintstream.connectors.redis.connection import RedisError
from flintstream.connectors.redis.options import FlinkJedisPoolConfig
from flintstream.connectors.redis.sink import RedisSinkOperator
from flintstream.datastream.io_functions import SinkFunction
from flintstream.runtime.operators.base import Operator

__all__ = [
    "FlinkJedisPoolConfig",
    "RedisCommand",
    "RedisCommandDescription",
    "RedisDataType",
    "RedisError",
    "RedisMapper",
    "RedisSink",
]


class RedisSink(SinkFunction[IN]):
    """Sends a command with each record to a Redis server; for `stream.add_sink`.

    Each record is written at least once; exactly once in effect, if the command is idempotent (`SET`, `HSET`, `SADD`, …).

    Example::

        config = FlinkJedisPoolConfig.Builder().set_host("127.0.0.1").build()
        counts.add_sink(RedisSink(config, Counts()))

    :param flink_jedis_config: where the server is.
    :param redis_sink_mapper: which command a record becomes.
    :param retry_timeout_ms: for how long (milliseconds) commands are sent again while the server is away; then the job
        fails, and its restart strategy decides.
    """

    def __init__(
        self,
        flink_jedis_config: FlinkJedisPoolConfig,
        redis_sink_mapper: RedisMapper[IN],
        retry_timeout_ms: int = 30_000,
    ) -> None:
        super().__init__()
        if not isinstance(flink_jedis_config, FlinkJedisPoolConfig):
            raise TypeError(f"RedisSink: flink_jedis_config must be a FlinkJedisPoolConfig, got {flink_jedis_config!r}")
        if not isinstance(redis_sink_mapper, RedisMapper):
            raise TypeError(f"RedisSink: redis_sink_mapper must be a RedisMapper, got {redis_sink_mapper!r}")
        timeout = positive("RedisSink: retry_timeout_ms", retry_timeout_ms, 0)
        commands = CommandsOfRecords("RedisSink", redis_sink_mapper)
        self._create = partial(RedisSinkOperator, flink_jedis_config, commands, timeout)

    def create_operator(self, input_type: TypeInformation | None) -> Operator:
        """The operator that sends commands in a slot."""
        return self._create()
