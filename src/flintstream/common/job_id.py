"""JobID: the id of a job."""

from __future__ import annotations

import re
import secrets

__all__ = ["JobID"]

_HEX = re.compile("[0-9a-f]{32}")


class JobID:
    """A job's id: 128 random bits, shown as 32 hexadecimal digits.

    Example::

        >>> len(str(JobID()))
        32
    """

    __slots__ = ("_hex",)

    def __init__(self, hex_string: str | None = None) -> None:
        self._hex = secrets.token_hex(16) if hex_string is None else str(hex_string).lower()
        if not _HEX.fullmatch(self._hex):
            raise ValueError(f"{hex_string!r} is not a job id, which has 32 hexadecimal digits.")

    def to_hex_string(self) -> str:
        """Returns the 32 digits."""
        return self._hex

    def __eq__(self, other: object) -> bool:
        return self._hex == other._hex if isinstance(other, JobID) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._hex)

    def __str__(self) -> str:
        return self._hex

    def __repr__(self) -> str:
        return f"JobID({self._hex!r})"
