"""Seals: authentication codes of the packs that pipelined slots send to each other.

Spark's pipelined shuffle does not authenticate its connections, and blocks are unpickled: nobody else may add any. So each
pack has a code that covers its sender, its receiver, its number and its bytes, with a key that only the job's own processes
have. The number counts the packs from one slot to another: none can be left out, repeated or moved.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections import Counter
from collections.abc import Iterator, Sequence

_HEADER = struct.Struct("<iq16s")
"""Sender, length of the pack, code."""
_COVERED = struct.Struct("<iiqqq")
"""Attempt, sender, receiver, number, length."""


class ForgedPack(Exception):
    """A pack is not the next one that a slot of the job has sent."""


class Seals:
    """Seals the packs that a slot sends, and opens those that it receives."""

    def __init__(self, slot: int, attempt: int, authkey: bytes) -> None:
        self._slot = slot
        self._attempt = attempt
        self._key = hashlib.sha256(b"packs of a pipelined job" + authkey).digest()
        self._sent: Counter[int] = Counter()
        self._received: Counter[int] = Counter()

    def seal(self, receiver: int, parts: Sequence[bytes | memoryview]) -> bytes:
        """Returns the header of a pack, which goes in front of its parts."""
        number, self._sent[receiver] = self._sent[receiver], self._sent[receiver] + 1
        length = sum(map(len, parts))
        return _HEADER.pack(self._slot, length, self._code(self._slot, receiver, number, length, parts))

    def open(self, row: bytes | bytearray | memoryview) -> Iterator[memoryview]:
        """Yields the packs of a row; raises ForgedPack."""
        view = memoryview(row)
        start = 0
        while start < len(view):
            if len(view) - start < _HEADER.size:
                raise ForgedPack(f"slot {self._slot} has received {len(view) - start} bytes that are no pack")
            sender, length, code = _HEADER.unpack_from(view, start)
            start += _HEADER.size
            pack = view[start : start + length] if 0 <= length <= len(view) - start else view[:0]
            expected = self._code(sender, self._slot, self._received[sender], len(pack), [pack])
            if not hmac.compare_digest(code, expected):
                raise ForgedPack(
                    f"slot {self._slot} has received a pack that is not the next one of slot {sender}: somebody else has "
                    "sent, altered, repeated or left out something in Spark's pipelined shuffle"
                )
            self._received[sender] += 1
            start += length
            yield pack

    def _code(self, sender: int, receiver: int, number: int, length: int, parts: Sequence[bytes | memoryview]) -> bytes:
        code = hashlib.blake2b(
            _COVERED.pack(self._attempt, sender, receiver, number, length), key=self._key, digest_size=16
        )
        for part in parts:
            code.update(part)
        return code.digest()
