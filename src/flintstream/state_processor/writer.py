"""SavepointWriter: new savepoints, from data or from existing ones, written by Spark."""

from __future__ import annotations

import pickle
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from flintstream.common.config_options import ConfigOption
from flintstream.common.configuration import Configuration
from flintstream.common.job_id import JobID
from flintstream.common.keys import DEFAULT_MAX_PARALLELISM
from flintstream.common.pickling import dumps, dumps_by_value
from flintstream.datastream.data_stream import DataStream
from flintstream.datastream.state_backend import StateBackend
from flintstream.runtime.checkpoint.metadata import (
    METADATA,
    CheckpointMetadata,
    DatabaseHandle,
    OperatorState,
    SubtaskState,
)
from flintstream.runtime.checkpoint.pieces import CheckpointTarget
from flintstream.runtime.checkpoint.settings import CheckpointSettings
from flintstream.runtime.checkpoint.signing import SigningKeys
from flintstream.runtime.checkpoint.storage import Storage, StorageError, storage_at
from flintstream.runtime.faults import UserCodeError
from flintstream.state_processor.bootstrap import StateBootstrapTransformation, checked_max_parallelism
from flintstream.state_processor.operator_identifier import OperatorIdentifier
from flintstream.state_processor.reader import Identifier, Place
from flintstream.state_processor.savepoint import Savepoint, StateNotFoundError, StoredOperator
from flintstream.state_processor.shares import Share, subtask_share

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from flintstream.datastream.stream_execution_environment import StreamExecutionEnvironment
    from flintstream.state_processor.bootstrap_tasks import Destination

CLAIM = "_in_progress"
"""The file by which a writer owns the directory of a savepoint until it is complete."""
_BLOCK_RECORDS = 4096


