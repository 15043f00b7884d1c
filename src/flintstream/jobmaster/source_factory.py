"""SourceFactory: creates the coordinator of each source of a job."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

from flintstream.graph.job_graph import JobGraph
from flintstream.jobmaster.sources import SourceCoordinator, SplitCoordinator
from flintstream.jobmaster.spark_sources import CacheBlocks, DataFrameCoordinator, FrameBlocks, StreamingCoordinator
from flintstream.runtime.operators.cache import StreamCache
from flintstream.runtime.source import SplitSource
from flintstream.spark.cached_blocks import CachedBlocks
from flintstream.spark.session import work_directory


class SourceFactory:
    """Creates new coordinators for each attempt, and keeps what attempts share.

    `directory` is for the positions of streaming DataFrames; it outlives the driver if checkpoints do.
    """

    def __init__(self, directory: str | None, checkpointing: bool) -> None:
        self._directory = directory
        self._temporary: str | None = None
        self._checkpointing = checkpointing
        self._blocks: dict[int, FrameBlocks] = {}
        self._cached: dict[StreamCache, CachedBlocks] = {}
        """The records of cached streams, which stay until the job ends, also if they are invalidated before."""

    def hold(self, graph: JobGraph) -> None:
        """Retains the cached streams that the job reads."""
        for node in graph.nodes.values():
            if isinstance(node.source, StreamCache) and node.source not in self._cached:
                records: Any = node.source.records()
                if records is None:
                    raise ValueError(f"source '{node.name}': the cached stream was invalidated before the job started")
                self._cached[node.source] = records

    def make(
        self,
        vertex_id: int,
        name: str,
        operator_id: str,
        slots: tuple[int, ...],
        source: Any,
        on_data: Callable[[], None],
        on_failure: Callable[[BaseException], None],
    ) -> SourceCoordinator:
        """Returns the coordinator of a source; `slots` are those of the vertex's subtasks."""
        if isinstance(source, SplitSource):
            return SplitCoordinator(vertex_id, name, len(slots), source, on_data)
        if isinstance(source, StreamCache):
            cached = self._cached[source]
            return DataFrameCoordinator(
                vertex_id, name, len(slots), lambda: CacheBlocks(name, cached, vertex_id, slots)
            )
        frame = getattr(source, "frame", None)
        if frame is None:
            return SourceCoordinator(vertex_id, name, len(slots))
        if not frame.isStreaming:
            return DataFrameCoordinator(vertex_id, name, len(slots), lambda: self._blocks_of(vertex_id, frame, slots))
        return StreamingCoordinator(
            vertex_id,
            name,
            slots,
            frame,
            on_data,
            on_failure,
            source.trigger,
            os.path.join(self._base(), operator_id),
            self._checkpointing,
        )

    def _blocks_of(self, vertex_id: int, frame: Any, slots: tuple[int, ...]) -> FrameBlocks:
        if vertex_id not in self._blocks:
            self._blocks[vertex_id] = FrameBlocks(frame, vertex_id, slots)
        return self._blocks[vertex_id]

    def _base(self) -> str:
        if self._directory is not None:
            return self._directory
        if self._temporary is None:
            self._temporary = tempfile.mkdtemp(prefix="bridge-", dir=work_directory())
        return self._temporary

    def close(self) -> None:
        """Removes files and blocks at the end of the job."""
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
        for blocks in self._blocks.values():
            blocks.release()
        while self._cached:
            self._cached.popitem()[1].release()
