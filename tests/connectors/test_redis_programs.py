"""Whole programs on Spark that begin or end in Redis, whose server is killed on the way."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import wait_until

from flintstream.common import RestartStrategies, Types, WatermarkStrategy
from flintstream.datastream import MapFunction, StreamExecutionEnvironment
from flintstream.datastream.connectors.number_seq import NumberSequenceSource
from flintstream.datastream.connectors.redis import (
    RedisCommand,
    RedisSink,
    RedisStreamSource,
)

from .redis import Pairs, RedisServer

pytestmark = pytest.mark.timeout(900)  # The server may have to be downloaded first.

LAST = 2500
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


def slowly_squared(number: int) -> tuple[str, int]:
    time.sleep(0.0005)  # So that there are several epochs.
    return str(number), number * number


def test_a_server_killed_on_the_way_loses_and_doubles_nothing(
    env: StreamExecutionEnvironment, redis_server: RedisServer
) -> None:
    """The sink outlasts a short absence; a long one fails the job, which is restored."""
    client = redis_server.connect()
    client.flushall()
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(1000, 100))
    env.enable_checkpointing(200)
    numbers = env.from_source(NumberSequenceSource(1, LAST), WatermarkStrategy.no_watermarks(), "numbers")
    squares = numbers.map(slowly_squared, PAIR)
    squares.add_sink(RedisSink(redis_server.config, Pairs(RedisCommand.HSET, "squares"))).name("to the hash")
    log = squares.map(lambda pair: ("log", pair[1]), PAIR)
    log.add_sink(RedisSink(redis_server.config, Pairs(RedisCommand.RPUSH), retry_timeout_ms=0)).name("to the list")
    running = env.execute_async()
    wait_until(lambda: client.hlen("squares") > 100, what="the first squares")
    redis_server.restart(crash=True)
    running.get_job_execution_result().result()
    expected = {str(number): str(number * number) for number in range(1, LAST + 1)}
    assert client.hgetall("squares") == expected
    assert set(client.lrange("log", 0, -1)) == set(expected.values())


class Trip(MapFunction):
    """Takes its time, so that there are several checkpoints; kills its process at an entry, once."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def map(self, entry: Any) -> int:
        time.sleep(0.0005)
        mark, number = self.directory / "tripped", int(entry.fields["n"])
        if number == 700 and not mark.exists():
            mark.touch()
            os._exit(9)
        return number


def test_each_entry_of_a_stream_counts_once_although_the_server_and_a_slot_were_killed(
    env: StreamExecutionEnvironment, redis_server: RedisServer, tmp_path: Path
) -> None:
    client = redis_server.connect()
    client.flushall()
    for number in range(1, 2001):
        client.xadd("numbers", {"n": number})
    builder = RedisStreamSource.builder().set_config(redis_server.config).set_streams("numbers").set_group("job")
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(1000, 100))
    env.enable_checkpointing(200)
    source = builder.set_consumers(2).build()
    entries = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "numbers")
    counted: list[int] = []
    with entries.map(Trip(tmp_path), Types.LONG()).execute_and_collect() as results:
        for number in results:  # Those of completed checkpoints: each counts once.
            counted.append(number)
            if len(counted) == 1200:
                redis_server.restart(crash=True)
                client.xadd("numbers", {"n": 2001})
            if len(counted) == 2001:
                break
        wait_until(lambda: client.xpending("numbers", "job")["pending"] == 0, what="the last acknowledgements")
    assert (tmp_path / "tripped").exists()
    assert sorted(counted) == list(range(1, 2002))
