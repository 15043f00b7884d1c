"""Stores RocksDB databases in checkpoints: each file is uploaded once, and later checkpoints refer to it."""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
import zlib
from typing import TYPE_CHECKING

from flintstream.runtime.checkpoint.metadata import CorruptCheckpointError, DatabaseHandle, Piece

if TYPE_CHECKING:
    from flintstream.runtime.checkpoint.storage import Storage
    from flintstream.runtime.state.rocksdb.checkpoint import RocksDBCheckpoint

_CHUNK = 1 << 20


class SharedFiles:
    """The database files that a slot has stored and that the next checkpoint may refer to.

    Only files of the last checkpoint known to be complete: others may be removed.
    """

    def __init__(self) -> None:
        self._stored: dict[int, dict[str, Piece]] = {}
        self._safe: dict[str, Piece] = {}

    def find(self, identity: str | None) -> Piece | None:
        """Returns where a file is stored already, or None."""
        return None if identity is None else self._safe.get(identity)

    def add(self, checkpoint_id: int, handle: DatabaseHandle) -> None:
        """Records the files that a checkpoint refers to."""
        files = self._stored.setdefault(checkpoint_id, {})
        files.update({identity: handle.files[name] for name, identity in handle.identities.items()})

    def completed(self, checkpoint_id: int) -> None:
        """Marks a checkpoint as complete."""
        if checkpoint_id in self._stored:
            self._safe = self._stored[checkpoint_id]
        self._stored = {number: files for number, files in self._stored.items() if number > checkpoint_id}


def fetch_database(handle: DatabaseHandle, storage: Storage | None, directory: str) -> RocksDBCheckpoint:
    """Downloads the files of a database into a local directory."""
    from flintstream.runtime.state.rocksdb.checkpoint import RocksDBCheckpoint, RocksDBFile

    local = os.path.join(directory, f"restored-{uuid.uuid4().hex}")
    os.makedirs(local)
    try:
        for name, piece in handle.files.items():
            _fetch(piece, storage, os.path.join(local, name))
    except BaseException:
        shutil.rmtree(local, ignore_errors=True)
        raise
    files = tuple(RocksDBFile(name, piece.size, handle.identities.get(name)) for name, piece in handle.files.items())
    return RocksDBCheckpoint(local, range(*handle.key_groups), files, handle.states, handle.numbers)


def _fetch(piece: Piece, storage: Storage | None, target: str) -> None:
    location = "the metadata"
    if piece.data is not None:
        with open(target, "wb") as file:
            file.write(piece.data)
    else:
        assert storage is not None and piece.path is not None
        location = storage.locate(piece.path)
        try:
            storage.download(piece.path, target)
        except FileNotFoundError as error:
            raise CorruptCheckpointError(f"{location}, a file of the checkpoint, is missing") from error
    checksum, digest = file_sums(target, piece.digest is not None)
    piece.check(os.path.getsize(target), checksum, digest, location)


def file_sums(path: str, with_digest: bool) -> tuple[int, bytes | None]:
    """Returns the CRC-32 of a file, and its SHA-256 if requested."""
    checksum = 0
    digest = hashlib.sha256() if with_digest else None
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            checksum = zlib.crc32(chunk, checksum)
            if digest is not None:
                digest.update(chunk)
    return checksum, None if digest is None else digest.digest()
