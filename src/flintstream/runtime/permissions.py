"""Permissions: who may read the files that a job writes on the disks of its machines."""

from __future__ import annotations

import os
from enum import Enum
from typing import IO


class Permissions(Enum):
    """The modes of new files and directories. What is there already keeps its own."""

    OWNER = (0o600, 0o700)
    """Nobody but the user who runs the job."""
    GROUP = (0o640, 0o750)
    """The members of the directory's group may read, whatever the process's umask is."""
    UMASK = (0o666, 0o777)
    """As the process's umask says."""

    def make_directory(self, path: str) -> None:
        """Makes a directory, and those above it that are missing."""
        if os.path.isdir(path):
            return
        above = os.path.dirname(os.path.abspath(path))
        if above != path:
            self.make_directory(above)
        mode = self.value[1]
        try:
            os.mkdir(path, mode)
        except FileExistsError:
            if os.path.isdir(path):
                return  # Another process was faster.
            raise
        if self is Permissions.GROUP:
            # Added to what is there: the bit by which a directory passes its group on must stay.
            os.chmod(path, (os.stat(path).st_mode & 0o7777) | mode)

    def create_file(self, path: str) -> IO[bytes]:
        """A new file to write into; fails where there is one."""
        mode = self.value[0]
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            if self is Permissions.GROUP:
                os.fchmod(descriptor, mode)
            return open(descriptor, "wb")
        except BaseException:
            os.close(descriptor)
            raise
