"""Signed checkpoints: what was not signed with one of the keys, or altered since, is refused before it is unpickled."""

from __future__ import annotations

import hashlib
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.runtime.checkpoint import metadata as module
from flintstream.runtime.checkpoint.databases import SharedFiles, fetch_database
from flintstream.runtime.checkpoint.metadata import (
    CheckpointMetadata,
    CorruptCheckpointError,
    DatabaseHandle,
    OperatorState,
    Piece,
    SubtaskState,
    is_signed,
)
from flintstream.runtime.checkpoint.pieces import CheckpointTarget, PieceWriter, RestoredOperators, read_piece
from flintstream.runtime.checkpoint.settings import CheckpointSettings
from flintstream.runtime.checkpoint.signing import SignatureError, SigningKeyError, SigningKeys
from flintstream.runtime.checkpoint.snapshot import OperatorSnapshot, StoredOperatorState
from flintstream.runtime.checkpoint.storage import LocalStorage
from flintstream.runtime.checkpoint.store import read_checkpoint
from flintstream.runtime.state.rocksdb.checkpoint import RocksDBCheckpoint, RocksDBFile

FIRST, SECOND, THIRD = (letter * 64 for letter in "abc")


def key_file(path: Path, *keys: str, mode: int = 0o600) -> str:
    path.write_text("\n".join(("# the keys", "", *keys, "")))
    path.chmod(mode)
    return str(path)


@pytest.fixture
def keys(tmp_path: Path) -> SigningKeys:
    return SigningKeys.read(key_file(tmp_path / "keys", FIRST))


# --- the file with the keys ---


def test_the_first_key_signs_and_all_verify(tmp_path):
    old = SigningKeys.read(key_file(tmp_path / "old", FIRST))
    both = SigningKeys.read(key_file(tmp_path / "both", SECOND, FIRST))
    new = SigningKeys.read(key_file(tmp_path / "new", SECOND))
    both.verify(old.sign(b"a", b"b"), b"a", b"b")
    new.verify(both.sign(b"a"), b"a")
    with pytest.raises(SignatureError, match="was signed with a key that is not in .*/new"):
        new.verify(old.sign(b"a"), b"a")
    with pytest.raises(SignatureError, match="its signature is wrong"):
        new.verify(new.sign(b"a"), b"b")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_keys_that_others_can_read_are_refused(tmp_path, mode):
    with pytest.raises(
        SigningKeyError, match=rf"has the mode {mode:04o}, so that other users can read its keys: `chmod 600` it"
    ):
        SigningKeys.read(key_file(tmp_path / "keys", FIRST, mode=mode))


def test_empty_and_short_and_missing_keys_are_refused(tmp_path):
    with pytest.raises(SigningKeyError, match=r"flint\.checkpoints\.signing-key-file: .*/keys has no key"):
        SigningKeys.read(key_file(tmp_path / "keys"))
    with pytest.raises(SigningKeyError, match="has a key of fewer than 32 characters"):
        SigningKeys.read(key_file(tmp_path / "keys", FIRST, "x" * 31))
    with pytest.raises(SigningKeyError, match="cannot be read: No such file"):
        SigningKeys.read(str(tmp_path / "missing"))
    with pytest.raises(SigningKeyError, match="cannot be read: Is a directory"):
        SigningKeys.read(str(tmp_path))


def test_the_setting_names_the_file_and_keys_are_not_shown(tmp_path, keys):
    settings = CheckpointSettings.of({"flint.checkpoints.signing-key-file": "/etc/flint/keys"})
    assert settings.signing_key_file == "/etc/flint/keys"
    assert SigningKeys.read_if(CheckpointSettings().signing_key_file) is None
    assert FIRST not in repr(keys)


# --- the metadata ---


def example(**changes: Any) -> CheckpointMetadata:
    state = SubtaskState((), Piece(5, 0, None, "shared/file", 0, hashlib.sha256(b"state").digest()))
    operator = OperatorState("count", "uid", 1, 128, {0: state}, source=b"position")
    return replace(CheckpointMetadata(7, 0, "j" * 32, "my job", True, {"c" * 32: operator}), **changes)


CONTENT = example().to_bytes(SigningKeys((FIRST.encode(),), "keys"))


def test_signed_metadata_are_read_with_the_key_and_without(keys):
    assert CheckpointMetadata.from_bytes(CONTENT, "there", keys) == example()
    assert CheckpointMetadata.from_bytes(CONTENT, "there") == example()
    assert is_signed(CONTENT) and not is_signed(example().to_bytes())


@given(st.integers(0, len(CONTENT) - 1), st.integers(1, 255), st.booleans())
def test_whatever_byte_is_altered_the_file_is_refused_by_name(place, change, mended):
    altered = bytearray(CONTENT)
    altered[place] ^= change
    if mended:  # Whoever alters a file can make its checksum fit, but not its signature.
        size = module._HEADER.size
        altered[size - 32 : size] = hashlib.sha256(altered[size:]).digest()
        if bytes(altered) == CONTENT:
            return
    with pytest.raises(CorruptCheckpointError, match=r"^/data/_metadata"):
        CheckpointMetadata.from_bytes(bytes(altered), "/data/_metadata", SigningKeys((FIRST.encode(),), "keys"))


def test_unsigned_metadata_are_refused_by_name(keys):
    with pytest.raises(
        CorruptCheckpointError, match=r"^/data/_metadata is not signed, but flint\.checkpoints\.signing"
    ):
        CheckpointMetadata.from_bytes(example().to_bytes(), "/data/_metadata", keys)


