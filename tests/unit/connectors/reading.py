"""Drives sources and their readers without an engine."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from flintstream.runtime.source import Split, SplitReader, SplitSource


def drain(reader: SplitReader, limit: int = 1000) -> list[Any]:
    """All that a reader gives, in blocks of at most `limit` records."""
    values: list[Any] = []
    with closing(reader):
        while not reader.finished:
            batch = reader.read(limit)
            assert len(batch.values) <= limit
            values += batch.values
            assert batch.values or reader.finished, "the reader has nothing now, and does not end"
    return values


def splits_of(source: SplitSource, parallelism: int = 2) -> list[Split]:
    """The splits that a source has at the start."""
    return list(source.discover(parallelism, frozenset()))


def read_all(source: SplitSource, parallelism: int = 2, limit: int = 1000) -> list[Any]:
    """The records of all splits, one split after the other."""
    values: list[Any] = []
    for split in splits_of(source, parallelism):
        values += drain(source.create_reader(split, None), limit)
    return values


def check_resume(source: SplitSource, split: Split, expected: list[Any]) -> None:
    """From the position behind each record, a new reader must give exactly the rest."""
    reader = source.create_reader(split, None)
    positions: list[Any] = [reader.position]
    while not reader.finished:
        batch = reader.read(1)
        if batch.values:
            positions.append(reader.position)
    reader.close()
    assert len(positions) == len(expected) + 1
    for count, position in enumerate(positions):
        assert drain(source.create_reader(split, position), 3) == expected[count:], position
