"""Servers of databases: the machine's own, or those of Debian's packages."""

from __future__ import annotations

import signal
from abc import abstractmethod
from pathlib import Path
from typing import Any

from flintstream.testing.servers import NotAvailable, Server, free_port

from .debian import library_path, unpack

__all__ = ["DatabaseServer", "NotAvailable", "Server", "free_port"]


class DatabaseServer(Server):
    """A server that the machine has, or else one of Debian's packages."""

    not_needed: tuple[str, ...]
    """How the names of packages start that it runs without."""
    crash_signal = signal.SIGQUIT
    refuses_root = True

    @abstractmethod
    def connect(self) -> Any:
        """A connection of the test, which commits each statement."""

    @abstractmethod
    def _programs(self, root: Path) -> Path | None:
        """The directory below which the server's programs are, if they are there."""

    def _probe(self) -> None:
        self.connect().close()

    def _find_programs(self, cache: Path) -> None:
        found = self._programs(Path("/"))
        if found is None:
            unpacked = self._directory / "unpacked"
            unpack(self.package, cache / self.package, unpacked, self.not_needed)
            self._environment["LD_LIBRARY_PATH"] = library_path(unpacked)
            found = self._programs(unpacked)
        if found is None:
            raise NotAvailable(f"Debian's package {self.package} lacks the server")
        self._found = found
