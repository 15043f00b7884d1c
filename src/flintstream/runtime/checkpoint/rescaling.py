"""Rescaling: redistributes the state of a checkpoint when the number of subtasks has changed.

Keyed state moves by key groups, of which a subtask owns a contiguous range. Operator state moves by the elements of its
lists.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flintstream.common.keys import key_group_range
from flintstream.runtime.checkpoint.metadata import DatabaseHandle, KeyedHandle, OperatorState, SubtaskState
from flintstream.runtime.deployment import VertexDeployment
from flintstream.runtime.state.operator_state import BROADCAST, UNION, OperatorStateSnapshot

if TYPE_CHECKING:
    from flintstream.runtime.checkpoint.pieces import RestoredOperators


def share_of(restored: RestoredOperators, hosted: Iterable[tuple[VertexDeployment, int]]) -> RestoredOperators:
    """Returns the share of a checkpoint that a slot needs to restore its subtasks.

    That is their key groups of keyed state, and all operator state, which is redistributed element by element.
    """
    groups: dict[str, set[int]] = {}
    for vertex, subtask in hosted:
        own = key_group_range(vertex.max_parallelism, vertex.parallelism, subtask)
        for operator in vertex.operators:
            groups.setdefault(operator.operator_id, set()).update(own)
    operators = {
        operator_id: share_of_operator(restored.operators[operator_id], own)
        for operator_id, own in groups.items()
        if operator_id in restored.operators
    }
    return replace(restored, operators=operators)


def share_of_operator(operator: OperatorState, groups: Collection[int]) -> OperatorState:
    """Returns the state of an operator with its keyed state for some key groups only."""
    subtasks: dict[int, SubtaskState] = {}
    states: dict[str, Any] = {}
    for subtask, state in sorted(operator.subtasks.items()):
        shares = (_share_of_handle(handle, groups) for handle in state.keyed)
        handles = [share for share in shares if share is not None]
        own = any(isinstance(handle, DatabaseHandle) or handle.groups for handle in handles)
        subtasks[subtask] = replace(state, keyed=tuple(handles) if own else ())
        for handle in handles:
            states.update(handle.states if isinstance(handle, KeyedHandle) else {})
    left_out = next((subtask for subtask, state in subtasks.items() if not state.keyed), None)
    if states and left_out is not None:
        # The description of a state is checked against the program even if none of its entries come to this slot.
        subtasks[left_out] = replace(subtasks[left_out], keyed=(KeyedHandle(states, {}),))
    return replace(operator, subtasks=subtasks, source=None)


def _share_of_handle(
    handle: KeyedHandle | DatabaseHandle, groups: Collection[int]
) -> KeyedHandle | DatabaseHandle | None:
    if isinstance(handle, DatabaseHandle):
        return handle if any(group in groups for group in range(*handle.key_groups)) else None
    return replace(handle, groups={group: piece for group, piece in handle.groups.items() if group in groups})


def redistribute(snapshots: list[OperatorStateSnapshot], parallelism: int) -> list[OperatorStateSnapshot]:
    """Redistributes operator state to another number of subtasks.

    The elements of split lists are redistributed evenly and in order; union lists go to every subtask as a whole, and
    so does broadcast state, which is the same in all snapshots.
    """
    dealt: list[dict[str, tuple[str, Any, Any]]] = [{} for _ in range(parallelism)]
    names = {name: states[:2] for snapshot in snapshots for name, states in snapshot.states.items()}
    for name, (mode, kind) in names.items():
        contents = [snapshot.states[name][2] for snapshot in snapshots if name in snapshot.states]
        for index, states in enumerate(dealt):
            states[name] = (mode, kind, _share(mode, contents, index, parallelism))
    return [OperatorStateSnapshot(states) for states in dealt]


def _share(mode: str, contents: list[Any], index: int, parallelism: int) -> Any:
    if mode == BROADCAST:
        return contents[index % len(contents)]
    elements = [element for content in contents for element in content]
    if mode == UNION:
        return elements
    size, larger = divmod(len(elements), parallelism)
    start = index * size + min(index, larger)
    return elements[start : start + size + (index < larger)]
