"""A failure as Flink's clients expect one: as the bytes of a `SerializedThrowable`, in the format of Java's object
streams. A client of Java deserializes them; without them it cannot tell its user why a savepoint failed.
"""

from __future__ import annotations

import struct

__all__ = ["serialized_throwable"]

_MAGIC = b"\xac\xed\x00\x05"
_OBJECT, _CLASS, _NULL, _END = b"s", b"r", b"p", b"x"
_STRING, _LONG_STRING, _ARRAY, _REFERENCE = b"t", b"\x7c", b"u", b"q"
_FIRST_HANDLE = 0x7E0000
_SERIALIZABLE, _WRITES_ITSELF = 2, 3
_LONGEST_SHORT = 0xFFFF


def serialized_throwable(name: str, message: str, trace: str) -> bytes:
    """Returns the bytes of a throwable with the name of its class, its message and its stack trace."""
    string_type = _REFERENCE + struct.pack(">I", _FIRST_HANDLE + 1)  # The first type that is written below.
    described = (
        _class("org.apache.flink.util.SerializedThrowable", 7284183123441947635, _SERIALIZABLE)
        + _fields(
            (b"L", "fullStringifiedStackTrace", _text("Ljava/lang/String;")),
            (b"L", "originalErrorClassName", string_type),
            (b"[", "serializedException", _text("[B")),
        )
        + _class("java.lang.Exception", -3387516993124229948, _SERIALIZABLE)
        + _fields()
        + _class("java.lang.Throwable", -3042686055658047285, _WRITES_ITSELF)
        + _fields(
            (b"L", "cause", _text("Ljava/lang/Throwable;")),
            (b"L", "detailMessage", string_type),
            (b"[", "stackTrace", _text("[Ljava/lang/StackTraceElement;")),
            (b"L", "suppressedExceptions", _text("Ljava/util/List;")),
        )
        + _NULL  # Object, above Throwable.
    )
    no_elements = (
        _ARRAY
        + _class("[Ljava.lang.StackTraceElement;", 163864874655228473, _SERIALIZABLE)
        + _fields()
        + _NULL
        + struct.pack(">I", 0)
    )
    values = _NULL + _text(message) + no_elements + _NULL + _END + _text(trace) + _text(name) + _NULL
    return _MAGIC + _OBJECT + described + values


def _class(name: str, version: int, flags: int) -> bytes:
    encoded = _encoded(name)
    return _CLASS + struct.pack(">H", len(encoded)) + encoded + struct.pack(">qB", version, flags)


def _fields(*fields: tuple[bytes, str, bytes]) -> bytes:
    described = b"".join(
        kind + struct.pack(">H", len(name)) + name.encode("ascii") + type_name for kind, name, type_name in fields
    )
    return struct.pack(">H", len(fields)) + described + _END


def _text(text: str) -> bytes:
    encoded = _encoded(text)
    if len(encoded) <= _LONGEST_SHORT:
        return _STRING + struct.pack(">H", len(encoded)) + encoded
    return _LONG_STRING + struct.pack(">Q", len(encoded)) + encoded


def _encoded(text: str) -> bytes:
    """Returns a text in Java's UTF-8: surrogates are encoded one by one, and a null character as two bytes."""
    units = text.encode("utf-16-be", "surrogatepass")
    encoded = bytearray()
    for (unit,) in struct.iter_unpack(">H", units):
        encoded += b"\xc0\x80" if unit == 0 else chr(unit).encode("utf-8", "surrogatepass")
    return bytes(encoded)