class SavepointWriter:
    """Writes a savepoint whose operators are made from data, or taken from an existing savepoint or checkpoint.

    Example::

        (SavepointWriter.from_existing_savepoint(spark, "/savepoints/savepoint-5f01de-2a34")
            .remove_operator("counts")
            .with_operator("counts", transformation)
            .change_operator_identifier(OperatorIdentifier.for_uid("old"), OperatorIdentifier.for_uid("new"))
            .write("/savepoints/changed"))

    A job restores it as any other savepoint: at any parallelism, with any state backend.
    """

    def __init__(self, place: Place, max_parallelism: int, existing: Savepoint | None) -> None:
        self._place = place
        self._max_parallelism = max_parallelism
        self._existing = existing
        self._kept: dict[str, StoredOperator] = {}
        """The operators of the existing savepoint, by their ids."""
        for operator in () if existing is None else existing.operators():
            self._kept[operator.operator_id] = operator
        self._made: dict[OperatorIdentifier, StateBootstrapTransformation] = {}
        self._changes: dict[str, tuple[OperatorIdentifier, OperatorIdentifier]] = {}
        """The changes of identifiers, by the id of the operator."""

    @staticmethod
    def new_savepoint(
        env: SparkSession | StreamExecutionEnvironment,
        state_backend: StateBackend | int | None = None,
        max_parallelism: int = DEFAULT_MAX_PARALLELISM,
    ) -> SavepointWriter:
        """Starts an empty savepoint.

        :param env: the Spark session, or an environment whose Spark session and configuration are used.
        :param state_backend: where state is while it is made: with `EmbeddedRocksDBStateBackend()`, on disk. May be left
            out: `new_savepoint(spark, 128)`.
        :param max_parallelism: the number of key groups, an upper bound for the parallelism of the job.
        """
        only_number = isinstance(state_backend, int)
        most = checked_max_parallelism("new_savepoint", state_backend if only_number else max_parallelism)
        return SavepointWriter(Place.of(env, None if only_number else state_backend), most, None)

    @staticmethod
    def from_existing_savepoint(
        env: SparkSession | StreamExecutionEnvironment, path: str, state_backend: StateBackend | None = None
    ) -> SavepointWriter:
        """Starts with all operators of a savepoint or checkpoint. Its files are copied; it stays unchanged.

        New operators have as many key groups as the operator of the existing savepoint that has most.
        """
        place = Place.of(env, state_backend)
        existing = Savepoint.read(path, place.configuration)
        most = max((each.max_parallelism for each in existing.metadata.operators.values()), default=None)
        return SavepointWriter(place, most or DEFAULT_MAX_PARALLELISM, existing)

    def with_operator(self, identifier: Identifier, transformation: StateBootstrapTransformation) -> SavepointWriter:
        """Adds an operator whose state is made from data."""
        if not isinstance(transformation, StateBootstrapTransformation):
            raise TypeError(
                f"with_operator: expected a StateBootstrapTransformation, got {transformation!r}: make one with "
                "OperatorTransformation.bootstrap_with(data)"
            )
        added = OperatorIdentifier.of(identifier)
        if added.operator_id in self._ids():
            raise ValueError(f"with_operator: the savepoint has an operator with the {added} already: remove it first")
        self._made[added] = transformation
        return self

    def remove_operator(self, identifier: Identifier) -> SavepointWriter:
        """Removes an operator."""
        removed = self._find("remove_operator", identifier)
        if removed.operator_id in self._kept:
            del self._kept[removed.operator_id]
        else:
            self._made = {each: made for each, made in self._made.items() if each.operator_id != removed.operator_id}
        return self

    def change_operator_identifier(self, from_: Identifier, to: Identifier) -> SavepointWriter:
        """Gives an operator another uid, under which a changed program finds its state.

        As in Flink, identifiers are changed when all else is done, and all at once: so two operators may exchange theirs,
        and other methods know an operator by the one it had.
        """
        old = OperatorIdentifier.of(from_)
        self._changes[old.operator_id] = old, OperatorIdentifier.of(to)
        return self

    def with_configuration(self, option: ConfigOption[Any] | str, value: Any) -> SavepointWriter:
        """Sets an option for writing: where RocksDB works, the keys that sign, the mode of files."""
        changed = Configuration().set(option, value).to_dict()
        self._place = replace(self._place, overrides={**self._place.overrides, **changed})
        return self

    def _ids(self) -> set[str]:
        return self._kept.keys() | {each.operator_id for each in self._made}

    def _find(self, method: str, identifier: Identifier) -> OperatorIdentifier:
        wanted = OperatorIdentifier.of(identifier)
        if wanted.operator_id not in self._ids():
            uids = [each.uid for each in self._made] + [each.state.uid for each in self._kept.values()]
            known = ", ".join(f"'{uid}'" for uid in uids if uid) or "none"
            raise StateNotFoundError(f"{method}: the savepoint has no operator with the {wanted}; it has {known}")
        return wanted

    def _changed(self) -> dict[str, OperatorIdentifier]:
        """Returns the new identifiers of operators, by their ids; raises if two operators would have the same."""
        for old, _ in self._changes.values():
            self._find("change_operator_identifier", old)
        changed = {operator_id: new for operator_id, (_, new) in self._changes.items()}
        taken = self._ids() - changed.keys()
        for new in changed.values():
            if new.operator_id in taken:
                raise ValueError(f"change_operator_identifier: two operators would have the {new}")
            taken.add(new.operator_id)
        return changed

    # --- writing ---

    def write(self, path: str) -> str:
        """Writes the savepoint into a directory that is empty or does not exist; returns its path.

        Runs Spark jobs, and returns when the savepoint is complete. If one fails, nothing is left behind.
        """
        if not self._ids():
            raise ValueError(f"write({path!r}): the savepoint has no operators: add some with with_operator()")
        changed = self._changed()
        settings = CheckpointSettings.of(self._place.configuration)
        keys = SigningKeys.read_if(settings.signing_key_file)
        storage = storage_at(path, settings.permissions)
        with _claimed(storage) as claim:
            target = CheckpointTarget(
                storage,
                inline_size=settings.inline_size,
                signed=keys is not None,
                compressed=settings.compressed,
            )
            metadata = self._written(target, changed)
            # What a failed attempt of a task has written before it was repeated.
            claim.keep_only(metadata.files())
            if not storage.create(METADATA, metadata.to_bytes(keys)):
                raise StorageError(f"write: savepoint {storage.root} exists already")
        return path

    def _written(self, target: CheckpointTarget, changed: dict[str, OperatorIdentifier]) -> CheckpointMetadata:
        from flintstream.state_processor.bootstrap_tasks import Destination

        before = None if self._existing is None else self._existing.metadata
        now = time.time_ns() // 1_000_000
        checkpoint_id = 1 if before is None else before.checkpoint_id
        destination = Destination(target, checkpoint_id, now)
        spark = self._place.spark
        operators = self._copied(spark, destination, changed)
        for given, transformation in self._made.items():
            identifier = changed.get(given.operator_id, given)
            operators[identifier.operator_id] = self._bootstrapped(spark, identifier, transformation, destination)
        return CheckpointMetadata(
            checkpoint_id,
            now,
            str(JobID()) if before is None else before.job_id,
            "state processor" if before is None else before.job_name,
            True,
            operators,
        )

    def _copied(
        self, spark: SparkSession, destination: Destination, changed: dict[str, OperatorIdentifier]
    ) -> dict[str, OperatorState]:
        from flintstream.state_processor.bootstrap_tasks import CopyState
        from flintstream.state_processor.frames import share_rows, user_code

        found: dict[str, dict[int, SubtaskState]] = {operator_id: {} for operator_id in self._kept}
        work: list[tuple[str, int, Share]] = [
            (operator_id, subtask, subtask_share(operator, subtask))
            for operator_id, operator in self._kept.items()
            for subtask in operator.state.subtasks
        ]
        on_spark = [(number, share) for number, (_, _, share) in enumerate(work) if _has_files(share)]
        for operator_id, subtask, share in work:
            if not _has_files(share):
                found[operator_id][subtask] = share.operator.subtasks[subtask]  # All of it is in the metadata.
        if on_spark:
            copy = CopyState(dumps(user_code(spark)), destination)
            frame = share_rows(spark, on_spark).repartitionById(len(work), "partition")
            for row in frame.mapInArrow(copy, "subtask INT, state BINARY").collect():
                operator_id, subtask, _ = work[row[0]]
                found[operator_id][subtask] = _stored(row[1])
        copied: dict[str, OperatorState] = {}
        for operator_id, operator in self._kept.items():
            identifier = changed.get(operator_id) or OperatorIdentifier(operator_id, operator.state.uid)
            subtasks = dict(sorted(found[operator_id].items()))
            copied[identifier.operator_id] = replace(operator.state, uid=identifier.uid, subtasks=subtasks)
        return copied

    def _bootstrapped(
        self,
        spark: SparkSession,
        identifier: OperatorIdentifier,
        made: StateBootstrapTransformation,
        destination: Destination,
    ) -> OperatorState:
        from flintstream.state_processor.bootstrap_tasks import MakeState, Records, RouteByKey
        from flintstream.state_processor.frames import user_code

        most = made.max_parallelism or self._max_parallelism
        parallelism = 1 if made.alone else min(most, spark.sparkContext.defaultParallelism)
        frame, fields = _frame_of(spark, made.data)
        records = Records(fields, None if made.timestamps is None else made.timestamps.data)
        code, name = dumps(user_code(spark)), identifier.uid or identifier.operator_id
        if made.partitioner is not None:
            route = RouteByKey(code, records, dumps_by_value(made.partitioner), name, parallelism, most)
            blocks = frame.mapInArrow(route, "subtask INT, channel INT, seq BIGINT, block BINARY")
            frame = blocks.repartitionById(parallelism, "subtask").sortWithinPartitions("channel", "seq")
        else:
            frame = frame.coalesce(parallelism)
        make = MakeState(
            code,
            dumps_by_value(made.operator),
            name,
            identifier.operator_id,
            parallelism,
            most,
            destination,
            None if made.partitioner is not None else records,
            *self._place.backend,
        )
        rows = frame.mapInArrow(make, "subtask INT, state BINARY").collect()
        subtasks = {row[0]: _stored(row[1]) for row in sorted(rows, key=lambda row: row[0])}
        return OperatorState(name, identifier.uid, parallelism, most, subtasks)


