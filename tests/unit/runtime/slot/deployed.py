"""A pipelined slot of two, for tests: what it gets from the other slot is what a test feeds it."""

from __future__ import annotations

import time
from collections.abc import Mapping

from flintstream.datastream import StreamExecutionEnvironment
from flintstream.graph.execution_graph import ExecutionGraph
from flintstream.graph.job_graph import build_job_graph
from flintstream.runtime.batch import Batch
from flintstream.runtime.block import encode_block
from flintstream.runtime.context import JobInfo
from flintstream.runtime.deployment import JobDeployment
from flintstream.runtime.slot.channels import BARRIER, BLOCK, Frame, frames_of
from flintstream.runtime.slot.messages import PassBarrier
from flintstream.runtime.slot.protocol import SourceWork
from flintstream.runtime.slot.slot import Slot
from flintstream.runtime.slot.user_code import pickle_operators

LONG = 3_600_000
"""A timeout in milliseconds that is over after no test."""


class Deployed:
    """Slot 0. What its tasks send to the other slot is known by the names of the receiving vertices."""

    def __init__(
        self,
        env: StreamExecutionEnvironment,
        job_timeout: float | None = LONG / 1000,
        sources: Mapping[int, SourceWork] | None = None,
    ) -> None:
        deployment = JobDeployment.of(ExecutionGraph(build_job_graph(env.generate_stream_graph())))
        self.names = {vertex.vertex_id: vertex.name for vertex in deployment.vertices}
        self.vertices = {vertex.name: vertex for vertex in deployment.vertices}
        slot = Slot(0, "0" * 32, 0, lambda message: None)
        job = JobInfo("0" * 32, "test", pipelined=True, buffer_timeout=job_timeout)
        slot.deploy(job, pickle_operators(deployment.hosted_by(0)))
        assert slot.pipeline is not None
        self.slot, self.pipeline = slot, slot.pipeline
        self.tasks = {task.vertex.name: task for task in slot.tasks}
        slot.begin_epoch(0, dict(sources or {}))
        self.sent()  # What operators emit when they are opened.

    def sent(self) -> list[str]:
        """Returns the receivers of the blocks that have been sent since the last call."""
        packs = [b"".join(parts) for _, parts in self.pipeline.take_outgoing()]
        return [self.names[frame.vertex] for pack in packs for frame in frames_of(pack) if frame.kind == BLOCK]

    def give(self, name: str) -> None:
        """Lets a block of 20 records arrive for a vertex."""
        vertex = self.vertices[name]
        block = encode_block(Batch(list(range(20))), [])
        self._receive(Frame(BLOCK, 1, vertex.vertex_id, vertex.inputs[0][0][1], len(block), block))

    def _receive(self, frame: Frame) -> None:
        """Receives a frame from the other slot, whose subtask has the second channel of each input."""
        self.pipeline.receive(b"".join(frame.pack()))

    def feed(self, name: str) -> list[str]:
        """Gives a vertex a block; returns the receivers of the blocks that are sent at once."""
        self.give(name)
        return self.work()

    def work(self) -> list[str]:
        """Works until there is nothing to do now; returns the receivers of the blocks that are sent."""
        while self.pipeline.step() or self.pipeline.patience() == 0.0:
            pass
        return self.sent()

    def wait(self) -> list[str]:
        """Works until a block is sent; returns the receivers."""
        while not (sent := self.work()):
            patience = self.pipeline.patience()
            assert patience is not None, "nothing will be sent"
            assert patience < LONG / 1000 / 2, "it waits for another timeout"
            time.sleep(patience)
        return sent

    def pass_barrier(self, name: str) -> list[str]:
        """Lets a barrier pass through a vertex behind the sources; returns the receivers of the blocks before it."""
        vertex = self.vertices[name]
        self.slot.pass_barrier(PassBarrier())
        self._receive(Frame(BARRIER, 1, vertex.vertex_id, vertex.inputs[0][0][1], 0))
        return self.work()
