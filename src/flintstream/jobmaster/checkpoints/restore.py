"""What a job goes on from: state of an earlier run, matched to the operators that the program has now."""

from __future__ import annotations

from flintstream.graph.execution_graph import ExecutionGraph
from flintstream.jobmaster.checkpoints.store import read_checkpoint
from flintstream.runtime.checkpoint.metadata import CheckpointMetadata
from flintstream.runtime.checkpoint.pieces import RestoredOperators


class RestoreError(ValueError):
    """A checkpoint or savepoint does not fit the program; the message names the operator."""


def restored_operators(location: str, graph: ExecutionGraph, allow_unclaimed: bool) -> RestoredOperators:
    """The state at a location for the operators of a graph; refuses what does not fit."""
    metadata, storage = read_checkpoint(location)
    _check(metadata, location, graph, allow_unclaimed)
    return RestoredOperators(metadata.checkpoint_id, storage, metadata.operators)


def _check(metadata: CheckpointMetadata, location: str, graph: ExecutionGraph, allow_unclaimed: bool) -> None:
    job = graph.job_graph
    known = set()
    for vertex in job.vertices:
        for node in (job.nodes[node_id] for node_id in vertex.node_ids):
            known.add(node.operator_id)
            before = metadata.operators.get(node.operator_id)
            if before is None or before.empty:
                continue
            if before.max_parallelism != vertex.max_parallelism:
                raise RestoreError(
                    f"operator '{node.name}': {location} was written with the maximum parallelism "
                    f"{before.max_parallelism}, and the program has {vertex.max_parallelism}: keys would be looked for in "
                    f"the wrong place. Call set_max_parallelism({before.max_parallelism})."
                )
    unclaimed = [
        f"'{state.name}'" + (f" (uid '{state.uid}')" if state.uid else " (no uid)")
        for operator_id, state in metadata.operators.items()
        if operator_id not in known and not state.empty
    ]
    if unclaimed and not allow_unclaimed:
        raise RestoreError(
            f"{location} has state that no operator of the program claims: {', '.join(unclaimed)}. Give the operator the "
            "uid that it had, or allow unclaimed state (-n, execution.state-recovery.ignore-unclaimed-state) to lose it."
        )
