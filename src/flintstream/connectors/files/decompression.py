"""Decompresses files of formats that Python's own modules have no files for: Zstandard and deflate."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from typing import IO, Any

__all__ = ["DecompressedFile", "deflated", "zstandard"]

_READ_BYTES = 1 << 18


class DecompressedFile(io.RawIOBase):
    """The decompressed bytes of a file. `seek` goes forward only, by reading."""

    def __init__(self, file: IO[bytes], next_bytes: Callable[[], bytes]) -> None:
        self._compressed = file
        self._next_bytes = next_bytes
        """Returns the next bytes; empty at the end."""
        self._ahead = memoryview(b"")
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def readinto(self, buffer: Any) -> int:
        if not self._ahead:
            self._ahead = memoryview(self._next_bytes())
        count = min(len(buffer), len(self._ahead))
        buffer[:count] = self._ahead[:count]
        self._ahead = self._ahead[count:]
        self._position += count
        return count

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence != io.SEEK_SET or offset < self._position:
            raise io.UnsupportedOperation("a compressed file can only be read forward")
        while self._position < offset:
            if not self.read(min(_READ_BYTES, offset - self._position)):
                break
        return self._position

    def close(self) -> None:
        if not self.closed:
            self._compressed.close()
        super().close()


def deflated(file: IO[bytes]) -> DecompressedFile:
    """Returns the content of a file compressed by zlib (`.deflate`), as Java's `InflaterInputStream` reads it."""
    decompressor = zlib.decompressobj()

    def next_bytes() -> bytes:
        while not decompressor.eof:
            data = decompressor.unconsumed_tail or file.read(_READ_BYTES)
            if not data:
                raise EOFError("Compressed file ended before the end-of-stream marker was reached")
            if found := decompressor.decompress(data, _READ_BYTES):
                return found
        return b""

    return DecompressedFile(file, next_bytes)


def zstandard(file: IO[bytes]) -> DecompressedFile:
    """Returns the content of a file compressed by Zstandard (`.zst`)."""
    import pyarrow as pa  # Only when needed: most files are not compressed so.

    stream = pa.CompressedInputStream(file, "zstd")

    def next_bytes() -> bytes:
        try:
            found: bytes = stream.read(_READ_BYTES)
        except OSError as error:
            if "runcated" in str(error):
                raise EOFError(str(error)) from error
            raise
        return found

    return DecompressedFile(file, next_bytes)
