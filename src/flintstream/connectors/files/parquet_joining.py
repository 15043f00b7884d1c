"""Concatenates Parquet files: rows are copied by columns, and small row groups become large ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from flintstream.connectors.files.paths import is_local, open_for_reading

GROUP_BYTES = 64 * 1024 * 1024
"""The target size of a row group, uncompressed."""

__all__ = ["join_parquet_files"]


def join_parquet_files(paths: list[str], stream: IO[bytes]) -> None:
    """Writes the rows of all files to a stream, compressed like the first one. All must have the same columns."""
    with _opened(paths[0]) as first:
        schema, compression = first.schema_arrow, _compression(first.metadata)
    with pq.ParquetWriter(stream, schema, compression=compression) as writer:
        for group in _row_groups(paths, schema):
            writer.write_table(group)


def _row_groups(paths: list[str], schema: Any) -> Iterator[Any]:
    batches: list[Any] = []
    size = 0
    for path in paths:
        with _opened(path) as file:
            if not file.schema_arrow.equals(schema):
                raise ValueError(
                    f"{path} has the columns {_columns(file.schema_arrow)}, but {paths[0]} has {_columns(schema)}: "
                    "they cannot be compacted together. If the columns of a sink have changed, run it with "
                    "disable_compact() once"
                )
            for batch in file.iter_batches():
                batches.append(batch)
                size += batch.nbytes
                if size >= GROUP_BYTES:
                    yield pa.Table.from_batches(batches, schema)
                    batches, size = [], 0
    if batches:
        yield pa.Table.from_batches(batches, schema)


def _compression(metadata: Any) -> str:
    """Returns the compression of a file; unknown for one without rows or columns."""
    if not metadata.num_row_groups or not metadata.num_columns:
        return "snappy"
    name: str = metadata.row_group(0).column(0).compression.lower()
    return "none" if name == "uncompressed" else name


def _columns(schema: Any) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    file = pq.ParquetFile(path if is_local(path) else open_for_reading(path))
    try:
        yield file
    finally:
        file.close(force=True)
