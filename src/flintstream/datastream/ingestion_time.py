"""Ingestion time: records have the time at which their source reads them."""

from __future__ import annotations

import time
from typing import Any

from flintstream.common.watermark_strategy import TimestampAssigner, WatermarkStrategy

__all__ = ["INGESTION_TIME"]


class ArrivalTime(TimestampAssigner):
    """The clock of the slot when it reads a record; never earlier than for the record before."""

    def __init__(self) -> None:
        self._last = 0

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        self._last = max(self._last, time.time_ns() // 1_000_000)
        return self._last


INGESTION_TIME = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ArrivalTime())
"""The strategy of sources that have none, in programs that work in ingestion time."""
