"""Announcement: the file in the registry by which drivers of this machine learn that a server runs, and where to leave
the details of jobs that end.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
from contextlib import suppress
from pathlib import Path

from flintstream.jobmaster.registry_files import check_private, registry_directories
from flintstream.runtime.permissions import Permissions

__all__ = ["Announcement"]

PREFIX = "server-"


class Announcement:
    """The file of this server."""

    def __init__(self, url: str, archive: Path) -> None:
        self._content = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "started": time.time(),
            "url": url,
            "archive": str(archive),
        }
        self._path = registry_directories()[0] / f"{PREFIX}{os.getpid()}.json"

    def publish(self) -> None:
        """Writes the file, and removes those of servers that are gone."""
        directory = self._path.parent
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_private(directory)
        for path in directory.glob(f"{PREFIX}*.json"):
            if not _may_run(path):
                path.unlink(missing_ok=True)
        hidden = self._path.with_suffix(f".{secrets.token_hex(4)}")
        with Permissions.OWNER.create_file(str(hidden)) as file:
            file.write(json.dumps(self._content).encode())
        hidden.replace(self._path)

    def renew(self) -> None:
        """Writes the file again if it was removed, with the directory of temporary files for example."""
        if not self._path.exists():
            self.publish()

    def withdraw(self) -> None:
        """Removes the file."""
        self._path.unlink(missing_ok=True)
        with suppress(OSError):
            self._path.parent.rmdir()


def _may_run(path: Path) -> bool:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["host"] != socket.gethostname():
            return True
        os.kill(int(found["pid"]), 0)
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return True
