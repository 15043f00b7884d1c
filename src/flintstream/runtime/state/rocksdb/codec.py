"""The storage format of keys and entries in RocksDB.

A stored key is the key group (two bytes, big-endian), the number of the state (two bytes) and the key's canonical
bytes, so that a key group is a range of keys, and a state within a group too.

A stored value is the serialised entry, then the times of an entry that expires, then the pickled key if it cannot be
recovered from its canonical bytes (which are the same for 1 and True, or for a named tuple and a tuple); a bit of the
last byte is the flag for that. Deserialisers ignore trailing bytes, so nothing needs to be cut off.

A large map or list is stored in segments: one entry of the map, or some elements of the list. Another bit of the last
byte is the flag for that, and the entry is replaced by a header of two numbers: the number of entries or elements, and
the number of the next segment. The stored key of a segment is the key group, the number of the state with its first bit
set, the length of the key's canonical bytes (four bytes), these, and then the map key's canonical bytes or the number
of the segment in the list (eight bytes): so the segments of a key are a range. The value of a segment is written as a
small map or list is.
"""

from __future__ import annotations

import marshal
import pickle
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from flintstream.common.keys import key_bytes, key_group, key_groups
from flintstream.common.pickling import dumps
from flintstream.common.serializer import TypeSerializer
from flintstream.common.serializers import PickledSerializer, TypedSerializer
from flintstream.runtime.state import ttl

_VERSION = 2
_FEW = 8
"""For fewer keys, computing key groups one by one is faster."""
_MARSHALLED = frozenset((int, str))
"""Types whose canonical bytes are those of marshal."""
_RECOVERABLE = frozenset((int, str, bytes))
"""Types of keys that can be recovered from their canonical bytes."""
_NO_KEY, _WITH_KEY = b"\0", b"\1"
_KEY_BIT, _SEGMENTS_BIT = 1, 2
_HEADER = struct.Struct(">QQ")
_TIME = struct.Struct(">q")
_LENGTH = struct.Struct(">I")

PREFIX_BYTES = 4


def group_prefix(group: int) -> bytes:
    """Returns the common prefix of the stored keys of a key group."""
    return group.to_bytes(2, "big")


def state_prefix(group: int, state: int) -> bytes:
    """Returns the common prefix of the stored keys of a state in a key group."""
    return group_prefix(group) + state.to_bytes(2, "big")


def segments_of_key(stored: bytes) -> bytes:
    """Returns the common prefix of the stored keys of all segments of a map or list, given its stored key."""
    return segments_of_state(stored[:PREFIX_BYTES]) + _LENGTH.pack(len(stored) - PREFIX_BYTES) + stored[PREFIX_BYTES:]


def segments_of_state(prefix: bytes) -> bytes:
    """Returns the common prefix of the stored keys of all segments of a state in a key group, given the state's prefix."""
    return prefix[:2] + (int.from_bytes(prefix[2:], "big") | 0x8000).to_bytes(2, "big")


def owner_of_segment(stored: bytes) -> bytes:
    """Returns the stored key of the map or list that a segment belongs to."""
    start = PREFIX_BYTES + _LENGTH.size
    (length,) = _LENGTH.unpack_from(stored, PREFIX_BYTES)
    number = int.from_bytes(stored[2:PREFIX_BYTES], "big") & 0x7FFF
    return stored[:2] + number.to_bytes(2, "big") + stored[start : start + length]


def after(prefix: bytes) -> bytes:
    """Returns the smallest stored key that is greater than all keys with a prefix."""
    return (int.from_bytes(prefix, "big") + 1).to_bytes(len(prefix), "big")


class KeyCodec:
    """Encodes the keys of one state."""

    def __init__(self, state: int, max_parallelism: int) -> None:
        self._max_parallelism = max_parallelism
        self.prefixes = [state_prefix(group, state) for group in range(max_parallelism)]

    def encode(self, keys: Sequence[Any]) -> list[bytes]:
        """Returns the stored keys."""
        prefixes = self.prefixes
        if len(keys) < _FEW:
            return [prefixes[key_group(key, self._max_parallelism)] + key_bytes(key) for key in keys]
        groups = key_groups(list(keys), self._max_parallelism)
        if _MARSHALLED.issuperset(map(type, keys)):
            write = marshal.dumps
            return [prefixes[group] + write(key, _VERSION) for group, key in zip(groups, keys)]
        return [prefixes[group] + key_bytes(key) for group, key in zip(groups, keys)]


def decode_key(stored: bytes, value: bytes) -> Any:
    """Returns the key, given its stored key and stored value."""
    if not value[-1] & _KEY_BIT:
        return marshal.loads(stored[PREFIX_BYTES:])
    end = len(value) - 1 - _LENGTH.size
    (length,) = _LENGTH.unpack_from(value, end)
    return pickle.loads(value[end - length : end])


def is_segmented(stored: bytes) -> bool:
    """Returns whether a stored value is the header of a map or list in segments."""
    return bool(stored[-1] & _SEGMENTS_BIT)


def encode_header(key: Any, count: int, following: int) -> bytes:
    """Returns the stored value of a map or list in segments."""
    data = _HEADER.pack(count, following) + _pickled_key(key)
    return data[:-1] + bytes((data[-1] | _SEGMENTS_BIT,))


