"""RedisSink and RedisStreamSource: records as commands to a Redis server, and the entries of its streams as records."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from flintstream.common.arguments import positive, text
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
from flintstream.connectors.redis.streams import RedisStreamEntry, StreamReader, StreamSettings
from flintstream.datastream.connectors.base import SourceReader, Split, SplitBasedSource
from flintstream.datastream.io_functions import SinkFunction
from flintstream.runtime.context import RuntimeContext
from flintstream.runtime.operators.base import Operator

__all__ = [
    "FlinkJedisPoolConfig",
    "RedisCommand",
    "RedisCommandDescription",
    "RedisDataType",
    "RedisError",
    "RedisMapper",
    "RedisSink",
    "RedisStreamEntry",
    "RedisStreamSource",
]

_ID = re.compile(r"\$|\d+(-\d+)?")


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
        """Returns the operator that sends commands in a slot."""
        return self._create()


class RedisStreamSource(SplitBasedSource[RedisStreamEntry]):
    """Reads Redis Streams as consumers of a group; for `env.from_source`.

    Records are :class:`RedisStreamEntry`; their timestamps are the milliseconds of the entries' ids. Entries are
    acknowledged when the checkpoint that holds their effect has completed: each counts exactly once.

    Example::

        source = RedisStreamSource.builder().set_config(config).set_streams("orders").set_group("billing").build()
        orders = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "orders")
    """

    bounded = False

    def __init__(self, settings: StreamSettings, streams: tuple[str, ...], consumers: int) -> None:
        self._settings = settings
        self._streams = streams
        self._consumers = consumers

    @staticmethod
    def builder() -> RedisStreamSource.Builder:
        """Settings of a source."""
        return RedisStreamSource.Builder()

    def discover(self, parallelism: int, known: frozenset[str]) -> Iterable[Split]:
        splits = [(stream, number) for stream in self._streams for number in range(self._consumers)]
        return [Split(f"{stream}/{number}", (stream, number)) for stream, number in splits]

    def create_source_reader(self, runtime_context: RuntimeContext) -> SourceReader:
        return StreamReader(replace(self._settings, checkpointing=runtime_context.is_checkpointing_enabled()))

    class Builder:
        """Settings of a `RedisStreamSource`."""

        def __init__(self) -> None:
            self._config: FlinkJedisPoolConfig | None = None
            self._streams: tuple[str, ...] = ()
            self._group: str | None = None
            self._consumer = "flintstream"
            self._consumers = 1
            self._starting_id = "0"
            self._retry_timeout_ms = 30_000

        def set_config(self, config: FlinkJedisPoolConfig) -> RedisStreamSource.Builder:
            """Sets the address of the server."""
            if not isinstance(config, FlinkJedisPoolConfig):
                raise TypeError(f"set_config: config must be a FlinkJedisPoolConfig, got {config!r}")
            self._config = config
            return self

        def set_streams(self, *streams: str) -> RedisStreamSource.Builder:
            """Sets the keys of the streams. One that does not exist is created, empty."""
            if len({*streams}) < len(streams):
                raise ValueError(f"set_streams: a stream is named twice: {streams!r}")
            self._streams = tuple(text("set_streams: a stream", stream) for stream in streams)
            return self

        def set_group(self, group: str) -> RedisStreamSource.Builder:
            """Sets the consumer group, which is created if it does not exist."""
            self._group = text("set_group: group", group)
            return self

        def set_consumer_name(self, name: str) -> RedisStreamSource.Builder:
            """Sets the prefix of the names of this job's consumers: `flintstream` by default. One per job of a group."""
            self._consumer = text("set_consumer_name: name", name)
            return self

        def set_consumers(self, consumers: int) -> RedisStreamSource.Builder:
            """Sets the number of consumers of each stream, read in parallel: 1 by default, which keeps the order."""
            self._consumers = positive("set_consumers: consumers", consumers)
            return self

        def set_starting_id(self, starting_id: str) -> RedisStreamSource.Builder:
            """Sets the entry after which a new group starts: `0`, the beginning, by default; `$` for new entries only."""
            if not isinstance(starting_id, str) or not _ID.fullmatch(starting_id):
                raise ValueError(f"set_starting_id: starting_id must be '$' or an id such as '0', got {starting_id!r}")
            self._starting_id = starting_id
            return self

        def set_retry_timeout_ms(self, retry_timeout_ms: int) -> RedisStreamSource.Builder:
            """Sets how long (milliseconds) to retry a lost connection before the job fails: 30,000 by default."""
            self._retry_timeout_ms = positive("set_retry_timeout_ms: retry_timeout_ms", retry_timeout_ms, 0)
            return self

        def build(self) -> RedisStreamSource:
            """The source."""
            given = {"set_config": self._config, "set_streams": self._streams, "set_group": self._group}
            missing = [setter for setter, value in given.items() if not value]
            if self._config is None or self._group is None or missing:
                raise ValueError(f"RedisStreamSource: call {', '.join(missing)}")
            seconds = self._retry_timeout_ms / 1000
            settings = StreamSettings(self._config, self._group, self._consumer, self._starting_id, seconds)
            return RedisStreamSource(settings, self._streams, self._consumers)
