"""The state backends available to tests."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

from flintstream.runtime.checkpoint.snapshot import OperatorSnapshot
from flintstream.runtime.deployment import OperatorDeployment
from flintstream.runtime.slot.task import Task
from flintstream.runtime.state.backend import KeyedStateBackend
from flintstream.runtime.state.heap import HeapKeyedStateBackend
from flintstream.runtime.state.rocksdb.backend import RocksDBKeyedStateBackend
from flintstream.runtime.state.rocksdb.options import RocksDBOptions

HASHMAP, ROCKSDB = "hashmap", "rocksdb"
_SMALL = RocksDBOptions(memory=1 << 20)
"""A cache small enough to be full now and then."""


def make_backend(
    kind: str, operator: str, max_parallelism: int, clock: Callable[[], int], key_groups: range | None = None
) -> KeyedStateBackend:
    """Returns a backend for keyed state: `hashmap` or `rocksdb`, as in `state.backend.type`."""
    if kind == HASHMAP:
        return HeapKeyedStateBackend(operator, max_parallelism, clock, key_groups)
    if kind == ROCKSDB:
        directory = os.path.join(_directory().name, uuid.uuid4().hex)
        return RocksDBKeyedStateBackend(operator, max_parallelism, clock, key_groups, directory, _SMALL)
    raise ValueError(f"state_backend must be {HASHMAP!r} or {ROCKSDB!r}, got {kind!r}")


@cache
def _directory() -> tempfile.TemporaryDirectory[str]:
    """Returns the directory of databases and their checkpoints, which is removed when the tests end."""
    return tempfile.TemporaryDirectory(prefix="flintstream-rocksdb-", ignore_cleanup_errors=True)


def kept(snapshot: OperatorSnapshot) -> OperatorSnapshot:
    """Returns the snapshot for a single restore: restoring a database moves its files."""
    if snapshot.database is None:
        return snapshot
    directory = os.path.join(_directory().name, uuid.uuid4().hex)
    shutil.copytree(snapshot.database.directory, directory)
    return replace(snapshot, database=replace(snapshot.database, directory=directory))


class TaskUnderTest(Task):
    """A task whose keyed state is in the backend chosen by a test."""

    def __init__(self, state_backend: str, *arguments: Any) -> None:
        self._state_backend = state_backend
        super().__init__(*arguments)

    def _keyed_state(self, deployed: OperatorDeployment) -> KeyedStateBackend:
        groups = super()._keyed_state(deployed).key_groups
        clock = self._services.clock
        return make_backend(self._state_backend, deployed.name, self.vertex.max_parallelism, clock, groups)
