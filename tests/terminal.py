"""Programs that run on a terminal, for tests of what people see."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time
from collections.abc import Sequence


class Terminal:
    """A program whose standard error, and perhaps its output, is a terminal; `seen` is what it has shown so far."""

    def __init__(self, command: Sequence[str], all_output: bool = False, columns: int = 120) -> None:
        self._master, slave = pty.openpty()
        environment = {**os.environ, "COLUMNS": str(columns)}
        environment.pop("FLINT_PROGRESS", None)
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=slave if all_output else subprocess.PIPE,
            stderr=slave,
            env=environment,
        )
        os.close(slave)
        self.seen = ""

    def wait_for(self, text: str, seconds: float = 100.0) -> None:
        """Reads until the text was shown."""
        deadline = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < deadline, f"{text!r} was not shown: {self.seen!r}"
            if not self._read():
                raise AssertionError(f"the program has ended and not shown {text!r}: {self.seen!r}")

    def wait(self, seconds: float = 100.0) -> int:
        """Reads all that is left; gives the exit code."""
        deadline = time.monotonic() + seconds
        while self._read():
            assert time.monotonic() < deadline, f"the program does not end: {self.seen!r}"
        return self.process.wait(seconds)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._master], [], [], 1.0)
        if not ready:
            return True
        try:
            data = os.read(self._master, 65536)
        except OSError:  # Linux says so when nobody holds the other side any more.
            return False
        self.seen += data.decode(errors="replace")
        return bool(data)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


def rows(shown: str) -> list[str]:
    """What stands on the rows of the terminal in the end: a row that was erased is gone."""
    return [row.rpartition("\x1b[2K")[2].strip("\r") for row in shown.split("\n")]
