"""SigningKeys: by them a driver recognises the checkpoints and savepoints that it, or one with the same keys, has written.

Restoring runs what was pickled. The signature is over the metadata, which have a digest of every other file; so whoever can
write to the storage and does not know a key can make nobody run anything.
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
    """The file with the keys cannot be used; the message names it."""


class SignatureError(ValueError):
    """Something was not signed with one of the keys; the message says why."""


@dataclass(frozen=True)
class SigningKeys:
    """The first key signs, and what was signed with any of them is accepted: a new key is put first, and old ones are
    removed when nothing is left that they have signed."""

    keys: tuple[bytes, ...] = field(repr=False)
    file: str

    @staticmethod
    def read(path: str) -> SigningKeys:
        """The keys in a file, one a line; lines that are empty or begin with # do not count."""
        option = f"{SIGNING_KEY_FILE.key}: {path}"
        try:
            with open(path, "rb") as file:
                _check_private(option, os.fstat(file.fileno()))
                lines = [line.strip() for line in file.read().splitlines()]
        except OSError as error:
            raise SigningKeyError(f"{option} cannot be read: {error.strerror}") from error
        keys = tuple(line for line in lines if line and not line.startswith(b"#"))
        if not keys:
            raise SigningKeyError(f"{option} has no key: write one there with `openssl rand -hex 32`")
        if any(len(key) < _SHORTEST_KEY for key in keys):
            raise SigningKeyError(
                f"{option} has a key of fewer than {_SHORTEST_KEY} characters: make one with `openssl rand -hex 32`"
            )
        return SigningKeys(keys, path)

    @staticmethod
    def read_if(path: str | None) -> SigningKeys | None:
        """The keys in a file; None if none is set."""
        return None if path is None else SigningKeys.read(path)

    def sign(self, *parts: bytes) -> bytes:
        """The signature of some bytes: which key it is, and the proof."""
        return _signature(self.keys[0], parts)

    def verify(self, signature: bytes, *parts: bytes) -> None:
        """Refuses what was not signed with one of the keys."""
        if signature == UNSIGNED:
            raise SignatureError(f"is not signed, and {SIGNING_KEY_FILE.key} is set")
        key = next((key for key in self.keys if _id(key) == signature[:_ID_SIZE]), None)
        if key is None:
            raise SignatureError(f"was signed with a key that is not in {self.file}")
        if not hmac.compare_digest(_signature(key, parts), signature):
            raise SignatureError("was altered: its signature is wrong")


def _check_private(option: str, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise SigningKeyError(f"{option} is not a file")
    if found.st_mode & 0o077:
        mode = stat.S_IMODE(found.st_mode)
        raise SigningKeyError(f"{option} has the mode {mode:04o}, so that others may use its keys: `chmod 600` it")
    if found.st_uid not in (os.geteuid(), 0):
        raise SigningKeyError(f"{option} belongs to another user, who may use its keys")


def _signature(key: bytes, parts: tuple[bytes, ...]) -> bytes:
    proof = hmac.new(key, digestmod=hashlib.sha256)
    for part in parts:
        proof.update(part)
    return _id(key) + proof.digest()


def _id(key: bytes) -> bytes:
    return hashlib.sha256(b"flint signing key\0" + key).digest()[:_ID_SIZE]
