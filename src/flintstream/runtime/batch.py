"""Batch: a run of records, column by column, as it passes through a chain of operators."""

from __future__ import annotations

from typing import Any

NO_TIMESTAMP = -(2**63)
"""The value for "no timestamp" in a column of timestamps, the same as Flink's."""

MIN_WATERMARK = -(2**63)
MAX_WATERMARK = 2**63 - 1

CHUNK = 8192
"""The number of results of a record-multiplying function that are collected before they are passed on."""


class Batch:
    """Records in order: their values and, if present, timestamps and keys.

    The columns are lists of equal length. `timestamps` is None if no record has one, `keys` is None on a stream that is
    not keyed. A batch may be passed to several operators, so receivers must not modify its lists.
    """

    __slots__ = ("keys", "timestamps", "values")

    def __init__(self, values: list[Any], timestamps: list[int] | None = None, keys: list[Any] | None = None) -> None:
        self.values = values
        self.timestamps = timestamps
        self.keys = keys

    def __len__(self) -> int:
        return len(self.values)

    def slice(self, start: int, stop: int) -> Batch:
        """Returns the records from `start` to `stop` (exclusive)."""
        return Batch(
            self.values[start:stop],
            None if self.timestamps is None else self.timestamps[start:stop],
            None if self.keys is None else self.keys[start:stop],
        )

    def __repr__(self) -> str:
        return f"Batch({self.values!r}, timestamps={self.timestamps!r}, keys={self.keys!r})"
