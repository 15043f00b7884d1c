"""Delivery guarantees: how often a record of a source is counted in a sink if the job fails."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from flintstream.graph.job_graph import JobGraph
from flintstream.graph.stream_graph import StreamGraph, StreamNode


class Delivery(Enum):
    """A delivery guarantee."""

    AT_MOST_ONCE = "at most once"
    AT_LEAST_ONCE = "at least once"
    EXACTLY_ONCE = "exactly once"


@dataclass(frozen=True)
class Guarantee:
    """The guarantee of a source and a sink together, and its limiting factor or precondition."""

    source: str
    sink: str
    delivery: Delivery
    reason: str = ""

    def __str__(self) -> str:
        because = f" ({self.reason})" if self.reason else ""
        return f"{self.source} → {self.sink}: {self.delivery.value}{because}"


def guarantees(graph: StreamGraph | JobGraph, checkpointing: bool) -> list[Guarantee]:
    """Returns the guarantee of each sink for each source whose records reach it."""
    return [
        _guarantee(source, sink, checkpointing)
        for sink in graph.nodes.values()
        if sink.kind == "sink"
        for source in _sources_of(graph, sink)
    ]


def guarantees_text(graph: StreamGraph, checkpointing: bool) -> str:
    """Formats the guarantees, one per line."""
    lines = [f"  {guarantee}" for guarantee in guarantees(graph, checkpointing)]
    return "\n".join(["Guarantees if something fails:", *lines]) + "\n" if lines else ""


def _guarantee(source: StreamNode, sink: StreamNode, checkpointing: bool) -> Guarantee:
    names = (f"'{source.name}'", f"'{sink.name}'")
    if not checkpointing:
        return Guarantee(*names, Delivery.AT_MOST_ONCE, "no checkpoints")
    if not _replayable(source):
        return Guarantee(*names, Delivery.AT_MOST_ONCE, "the source cannot be replayed")
    if not getattr(source.source, "exactly_once", True):
        return Guarantee(*names, Delivery.AT_LEAST_ONCE, "the source may deliver a record again")
    if sink.operator.exactly_once or sink.operator.commits:
        return Guarantee(*names, Delivery.EXACTLY_ONCE, sink.operator.proviso)
    return Guarantee(*names, Delivery.AT_LEAST_ONCE, "the sink writes immediately")


def _replayable(source: StreamNode) -> bool:
    """Returns whether a source restores its position from a checkpoint: declared by a source of splits, derived from
    the state of a function.
    """
    splits = getattr(source.source, "replayable", None)
    return bool(source.operator.replayable if splits is None else splits)


def _sources_of(graph: StreamGraph | JobGraph, sink: StreamNode) -> list[StreamNode]:
    found: dict[int, StreamNode] = {}
    waiting = [sink]
    seen = set()
    while waiting:
        node = waiting.pop()
        if node.id in seen:
            continue
        seen.add(node.id)
        if node.kind == "source":
            found[node.id] = node
        waiting += [graph.nodes[edge.source_id] for edge in node.in_edges]
    return [found[node_id] for node_id in sorted(found)]
