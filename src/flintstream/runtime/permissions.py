"""Permissions: the modes of files that a job writes on the disks of its machines."""

from __future__ import annotations

import os
from enum import Enum
from typing import IO


class Permissions(Enum):
    """The modes of new files and directories. Existing ones keep theirs."""

    OWNER = (0o600, 0o700)
    """Only the user who runs the job has access."""
    GROUP = (0o640, 0o750)
    """Members of the directory's group may read, whatever the process's umask."""
    UMASK = (0o666, 0o777)
    """The process's umask applies."""

    def make_directory(self, path: str) -> None:
        """Creates a directory and its missing parents."""
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
                return  # Another process has created it.
            raise
        if self is Permissions.GROUP:
            # Added to the existing mode, to preserve the setgid bit.
            os.chmod(path, (os.stat(path).st_mode & 0o7777) | mode)

    def create_file(self, path: str) -> IO[bytes]:
        """Creates a file for writing; raises if it exists."""
        mode = self.value[0]
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            if self is Permissions.GROUP:
                os.fchmod(descriptor, mode)
            return open(descriptor, "wb")
        except BaseException:
            os.close(descriptor)
            raise
