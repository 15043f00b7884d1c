"""Operator ids, by which an operator's state is stored and matched on restore.

A uid determines the id independently of the rest of the program. Without one, the id is derived from the operator's
position in the graph; names, parallelism and chaining do not affect it.
"""

from __future__ import annotations

import re
from hashlib import md5
from typing import TYPE_CHECKING

from flintstream.graph.transformations import InvalidProgramException

if TYPE_CHECKING:
    from flintstream.graph.stream_graph import StreamGraph, StreamNode

_UID_HASH = re.compile(r"[0-9a-fA-F]{32}")


def operator_id_of_uid(uid: str) -> str:
    """Returns the operator id of a uid."""
    return md5(uid.encode()).hexdigest()


def assign_operator_ids(graph: StreamGraph) -> None:
    """Sets `operator_id` of each node; raises for duplicates and, where uids are required, for missing ones."""
    owners: dict[str, StreamNode] = {}
    structural = _structural_ids(graph)
    for node in graph.nodes.values():
        node.operator_id = _given_id(node) or structural[node.id]
        if node.uid is None and node.uid_hash is None and not graph.config.auto_generate_uids:
            raise InvalidProgramException(
                f"Auto generated uids are disabled, but operator '{node.name}' has no uid. "
                f"Call uid() on it, or enable auto generated uids."
            )
        other = owners.setdefault(node.operator_id, node)
        if other is not node:
            what = f"uid '{node.uid}'" if node.uid_hash is None else f"uid hash '{node.uid_hash}'"
            raise InvalidProgramException(
                f"Operators '{other.name}' and '{node.name}' have the same {what}. "
                f"Each operator of a job needs a unique uid."
            )


def _given_id(node: StreamNode) -> str | None:
    if node.uid_hash is not None:
        if not _UID_HASH.fullmatch(node.uid_hash):
            raise InvalidProgramException(
                f"The uid hash of operator '{node.name}' must be 32 hexadecimal digits, got '{node.uid_hash}'."
            )
        return node.uid_hash.lower()
    return None if node.uid is None else operator_id_of_uid(node.uid)


def _structural_ids(graph: StreamGraph) -> dict[int, str]:
    """Returns a hash for each node, of its position in topological order and the hashes of its inputs."""
    ids: dict[int, str] = {}
    for position, node in enumerate(graph.nodes.values()):
        digest = md5(f"{position}:{node.kind}:{node.two_inputs}".encode())
        for edge in node.in_edges:
            digest.update(f"|{edge.input_index}:{ids[edge.source_id]}:{edge.side_tag or ''}".encode())
        ids[node.id] = digest.hexdigest()
    return ids
