"""StateTask: an operator in a task of the runtime, outside a job: to read stored state, or to make some."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from flintstream.runtime.context import JobInfo
from flintstream.runtime.deployment import OperatorDeployment, VertexDeployment
from flintstream.runtime.operators.base import Operator
from flintstream.runtime.services import SlotServices, system_clock
from flintstream.runtime.slot.task import Task
from flintstream.runtime.state.backend import KeyedStateBackend
from flintstream.runtime.state.heap import HeapKeyedStateBackend
from flintstream.state_processor.shares import Share

HASHMAP, ROCKSDB = "hashmap", "rocksdb"


class StateTask(Task):
    """A task without inputs and outputs, for any key groups. Use it in a `with` statement: it closes the operator, and
    removes the files of its state.
    """

    def __init__(
        self,
        operator: Operator,
        name: str,
        operator_id: str,
        max_parallelism: int,
        key_groups: range,
        *,
        subtask: int = 0,
        parallelism: int = 1,
        state_backend: str = HASHMAP,
        state_options: Mapping[str, str] | None = None,
        clock: Callable[[], int] = system_clock,
    ) -> None:
        self._key_groups = key_groups
        self._directory = tempfile.mkdtemp(prefix="flint-state-")
        deployed = OperatorDeployment(0, operator_id, name, operator, None, {}, [])
        vertex = VertexDeployment(
            vertex_id=0,
            name=name,
            level=0,
            parallelism=parallelism,
            max_parallelism=max_parallelism,
            operators=[deployed],
            out_edges=[],
            inputs=[[[0]]] * parallelism,
            slots=[0] * parallelism,
        )
        job = JobInfo("0" * 32, "state processor", state_backend=state_backend, state_options=dict(state_options or {}))
        super().__init__(vertex, subtask, job, SlotServices(clock=clock, directory=self._directory), _no_outlet)

    @staticmethod
    def for_share(operator: Operator, share: Share, **options: Any) -> StateTask:
        """Returns a task with the restored state of a share."""
        if share.in_database:
            options["state_backend"] = ROCKSDB
        stored = share.operator
        task = StateTask(operator, stored.name, share.operator_id, stored.max_parallelism, share.key_groups, **options)
        try:
            task.restore(lambda operator_id, groups: share.restored.chains(operator_id, groups, task._directory))
        except BaseException:
            task._clean_up()
            raise
        return task

    def _keyed_state(self, deployed: OperatorDeployment) -> KeyedStateBackend:
        groups, clock = self._key_groups, self._services.clock
        if self._job.state_backend == HASHMAP:
            return HeapKeyedStateBackend(deployed.name, self.vertex.max_parallelism, clock, groups)
        # Only when needed: the package of RocksDB takes a while to load.
        from flintstream.runtime.state.rocksdb.backend import RocksDBKeyedStateBackend
        from flintstream.runtime.state.rocksdb.options import RocksDBOptions

        directory = os.path.join(self._directory, f"state-{uuid.uuid4().hex}")
        options = RocksDBOptions.from_configuration(self._job.state_options)
        return RocksDBKeyedStateBackend(deployed.name, self.vertex.max_parallelism, clock, groups, directory, options)

    def __enter__(self) -> StateTask:
        try:
            self.open()
        except BaseException:
            self._clean_up()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        errors = self._clean_up()
        if error is None and errors:
            raise errors[0]

    def _clean_up(self) -> list[BaseException]:
        try:
            return self.close()
        finally:
            shutil.rmtree(self._directory, ignore_errors=True)


def _no_outlet(*_: Any) -> None:
    raise AssertionError("a task without edges sends no blocks")
