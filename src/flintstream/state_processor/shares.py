"""Shares: the keyed state of an operator divided into parts that are read one by one, in any process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from flintstream.common.keys import key_group_range
from flintstream.runtime.checkpoint.metadata import DatabaseHandle, KeyedHandle, OperatorState, SubtaskState
from flintstream.runtime.checkpoint.pieces import RestoredOperators
from flintstream.runtime.checkpoint.rescaling import share_of_operator
from flintstream.state_processor.savepoint import StoredOperator

_SHARE_BYTES = 16 << 20
"""The stored size up to which key groups are read together: a share is in memory as Python objects."""


@dataclass(frozen=True)
class Share:
    """Some key groups of an operator, with the location of their state; or, without key groups, the state of a subtask
    that is not keyed.
    """

    restored: RestoredOperators
    """The operator alone."""
    operator_id: str
    place: str
    """The operator's name for messages."""
    key_groups: range
    size: int
    """Its stored size in bytes."""
    in_database: bool = False

    @property
    def operator(self) -> OperatorState:
        """Returns the state."""
        return self.restored.operators[self.operator_id]


def keyed_shares(operator: StoredOperator, databases_at_least: int = 1) -> list[Share]:
    """Returns the keyed state of an operator in shares of bounded size.

    A RocksDB database is read where it is downloaded, so it is divided only if there are fewer than
    `databases_at_least`.
    """
    if operator.in_databases:
        ranges = list(_ranges_of_databases(operator.state, databases_at_least))
    else:
        ranges = list(_ranges_by_size(_sizes(operator.state)))
    return [keyed_share(operator, *each) for each in ranges]


def declarations(operator: StoredOperator) -> Share:
    """Returns the declarations of the keyed states without their entries, to check a function against them."""
    handle = KeyedHandle(operator.keyed_states(), {})
    state = replace(operator.state, subtasks={0: SubtaskState((handle,))}, source=None)
    return replace(_share(operator, state, range(0), 0), in_database=False)


def keyed_share(operator: StoredOperator, key_groups: range, size: int = 0) -> Share:
    """Returns the share of some key groups."""
    state = share_of_operator(operator.state, key_groups)
    subtasks = {index: replace(subtask, operator=None) for index, subtask in state.subtasks.items()}
    return _share(operator, replace(state, subtasks=subtasks), key_groups, size)


def operator_shares(operator: StoredOperator) -> list[Share]:
    """Returns the operator state, a share for each subtask that has some."""
    found = []
    for index, subtask in sorted(operator.state.subtasks.items()):
        if subtask.operator is not None:
            alone = replace(operator.state, subtasks={index: replace(subtask, keyed=())}, source=None)
            found.append(_share(operator, alone, range(0), subtask.operator.size))
    return found


def _share(operator: StoredOperator, state: OperatorState, key_groups: range, size: int) -> Share:
    savepoint = operator.savepoint
    restored = RestoredOperators(
        savepoint.metadata.checkpoint_id,
        savepoint.storage,
        {operator.operator_id: state},
        savepoint.metadata.savepoint,
        savepoint.location,
    )
    return Share(restored, operator.operator_id, operator.place, key_groups, size, operator.in_databases)


def _sizes(operator: OperatorState) -> dict[int, int]:
    """Returns the stored size of each key group."""
    sizes: dict[int, int] = {}
    for subtask in operator.subtasks.values():
        for handle in subtask.keyed:
            assert isinstance(handle, KeyedHandle)
            for group, piece in handle.groups.items():
                sizes[group] = sizes.get(group, 0) + piece.size
    return sizes


def _ranges_by_size(sizes: dict[int, int]) -> Iterator[tuple[range, int]]:
    """Yields ranges of neighbouring key groups whose state fits a share, with their sizes."""
    start, stop, total = 0, 0, 0
    for group in sorted(sizes):
        if total and total + sizes[group] > _SHARE_BYTES:
            yield range(start, stop), total
            start, total = group, 0
        elif not total:
            start = group
        stop = group + 1
        total += sizes[group]
    if total:
        yield range(start, stop), total


def _ranges_of_databases(operator: OperatorState, at_least: int) -> Iterator[tuple[range, int]]:
    handles = [
        handle
        for subtask in operator.subtasks.values()
        for handle in subtask.keyed
        if isinstance(handle, DatabaseHandle)
    ]
    for handle in sorted(handles, key=lambda handle: handle.key_groups):
        groups = range(*handle.key_groups)
        parts = min(len(groups), -(-at_least // len(handles)))
        size = sum(piece.size for piece in handle.files.values())
        for part in range(parts):
            own = key_group_range(len(groups), parts, part)
            yield range(groups.start + own.start, groups.start + own.stop), size // parts


def subtask_share(operator: StoredOperator, subtask: int) -> Share:
    """Returns all state of a subtask, to copy it."""
    state = replace(operator.state, subtasks={subtask: operator.state.subtasks[subtask]}, source=None)
    groups = [
        range(*handle.key_groups) for handle in state.subtasks[subtask].keyed if isinstance(handle, DatabaseHandle)
    ]
    return _share(operator, state, groups[0] if groups else range(0), 0)
