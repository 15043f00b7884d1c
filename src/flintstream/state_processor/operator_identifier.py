"""OperatorIdentifier: names an operator of a savepoint."""

from __future__ import annotations

import re
from dataclasses import dataclass

from flintstream.graph.operator_ids import operator_id_of_uid

_HASH = re.compile(r"[0-9a-fA-F]{32}")


@dataclass(frozen=True)
class OperatorIdentifier:
    """The uid of an operator, or the hash that stands for it.

    Example::

        >>> OperatorIdentifier.for_uid("counts")
        OperatorIdentifier(uid='counts')
    """

    operator_id: str
    """The id under which the operator's state is stored."""
    uid: str | None = None
    """None if only the hash is known."""

    @staticmethod
    def for_uid(uid: str) -> OperatorIdentifier:
        """Identifies an operator by the uid that the program gave it."""
        if not isinstance(uid, str) or not uid:
            raise TypeError(f"OperatorIdentifier.for_uid: expected a uid, got {uid!r}")
        return OperatorIdentifier(operator_id_of_uid(uid), uid)

    @staticmethod
    def for_uid_hash(uid_hash: str) -> OperatorIdentifier:
        """Identifies an operator by its id of 32 hexadecimal digits, for one without a uid."""
        if not isinstance(uid_hash, str) or not _HASH.fullmatch(uid_hash):
            raise ValueError(f"OperatorIdentifier.for_uid_hash: expected 32 hexadecimal digits, got {uid_hash!r}")
        return OperatorIdentifier(uid_hash.lower())

    @staticmethod
    def of(identifier: str | OperatorIdentifier) -> OperatorIdentifier:
        """Returns an identifier as it is, and that of a uid."""
        return identifier if isinstance(identifier, OperatorIdentifier) else OperatorIdentifier.for_uid(identifier)

    def __str__(self) -> str:
        return f"uid '{self.uid}'" if self.uid is not None else f"uid hash '{self.operator_id}'"

    def __repr__(self) -> str:
        if self.uid is not None:
            return f"OperatorIdentifier(uid={self.uid!r})"
        return f"OperatorIdentifier(uid_hash={self.operator_id!r})"
