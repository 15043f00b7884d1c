"""Restore: matches the state of a checkpoint or savepoint to the operators of the current program."""

from __future__ import annotations

from flintstream.graph.execution_graph import ExecutionGraph
from flintstream.graph.job_graph import JobGraph, JobVertex
from flintstream.runtime.checkpoint.metadata import CheckpointMetadata
from flintstream.runtime.checkpoint.pieces import RestoredOperators
from flintstream.runtime.checkpoint.signing import SigningKeys
from flintstream.runtime.checkpoint.store import read_checkpoint
from flintstream.runtime.faults import PermanentError


class RestoreError(PermanentError, ValueError):
    """A checkpoint or savepoint does not fit the program; the message names the operator."""


def restored_operators(
    location: str, graph: ExecutionGraph, allow_unclaimed: bool, keys: SigningKeys | None = None
) -> RestoredOperators:
    """Returns the state at a location for the operators of a graph; refuses state that does not fit or lacks a required
    signature.

    Keyed state is partitioned by maximum parallelism; a vertex without one set adopts the stored one.
    """
    metadata, storage = read_checkpoint(location, keys)
    for vertex in graph.job_graph.vertices:
        _fit_max_parallelism(vertex, graph.job_graph, metadata, location)
    _check_claimed(metadata, location, graph.job_graph, allow_unclaimed)
    return RestoredOperators(metadata.checkpoint_id, storage, metadata.operators, metadata.savepoint, location)


def _fit_max_parallelism(vertex: JobVertex, job: JobGraph, metadata: CheckpointMetadata, location: str) -> None:
    is_set = job.nodes[vertex.head_id].max_parallelism_set
    # The head first: it receives the keys, so its maximum parallelism is the one that must match.
    for node in (job.nodes[node_id] for node_id in vertex.node_ids):
        before = metadata.operators.get(node.operator_id)
        if before is None or before.empty:
            continue
        written = (
            f"operator '{node.name}': {location} was written with the maximum parallelism {before.max_parallelism}"
        )
        if is_set and before.max_parallelism != vertex.max_parallelism:
            raise RestoreError(
                f"{written}, but the program sets {vertex.max_parallelism}, so that keys would not be found. Call "
                f"set_max_parallelism({before.max_parallelism}), or set none."
            )
        if before.max_parallelism < vertex.parallelism:
            raise RestoreError(
                f"{written}, but the program's parallelism is {vertex.parallelism}: set it to at most "
                f"{before.max_parallelism}."
            )
        if not is_set:
            vertex.max_parallelism = before.max_parallelism
            return


def _check_claimed(metadata: CheckpointMetadata, location: str, job: JobGraph, allow_unclaimed: bool) -> None:
    known = {node.operator_id for node in job.nodes.values()}
    unclaimed = [
        f"'{state.name}'" + (f" (uid '{state.uid}')" if state.uid else " (no uid)")
        for operator_id, state in metadata.operators.items()
        if operator_id not in known and not state.empty
    ]
    if unclaimed and not allow_unclaimed:
        raise RestoreError(
            f"{location} has state that no operator of the program claims: {', '.join(unclaimed)}. Set the uid that "
            "the operator had, or discard unclaimed state (-n, execution.state-recovery.ignore-unclaimed-state)."
        )
