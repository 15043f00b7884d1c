"""Savepoints and checkpoints for the tests, written without a job and without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from flintstream.common import Types
from flintstream.common.keys import key_group_range, subtasks
from flintstream.datastream import KeyedProcessFunction
from flintstream.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from flintstream.graph.operator_ids import operator_id_of_uid
from flintstream.runtime.batch import Batch
from flintstream.runtime.checkpoint.databases import SharedFiles
from flintstream.runtime.checkpoint.metadata import METADATA, CheckpointMetadata, OperatorState, SubtaskState
from flintstream.runtime.checkpoint.pieces import CheckpointTarget, PieceWriter
from flintstream.runtime.checkpoint.storage import storage_at
from flintstream.runtime.operators.base import Operator
from flintstream.runtime.operators.process import ProcessOperator
from flintstream.runtime.services import system_clock
from flintstream.state_processor.reader import Place, _Reader
from flintstream.state_processor.savepoint import Savepoint
from flintstream.state_processor.shares import keyed_shares
from flintstream.state_processor.state_task import StateTask

MAX_PARALLELISM = 16
COUNT = ValueStateDescriptor("count", Types.LONG())
SEEN = ListStateDescriptor("seen", Types.INT())
BY_KIND = MapStateDescriptor("by kind", Types.STRING(), Types.INT())


class Counts(KeyedProcessFunction):
    """Counts the records of each key, with a state of each kind and a timer in both domains."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(COUNT)
        self.seen = runtime_context.get_list_state(SEEN)
        self.by_kind = runtime_context.get_map_state(BY_KIND)

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        self.seen.add(value)
        self.by_kind.put("even" if value % 2 == 0 else "odd", value)
        ctx.timer_service().register_event_time_timer(1000 + value)
        ctx.timer_service().register_processing_time_timer(10**15 + value)


class Steps:
    """An operator in all its subtasks; `feed` sends records, `store` writes a checkpoint or savepoint."""

    def __init__(
        self,
        directory: Path,
        make: Callable[[], Operator] = lambda: ProcessOperator(Counts(), keyed=True),
        uid: str = "counts",
        parallelism: int = 2,
        state_backend: str = "hashmap",
        clock: Callable[[], int] = system_clock,
    ) -> None:
        self.directory, self.uid, self.parallelism = directory, uid, parallelism
        self.shared = SharedFiles()
        self.tasks = [
            StateTask(
                make(),
                f"the {uid}",
                operator_id_of_uid(uid),
                MAX_PARALLELISM,
                key_group_range(MAX_PARALLELISM, parallelism, subtask),
                subtask=subtask,
                parallelism=parallelism,
                state_backend=state_backend,
                clock=clock,
            )
            for subtask in range(parallelism)
        ]
        self.states: dict[int, SubtaskState] = {}
        for task in self.tasks:
            task.open()

    def feed(self, records: Iterable[tuple[Any, Any]], timestamps: list[int] | None = None) -> Steps:
        """Sends pairs of key and value to their subtasks."""
        pairs = list(records)
        keys = [key for key, _ in pairs]
        times = [None] * len(pairs) if timestamps is None else timestamps
        for subtask, task in enumerate(self.tasks):
            own = [
                (key, value, time)
                for (key, value), target, time in zip(
                    pairs, subtasks(keys, MAX_PARALLELISM, self.parallelism), times, strict=True
                )
                if target == subtask
            ]
            if own:
                own_keys, values, own_times = map(list, zip(*own, strict=True))
                task.head.process(Batch(values, None if timestamps is None else own_times, own_keys))
        return self

    def store(self, number: int = 1, savepoint: bool = True) -> str:
        """Writes all state; returns the directory."""
        storage = storage_at(str(self.directory))
        name = f"savepoint-{number}" if savepoint else f"chk-{number}"
        if savepoint:
            target = CheckpointTarget(storage.at(name), inline_size=0)
        else:
            target = CheckpointTarget(storage, name, "shared", inline_size=0)
        for subtask, task in enumerate(self.tasks):
            (snapshot,) = task.snapshot(number, 0, savepoint).values()
            writer = PieceWriter(target, "", subtask)
            written = writer.write(snapshot, None if savepoint else self.shared)
            before = self.states.get(subtask)
            if snapshot.only_changes and before is not None:
                written = written.based_on(before)
            self.states[subtask] = written
            task.notify_checkpoint_complete(number)
        operator = OperatorState(f"the {self.uid}", self.uid, self.parallelism, MAX_PARALLELISM, dict(self.states))
        metadata = CheckpointMetadata(number, 0, "0" * 32, "a job", savepoint, {operator_id_of_uid(self.uid): operator})
        storage.write(f"{name}/{METADATA}", metadata.to_bytes())
        return str(self.directory / name)

    def close(self) -> None:
        """Ends the tasks."""
        for task in self.tasks:
            task._clean_up()


def opened(location: str) -> Savepoint:
    """Returns the savepoint at a location."""
    return Savepoint.read(location, {})


class LocalReader(_Reader):
    """Reads at once, in this process, and returns lists."""

    @staticmethod
    def at(location: str) -> LocalReader:
        """Reads the savepoint at a location."""
        return LocalReader(opened(location), Place(None))

    def _keyed_shares(self, operator):
        return keyed_shares(operator)

    def _returned(self, shares, reading, type_info, what, *names):
        return sorted(value for share in shares for part in reading.chunks(share) for value in part)
