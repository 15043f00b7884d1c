"""The token's file, for the server and its clients: only its owner may read it."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

__all__ = ["SecurityError", "create_token", "read_token"]

LEAST_TOKEN = 16
"""The length of the shortest token that is accepted."""
_LONGEST_FILE = 4096


class SecurityError(ValueError):
    """A file that the server's safety depends on cannot be used; the message says why."""


def read_token(path: Path) -> str:
    """Returns the token in a file."""
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            data = file.read(_LONGEST_FILE)
    except OSError as error:
        raise SecurityError(f"the token file {path} cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise SecurityError(f"the token file {path} must belong to this user, and nobody else may read it (mode 0600)")
    text = data.decode("ascii", errors="replace").strip()
    if len(text) < LEAST_TOKEN or not text.isascii() or not text.isprintable() or " " in text:
        raise SecurityError(
            f"the token file {path} must hold one line of at least {LEAST_TOKEN} ASCII characters without spaces"
        )
    return text


def create_token(path: Path) -> None:
    """Creates a file with a random token, unless there is one."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return
    except OSError as error:
        raise SecurityError(f"the token file {path} cannot be created: {error.strerror}") from error
    with open(descriptor, "w", encoding="ascii") as file:
        file.write(secrets.token_urlsafe(32) + "\n")
