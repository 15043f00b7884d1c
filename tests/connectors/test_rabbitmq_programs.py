"""Whole programs on Spark from RabbitMQ to RabbitMQ, whose server and slots are killed on the way."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import wait_until

from flintstream.common import RestartStrategies, SimpleStringSchema, Types
from flintstream.datastream import MapFunction, StreamExecutionEnvironment
from flintstream.datastream.connectors.rabbitmq import RMQSink, RMQSource

from .queues import Queues
from .rabbitmq import RabbitMqServer

pytestmark = pytest.mark.timeout(900)  # The server may have to be downloaded first.

LAST = 3000


def numbered(first: int, last: int) -> list[tuple[str, str | None]]:
    return [(str(number), f"id {number}") for number in range(first, last + 1)]


class UntilEnd(SimpleStringSchema):
    """Ends with a message."""

    def is_end_of_stream(self, next_element: Any) -> bool:
        return bool(next_element == "end")


class Trip(MapFunction):
    """Takes its time, so that there are several checkpoints; kills its process at a message, once."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def map(self, value: str) -> str:
        time.sleep(0.0005)
        mark = self.directory / "tripped"
        if value == "1000" and not mark.exists():
            mark.touch()
            os._exit(9)
        return value


def test_each_message_counts_once_although_the_server_and_a_slot_were_killed(
    env: StreamExecutionEnvironment, rabbitmq: RabbitMqServer, tmp_path: Path
) -> None:
    queues = Queues(rabbitmq)
    queues.declare("in")
    queues.declare("out")
    queues.publish("in", numbered(1, 2000))
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(1000, 100))
    env.enable_checkpointing(200)
    source = RMQSource(rabbitmq.config, "in", True, UntilEnd(), retry_timeout_ms=120_000)
    messages = env.add_source(source, "messages").map(Trip(tmp_path), Types.STRING())
    messages.add_sink(RMQSink(rabbitmq.config, "out", SimpleStringSchema(), retry_timeout_ms=120_000))
    results = messages.execute_and_collect()  # Those of completed checkpoints: each counts once.
    counted: list[str] = []
    collecting = threading.Thread(target=lambda: counted.extend(results), daemon=True)
    collecting.start()
    wait_until(
        lambda: (tmp_path / "tripped").exists() and len(counted) > 1200, what="a restart, and messages behind it"
    )
    rabbitmq.restart(crash=True)
    queues.publish("in", [*numbered(2001, LAST), ("end", "end")])
    collecting.join(240)
    assert sorted(counted, key=int) == [str(number) for number in range(1, LAST + 1)]
    assert set(queues.take("out", 10 * LAST)) == set(counted)
    assert queues.take("in") == []
    queues.close()