def _stored(data: bytes) -> SubtaskState:
    """Returns the state that a task has stored; raises what the user's code has raised there."""
    found = pickle.loads(data)
    if isinstance(found, UserCodeError):
        raise found from found.fault.load_exception()
    assert isinstance(found, SubtaskState)
    return found


def _has_files(share: Share) -> bool:
    """Returns whether some of a subtask's state has to be copied, or converted."""
    (state,) = share.operator.subtasks.values()
    return bool(state.files()) or any(isinstance(handle, DatabaseHandle) for handle in state.keyed)


def _frame_of(spark: SparkSession, data: Any) -> tuple[DataFrame, tuple[str, ...] | None]:
    """Returns data as a DataFrame with its columns; a stream as one of blocks of records."""
    if not isinstance(data, DataStream):
        return data, tuple(data.columns)
    blocks = []
    with data.execute_and_collect("bootstrap") as results:
        found = iter(results)
        while records := list(islice(found, _BLOCK_RECORDS)):
            blocks.append((bytearray(dumps(records)),))
    return spark.createDataFrame(blocks, "block BINARY"), None


class _Claim:
    """The ownership of a directory, proven by the content of a file."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._owner = uuid.uuid4().hex.encode()

    def take(self) -> None:
        """Claims the directory; raises if it is not empty, or another writer has claimed it."""
        if self._storage.names():
            raise FileExistsError(f"write: {self._storage.root} is not empty: a savepoint needs its own directory")
        if not self._storage.create(CLAIM, self._owner):
            raise FileExistsError(f"write: another savepoint is being written into {self._storage.root}")

    def check(self) -> None:
        """Raises unless the directory is still owned."""
        if self._storage.read(CLAIM) != self._owner:
            raise StorageError(f"write: {self._storage.root} was taken over by another writer")

    def keep_only(self, files: set[str]) -> None:
        """Removes all other files, which tasks of this writer have written."""
        self.check()
        for name in self._storage.names():
            if name != CLAIM and name not in files:
                self._storage.remove(name)

    def release(self) -> None:
        """Ends the ownership."""
        self.check()
        self._storage.remove(CLAIM)

    def discard(self) -> None:
        """Removes all files, and ends the ownership."""
        self.keep_only(set())
        self.release()


@contextmanager
def _claimed(storage: Storage) -> Iterator[_Claim]:
    """Owns a directory for as long as a savepoint is written into it."""
    claim = _Claim(storage)
    claim.take()
    try:
        yield claim
    except BaseException:
        claim.discard()
        raise
    claim.release()
