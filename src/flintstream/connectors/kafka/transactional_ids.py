"""The transactional ids of a sink: a small pool for each subtask, whose ids are reused."""

from __future__ import annotations


class TransactionalIds:
    """Ids in the form `<prefix>-<origin>-<operator>-<subtask>-<number>`. One is free once its transaction is committed.

    The origin is the first job of a chain of restores. Jobs of the chain have the same ids and follow one
    another; any other job has others, although its sink may have the same prefix.
    """

    def __init__(self, prefix: str, origin: str, operator_id: str, subtask: int) -> None:
        self.origin = origin
        self.prefix = f"{prefix}-"
        self.scope = f"{prefix}-{origin[:12]}-{operator_id[:8]}-"
        """The common prefix of the ids of all subtasks of the operator."""
        self._own = f"{self.scope}{subtask}-"
        self._used: set[int] = set()

    def take(self) -> str:
        """Takes a free id."""
        number = 0
        while number in self._used:
            number += 1
        self._used.add(number)
        return f"{self._own}{number}"

    def release(self, transactional_id: str) -> None:
        """Releases an id whose transaction is committed."""
        if transactional_id.startswith(self._own):
            self._used.discard(int(transactional_id.removeprefix(self._own)))

    def subtask_of(self, transactional_id: str) -> int | None:
        """Returns the subtask of an id of the operator; None if it is not one of ours."""
        subtask, _, number = transactional_id.removeprefix(self.scope).partition("-")
        return int(subtask) if subtask.isdecimal() and number.isdecimal() else None
