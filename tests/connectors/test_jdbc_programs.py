"""Whole programs on Spark that end in a database, and whose slots are killed on the way."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from flintstream.common import RestartStrategies, Types, WatermarkStrategy
from flintstream.datastream import MapFunction, StreamExecutionEnvironment
from flintstream.datastream.connectors.jdbc import JdbcSink
from flintstream.datastream.connectors.number_seq import NumberSequenceSource

from .databases import Database

pytestmark = pytest.mark.timeout(300)  # The server may have to be downloaded first.

LAST = 3000
PAIR = Types.ROW([Types.INT(), Types.LONG()])
INSERT = "INSERT INTO items (n, square) VALUES (?, ?)"


class Trip(MapFunction):
    """Squares numbers, slowly, so that there are several epochs; kills its process at some of them, once each."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def map(self, value: int) -> Any:
        time.sleep(0.0003)
        mark = self.directory / f"tripped-{value}"
        if value in (1400, 2200) and not mark.exists():
            mark.touch()
            os._exit(9)
        return value, value * value


def test_each_row_is_there_once_although_slots_were_killed(
    env: StreamExecutionEnvironment, database: Database, tmp_path: Path
) -> None:
    database.run("CREATE TABLE items (n INT, square BIGINT)")
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 0))
    env.enable_checkpointing(100)
    numbers = env.from_source(NumberSequenceSource(1, LAST), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.map(Trip(tmp_path), PAIR).add_sink(JdbcSink.exactly_once_sink(INSERT, PAIR, database.options))
    env.execute()
    assert (tmp_path / "tripped-1400").exists() and (tmp_path / "tripped-2200").exists()
    expected = [(number, number * number) for number in range(1, LAST + 1)]
    assert database.run("SELECT n, square FROM items ORDER BY n") == expected
    assert database.prepared == []


def test_the_last_transactions_are_committed_without_checkpointing_too(
    env: StreamExecutionEnvironment, database: Database
) -> None:
    database.run("CREATE TABLE items (n INT, square BIGINT)")
    rows = [(number, number * number) for number in range(1000)]
    env.from_collection(rows, PAIR).rebalance().add_sink(JdbcSink.exactly_once_sink(INSERT, PAIR, database.options))
    env.execute()
    assert database.run("SELECT n, square FROM items ORDER BY n") == rows
    assert database.prepared == []
