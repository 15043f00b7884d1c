"""A bulk format of lines, which cannot be read without its end."""

from __future__ import annotations

from typing import Any

from flintstream.common.serialization import BulkWriterFactory


class Total:
    """Writes each element as a line, and at the end how many there were."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.count = 0

    def add_element(self, element: Any) -> None:
        self.stream.write(f"{element}\n".encode())
        self.count += 1

    def flush(self) -> None:
        self.stream.flush()

    def finish(self) -> None:
        self.stream.write(f"total {self.count}\n".encode())


class Totals(BulkWriterFactory):
    def create(self, stream: Any) -> Total:
        return Total(stream)