def decode_header(stored: bytes) -> tuple[int, int]:
    """Returns the count and the number of the next segment."""
    count, following = _HEADER.unpack_from(stored)
    return count, following


class EntryCodec:
    """Encodes the entries of one state, with their times of last use if they expire."""

    def __init__(self, kind: str, serializer: TypeSerializer[Any], expires: bool) -> None:
        self.kind = kind
        self.serializer = serializer
        self.expires = expires
        self._whole = kind not in ("list", "map")
        self._write, self._read, self._must_cut = _functions(serializer)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EntryCodec):
            return NotImplemented
        # Without times, an entry is written by its serialiser alone.
        same_times = self.expires == other.expires and (self._whole == other._whole or not self.expires)
        return same_times and self.serializer == other.serializer

    __hash__ = None  # type: ignore[assignment]

    def encode(self, keys: list[Any], entries: list[Any]) -> list[bytes]:
        """Returns the stored values of entries; a key that cannot be recovered from its stored key is included."""
        if self.expires:
            values, times = ttl.without_times(self.kind, entries)
            written = self._write(values)
            if self._whole:
                pack = _TIME.pack
                written = [data + pack(time) for data, time in zip(written, times)]
            else:
                written = [data + _pack_times(stamps) for data, stamps in zip(written, times)]
        else:
            written = self._write(entries)
        if _RECOVERABLE.issuperset(map(type, keys)):
            return [data + _NO_KEY for data in written]
        return [data + _pickled_key(key) for key, data in zip(keys, written)]

    def decode(self, stored: list[bytes]) -> list[Any]:
        """Returns the entries of stored values."""
        if not self.expires:
            return self._read([data[: _end(data)] for data in stored] if self._must_cut else stored)
        ends = list(map(_end, stored))
        if self._whole:
            unpack = _TIME.unpack_from
            starts = [end - _TIME.size for end in ends]
            times: list[Any] = [unpack(data, start)[0] for data, start in zip(stored, starts)]
        else:
            starts, times = [], []
            for data, end in zip(stored, ends):
                start, stamps = _unpack_times(data, end)
                starts.append(start)
                times.append(stamps)
        values = self._read([data[:start] for data, start in zip(stored, starts)] if self._must_cut else stored)
        return ttl.with_times(self.kind, values, times)

    def last_used(self, stored: bytes) -> int:
        """Returns when an entry that expires, or the last used element of it, was used."""
        end = _end(stored)
        if self._whole:
            time: int = _TIME.unpack_from(stored, end - _TIME.size)[0]
            return time
        return max(_unpack_times(stored, end)[1])


_Write = Callable[[list[Any]], list[bytes]]
_Read = Callable[[list[bytes]], list[Any]]


def _functions(serializer: TypeSerializer[Any]) -> tuple[_Write, _Read, bool]:
    """Returns functions that write and read values in bulk, and whether reading fails on trailing bytes."""
    if isinstance(serializer, PickledSerializer):
        return _pickled, _unpickled, False
    if isinstance(serializer, TypedSerializer):
        marshalled = _Marshalled(serializer)
        return marshalled.write, marshalled.read, False

    def write(values: list[Any]) -> list[bytes]:
        return [serializer.to_bytes(value, canonical=False) for value in values]

    def read(stored: list[bytes]) -> list[Any]:
        return [serializer.from_bytes(data) for data in stored]

    return write, read, True


class _Marshalled:
    """Writes values of a declared type as a column: the bytes of the serialiser, at a fraction of the cost."""

    def __init__(self, serializer: TypedSerializer) -> None:
        self._pack = serializer.pack_nullable
        self._unpack = serializer.unpack_nullable

    def write(self, values: list[Any]) -> list[bytes]:
        write = marshal.dumps
        return [write(packed, _VERSION) for packed in self._pack(values, False)]

    def read(self, stored: list[bytes]) -> list[Any]:
        return self._unpack(list(map(marshal.loads, stored)))


def _pickled(values: list[Any]) -> list[bytes]:
    write = pickle.dumps
    try:
        return [write(value, 5) for value in values]
    except (AttributeError, TypeError, pickle.PicklingError):
        return [dumps(value) for value in values]


def _unpickled(stored: list[bytes]) -> list[Any]:
    return [pickle.loads(data) for data in stored]


def _pack_times(times: Iterable[int]) -> bytes:
    stamps = list(times)
    return struct.pack(f">{len(stamps)}q", *stamps) + _LENGTH.pack(len(stamps))


def _unpack_times(data: bytes, end: int) -> tuple[int, tuple[int, ...]]:
    end -= _LENGTH.size
    (length,) = _LENGTH.unpack_from(data, end)
    start = end - _TIME.size * length
    return start, struct.unpack_from(f">{length}q", data, start)


def _pickled_key(key: Any) -> bytes:
    kind = type(key)
    if kind in _RECOVERABLE or (kind is tuple and _RECOVERABLE.issuperset(map(type, key))):
        return _NO_KEY
    written = dumps(key)
    return written + _LENGTH.pack(len(written)) + _WITH_KEY


def _end(data: bytes) -> int:
    """Returns the offset of the pickled key, or of its flag if there is none."""
    end = len(data) - 1
    if data[end] & _KEY_BIT:
        end -= _LENGTH.size
        (length,) = _LENGTH.unpack_from(data, end)
        end -= length
    return end
