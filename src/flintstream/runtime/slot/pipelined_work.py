"""PipelinedWork: the processing thread of a pipelined slot, between the calls of the driver.

It is connected to two tasks of the standing Spark job: one takes what the slot sends, the other passes on what other slots
send to it.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable

from flintstream.runtime.slot.activity import ActivityMonitor
from flintstream.runtime.slot.connections import JobConnection
from flintstream.runtime.slot.messages import PassBarrier
from flintstream.runtime.slot.pipeline import Pipeline
from flintstream.runtime.slot.protocol import Join
from flintstream.runtime.slot.seals import Seals
from flintstream.runtime.slot.slot import Slot

_TARGET = struct.Struct("<i")
_REQUESTS = "waiting for asynchronous requests"
_GATHER_SECONDS = 0.025
"""How long a busy slot gathers what it sends. A pack takes Spark's JVM and workers the better part of a millisecond, and the
slots some of their caches, whatever its size.
"""
_GATHER_BYTES = 1 << 20
"""How much it gathers at most."""


class PipelinedWork:
    """Moves packs between the pipeline of a slot and its connections. `send` sends a frame, or raises."""

    def __init__(
        self,
        slot: Slot,
        pipeline: Pipeline,
        activity: ActivityMonitor,
        seals: Seals,
        send: Callable[[JobConnection, bytes], None],
    ) -> None:
        self._slot = slot
        self._pipeline = pipeline
        self._activity = activity
        self._seals = seals
        self._send = send
        self._outward: JobConnection | None = None
        self._gathering_since: float | None = None
        """Since when, by the monotonic clock, there is something to send; None while there is not."""
        self._announced = False
        self._reply: Callable[[], None] | None = None
        """Answers the driver when all tasks have passed the barrier."""
        self.broken = False
        """Whether the attempt has failed here, or is over: nothing is processed any more."""

    def join(self, hello: Join, connection: JobConnection) -> bool:
        """Admits a task; returns whether to read from its connection. May raise Refused."""
        self._slot.fence.join(hello)
        if hello.sends:
            self._outward = connection
        if self._slot.fence.joined:
            self._slot.tell_joined()
        return not hello.sends

    def announce_data(self) -> None:
        """Notes that a source has data; may be called from any thread."""
        self._announced = True

    def receive(self, connection: JobConnection) -> None:
        """Receives the available packs; raises EOFError at the end of the connection."""
        while (row := connection.next_frame()) is not None:
            for pack in self._seals.open(row):
                self._pipeline.receive(pack)
            if not connection.buffered:
                break

    def pass_barrier(self, barrier: PassBarrier, reply: Callable[[], None]) -> None:
        """Lets a barrier pass; `reply` is called when all tasks have passed it."""
        self._reply = reply
        self._slot.pass_barrier(barrier)

    def note_call(self) -> None:
        """Notes that the driver's call may have let operators emit, e.g. when a checkpoint has completed."""
        self._pipeline.look_soon()

    def step(self) -> bool:
        """Works for a moment; returns False if there is nothing to do now."""
        if self.broken:
            return False
        if self._announced:
            self._announced = False
            self._pipeline.wake_sources()
        self._activity.begin(f"processing epoch {self._slot.fence.epoch}")
        began = time.monotonic()
        worked = self._pipeline.step()
        if self._outward is not None:
            if not (worked and self._may_gather(began)):
                worked |= self.send_gathered()
            if self._reply is not None and self._pipeline.passed:
                reply, self._reply = self._reply, None
                reply()
        if not worked and any(task.in_flight for task in self._slot.tasks):
            self._activity.begin(_REQUESTS)  # So that a slot that waits for them does not look idle.
        else:
            self._activity.end()
        return worked

    def _may_gather(self, began: float) -> bool:
        """Returns whether what there is to send may wait for what the next step adds: if a step that takes as long as the
        last one, which `began` then, ends in time.
        """
        if not self._pipeline.outgoing_bytes:
            return True
        if self._gathering_since is None:
            self._gathering_since = began
        now = time.monotonic()
        next_end = now + (now - began)
        return next_end < self._gathering_since + _GATHER_SECONDS and self._pipeline.outgoing_bytes < _GATHER_BYTES

    def send_gathered(self) -> bool:
        """Sends what there is to send, a pack for each slot; returns whether there was anything."""
        self._gathering_since = None
        if self.broken or self._outward is None or not self._pipeline.outgoing_bytes:
            return False
        for slot, parts in self._pipeline.take_outgoing():
            self._send(self._outward, b"".join((_TARGET.pack(slot), self._seals.seal(slot, parts), *parts)))
        return True

    def patience(self) -> float | None:
        """Returns for how many seconds there is nothing to do; None for any time."""
        return None if self.broken else 0.0 if self._announced else self._pipeline.patience()
