"""Drives operators without a slot."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from flintstream.runtime.batch import Batch
from flintstream.runtime.operators.base import Operator
from flintstream.runtime.services import SlotServices
from flintstream.runtime.state.operator_state import OperatorStateBackend


class Received:
    """Stands for what comes behind an operator."""

    def __init__(self) -> None:
        self.elements: list[Any] = []

    def emit(self, batch: Batch) -> None:
        self.elements += batch.values

    def emit_watermark(self, timestamp: int) -> None:
        self.elements.append(("watermark", timestamp))

    def emit_idleness(self, idle: bool) -> None:
        self.elements.append(("idle", idle))

    def finish(self) -> None:
        self.elements.append("finish")


def opened(
    operator: Operator, subtask: int = 0, parallelism: int = 1, notify: Any = lambda: None, state: Any = None
) -> Received:
    """Sets an operator up, with restored operator state if there is some, and opens it; gives what it emits."""
    backend = OperatorStateBackend("op")
    if state is not None:
        backend.restore(state)
    runtime_context = SimpleNamespace(
        get_index_of_this_subtask=lambda: subtask, get_number_of_parallel_subtasks=lambda: parallelism
    )
    context = SimpleNamespace(
        name="op",
        operator_id="0" * 32,
        subtask=subtask,
        parallelism=parallelism,
        runtime_context=runtime_context,
        keyed_state=None,
        services=SlotServices(notify),
        batch_mode=False,
        watermark_interval=200,
        operator_state=backend,
        checkpoint_timeout=600.0,
    )
    received = Received()
    operator.setup(context, received)  # type: ignore[arg-type]
    operator.open()
    return received