def test_the_format_before_is_read_without_keys_and_refused_with_them(keys):
    content = pickle.dumps(example(), 5)
    data = module._HEADER.pack(module._MARK, 1, len(content), hashlib.sha256(content).digest()) + content
    assert CheckpointMetadata.from_bytes(data, "there") == example()
    with pytest.raises(CorruptCheckpointError, match=r"^there is not signed"):
        CheckpointMetadata.from_bytes(data, "there", keys)


def test_pieces_that_were_stored_before_there_were_digests_are_read():
    piece = Piece(1, 2, b"x")
    state = {name: value for name, value in vars(piece).items() if name != "digest"}
    old = Piece.__new__(Piece)
    vars(old).update(state)
    assert pickle.loads(pickle.dumps(old)) == piece


def test_metadata_that_do_not_vouch_for_a_file_are_refused(keys):
    state = SubtaskState((), Piece(5, 0, None, "shared/file"))
    metadata = example(operators={"c" * 32: OperatorState("count", None, 1, 128, {0: state})})
    with pytest.raises(CorruptCheckpointError, match="^there has no digest of its file shared/file"):
        CheckpointMetadata.from_bytes(metadata.to_bytes(keys), "there", keys)


def test_a_savepoint_is_read_only_if_it_is_signed(tmp_path, keys):
    signed, unsigned = (LocalStorage(str(tmp_path / name)) for name in ("signed", "unsigned"))
    metadata = example(operators={})
    signed.write("_metadata", metadata.to_bytes(keys))
    unsigned.write("_metadata", metadata.to_bytes())
    assert read_checkpoint(signed.root, keys)[0] == metadata
    with pytest.raises(CorruptCheckpointError, match=r"/unsigned/_metadata is not signed"):
        read_checkpoint(unsigned.root, keys)


# --- the files ---


class Exploding:
    """What somebody puts into a file whom nobody trusts."""

    def __reduce__(self) -> Any:
        return exec, ("raise SystemExit('it ran')",)


def forge(path: Path, data: bytes, piece: Piece) -> Piece:
    """Replaces a file, and all that metadata say of it but the digest, which is signed."""
    path.write_bytes(data)
    return replace(piece, size=len(data), checksum=module.zlib.crc32(data))


def test_a_file_that_was_replaced_is_refused_before_it_is_unpickled(tmp_path):
    storage = LocalStorage(str(tmp_path))
    snapshot = OperatorSnapshot(operator={"buffer": StoredOperatorState("split", {}, [b"x" * 100])})
    target = CheckpointTarget(storage, "chk-1", "shared", inline_size=10, signed=True)
    state = PieceWriter(target, "count", 0).write(snapshot, None)
    assert state.operator is not None and state.operator.digest is not None
    restored = RestoredOperators(1, storage, {"c": OperatorState("count", None, 1, 128, {0: state})})
    [[chain]] = restored.chains("c", range(128))
    assert chain.operator == snapshot.operator
    [path] = (tmp_path / "chk-1").iterdir()
    forged = replace(state, operator=forge(path, pickle.dumps(Exploding()), state.operator))
    restored = RestoredOperators(1, storage, {"c": OperatorState("count", None, 1, 128, {0: forged})})
    with pytest.raises(CorruptCheckpointError, match=r"chk-1/.* was altered: it is not what was signed"):
        restored.chains("c", range(128))


def test_each_group_of_keyed_state_has_a_digest(tmp_path):
    storage = LocalStorage(str(tmp_path))
    groups = {number: b"%d" % number * 50 for number in range(3)}
    target = CheckpointTarget(storage, "chk-1", "shared", inline_size=10, signed=True)
    state = PieceWriter(target, "count", 0).write(OperatorSnapshot(groups=groups), SharedFiles())
    pieces = state.pieces()
    assert [piece.digest for piece in pieces] == [hashlib.sha256(data).digest() for data in groups.values()]
    assert [read_piece(piece, storage) for piece in pieces] == list(groups.values())
    unsigned = PieceWriter(replace(target, signed=False), "count", 0).write(OperatorSnapshot(groups=groups), None)
    assert [piece.digest for piece in unsigned.pieces()] == [None] * 3


def test_a_file_of_rocksdb_that_was_replaced_is_refused(tmp_path):
    storage = LocalStorage(str(tmp_path / "storage"))
    local = tmp_path / "local"
    local.mkdir()
    (local / "1.sst").write_bytes(b"table" * 100)
    checkpoint = RocksDBCheckpoint(str(local), range(128), (RocksDBFile("1.sst", 500, "id-1"),), {}, {})
    target = CheckpointTarget(storage, "chk-1", "shared", inline_size=10, signed=True)
    state = PieceWriter(target, "count", 0).write(OperatorSnapshot(database=checkpoint), SharedFiles())
    [handle] = state.keyed
    assert isinstance(handle, DatabaseHandle)
    fetched = fetch_database(handle, storage, str(tmp_path))
    assert (Path(fetched.directory) / "1.sst").read_bytes() == b"table" * 100
    [path] = (tmp_path / "storage" / "shared").iterdir()
    forged = replace(handle, files={"1.sst": forge(path, b"other" * 100, handle.files["1.sst"])})
    with pytest.raises(CorruptCheckpointError, match=r"shared/.* was altered: it is not what was signed"):
        fetch_database(forged, storage, str(tmp_path))


def test_a_sum_that_nobody_has_made_is_no_proof():
    with pytest.raises(CorruptCheckpointError, match="not what was signed"):
        Piece(1, 2, None, "file", digest=b"d").check(1, 2, None, "file")
