"""A failure as Java serializes it."""

from __future__ import annotations

from flintstream.server.rest.java_serialization import serialized_throwable

# What Java 17 wrote for a SerializedThrowable of Flink 2.3, up to the values of its fields.
DESCRIBED = (
    b"\xac\xed\x00\x05sr\x00)org.apache.flink.util.SerializedThrowablee\x16\x9d\xf5\x1f\xa7\x13\xf3\x02\x00\x03L\x00\x19"
    b"fullStringifiedStackTracet\x00\x12Ljava/lang/String;L\x00\x16originalErrorClassNameq\x00~\x00\x01[\x00\x13"
    b"serializedExceptiont\x00\x02[Bxr\x00\x13java.lang.Exception\xd0\xfd\x1f>\x1a;\x1c\xc4\x02\x00\x00xr\x00\x13"
    b"java.lang.Throwable\xd5\xc65'9w\xb8\xcb\x03\x00\x04L\x00\x05causet\x00\x15Ljava/lang/Throwable;L\x00\rdetailMessage"
    b"q\x00~\x00\x01[\x00\nstackTracet\x00\x1e[Ljava/lang/StackTraceElement;L\x00\x14suppressedExceptionst\x00\x10"
    b"Ljava/util/List;xp"
)
NO_ELEMENTS = b'ur\x00\x1e[Ljava.lang.StackTraceElement;\x02F*<<\xfd"9\x02\x00\x00xp\x00\x00\x00\x00'


def test_the_stream_is_what_java_reads():
    message, trace, name = b"t\x00\x07no disk", b"t\x00\x02at", b"t\x00\x07OSError"
    expected = DESCRIBED + b"p" + message + NO_ELEMENTS + b"px" + trace + name + b"p"
    assert serialized_throwable("OSError", "no disk", "at") == expected


def test_texts_are_in_the_utf_8_of_java():
    assert b"t\x00\x02\xc0\x80" in serialized_throwable("E", "\0", "")
    assert b"t\x00\x06\xed\xa0\xbd\xed\xb8\x80" in serialized_throwable("E", "\U0001f600", "")
    long = serialized_throwable("E", "", "x" * 70_000)
    assert b"\x7c\x00\x00\x00\x00\x00\x01\x11\x70xxx" in long
