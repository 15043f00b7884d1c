"""Spark tasks, and slots that do not answer them."""

from __future__ import annotations

import socket
from types import SimpleNamespace

import pyarrow as pa
import pyspark
import pytest

from flintstream.runtime.slot.handshake import Credentials, SlotAccess
from flintstream.spark import exchange
from flintstream.spark.exchange import LevelTask
from flintstream.spark.spool_frame import _ReadSlots


@pytest.fixture
def stopped(tmp_path):
    """A slot whose process is stopped: the system still accepts for it."""
    with socket.socket(socket.AF_UNIX) as slot:
        slot.bind(str(tmp_path / "slot"))
        slot.listen()
        yield SlotAccess((str(tmp_path / "slot"),), Credentials(b"a key"), 0.2)


def test_a_task_of_a_level_waits_as_long_as_it_is_told(stopped, monkeypatch):
    context = SimpleNamespace(partitionId=lambda: 0, getLocalProperty=lambda name: "1")
    monkeypatch.setattr(pyspark.TaskContext, "get", lambda: context)
    monkeypatch.setattr(exchange, "settle_worker", lambda: None)
    with pytest.raises(TimeoutError, match=r"slot did not answer within 0\.2 s"):
        list(LevelTask("f" * 32, 0, 0, frozenset(), stopped)(iter(())))


def test_a_task_that_reads_a_spool_waits_as_long_as_it_is_told(stopped):
    read = _ReadSlots(stopped, "spool", pa.schema([]))
    with pytest.raises(TimeoutError, match=r"slot did not answer within 0\.2 s"):
        list(read(iter([pa.RecordBatch.from_pydict({"id": [0]})])))
