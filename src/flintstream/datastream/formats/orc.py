"""ORC files: not supported yet."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["OrcBulkWriters"]


class OrcBulkWriters:
    """Not supported yet: writing ORC files."""

    @staticmethod
    def for_row_type(row_type: Any, writer_properties: Any = None, hadoop_config: Any = None) -> NoReturn:
        """Not supported yet."""
        raise NotImplementedError("OrcBulkWriters is not supported yet: use a SparkSink to write ORC")
