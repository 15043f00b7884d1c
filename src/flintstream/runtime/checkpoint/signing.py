"""SigningKeys: sign checkpoints and savepoints, and verify that they were written with one of the keys.

Restoring unpickles, and so can run arbitrary code. The signature covers the metadata, which contain a digest of every
other file: without a key, write access to the storage is not enough to inject code.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
from dataclasses import dataclass, field

from flintstream.common.flint_options import SIGNING_KEY_FILE

SIGNATURE_SIZE = 40
UNSIGNED = bytes(SIGNATURE_SIZE)
_ID_SIZE = 8
_SHORTEST_KEY = 32


class SigningKeyError(ValueError):
    """The key file cannot be used; the message names it."""


class SignatureError(ValueError):
    """A signature is missing or invalid; the message says why."""


@dataclass(frozen=True)
class SigningKeys:
    """The first key signs, and all verify. To rotate keys, put the new one first, and remove an old one when nothing
    that it signed is left.
    """

    keys: tuple[bytes, ...] = field(repr=False)
    file: str

    @staticmethod
    def read(path: str) -> SigningKeys:
        """Reads the keys in a file, one per line; empty lines and lines that begin with # are ignored."""
        option = f"{SIGNING_KEY_FILE.key}: {path}"
        try:
            with open(path, "rb") as file:
                _check_private(option, os.fstat(file.fileno()))
                lines = [line.strip() for line in file.read().splitlines()]
        except OSError as error:
            raise SigningKeyError(f"{option} cannot be read: {error.strerror}") from error
        keys = tuple(line for line in lines if line and not line.startswith(b"#"))
        if not keys:
            raise SigningKeyError(f"{option} has no key: generate one with `openssl rand -hex 32`")
        if any(len(key) < _SHORTEST_KEY for key in keys):
            raise SigningKeyError(
                f"{option} has a key of fewer than {_SHORTEST_KEY} characters: make one with `openssl rand -hex 32`"
            )
        return SigningKeys(keys, path)

    @staticmethod
    def read_if(path: str | None) -> SigningKeys | None:
        """Reads the keys in a file; None if no file is set."""
        return None if path is None else SigningKeys.read(path)

    def sign(self, *data: bytes) -> bytes:
        """Returns the signature of some bytes: the id of the key and the HMAC."""
        return _signature(self.keys[0], data)

    def verify(self, signature: bytes, *data: bytes) -> None:
        """Raises unless the bytes were signed with one of the keys."""
        if signature == UNSIGNED:
            raise SignatureError(f"is not signed, but {SIGNING_KEY_FILE.key} is set")
        key = next((key for key in self.keys if _id(key) == signature[:_ID_SIZE]), None)
        if key is None:
            raise SignatureError(f"was signed with a key that is not in {self.file}")
        if not hmac.compare_digest(_signature(key, data), signature):
            raise SignatureError("was altered: its signature is wrong")


def _check_private(option: str, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise SigningKeyError(f"{option} is not a file")
    if found.st_mode & 0o077:
        mode = stat.S_IMODE(found.st_mode)
        raise SigningKeyError(
            f"{option} has the mode {mode:04o}, so that other users can read its keys: `chmod 600` it"
        )
    if found.st_uid not in (os.geteuid(), 0):
        raise SigningKeyError(f"{option} belongs to another user, who can use its keys")


def _signature(key: bytes, data: tuple[bytes, ...]) -> bytes:
    proof = hmac.new(key, digestmod=hashlib.sha256)
    for each in data:
        proof.update(each)
    return _id(key) + proof.digest()


def _id(key: bytes) -> bytes:
    return hashlib.sha256(b"flint signing key\0" + key).digest()[:_ID_SIZE]
