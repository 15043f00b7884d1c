"""The right coordinator for each source of a job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flintstream.jobmaster.sources import SourceCoordinator, SplitCoordinator
from flintstream.jobmaster.spark_sources import DataFrameCoordinator, StreamingCoordinator
from flintstream.runtime.source import SplitSource


def make_coordinator(
    vertex_id: int,
    name: str,
    slots: tuple[int, ...],
    source: Any,
    on_data: Callable[[], None],
    on_failure: Callable[[BaseException], None],
) -> SourceCoordinator:
    """The coordinator for a source; `slots` are those of the vertex's subtasks."""
    if isinstance(source, SplitSource):
        return SplitCoordinator(vertex_id, name, len(slots), source)
    frame = getattr(source, "frame", None)
    if frame is None:
        return SourceCoordinator(vertex_id, name, len(slots))
    if frame.isStreaming:
        return StreamingCoordinator(vertex_id, name, slots, frame, on_data, on_failure, source.trigger)
    return DataFrameCoordinator(vertex_id, name, slots, frame)
