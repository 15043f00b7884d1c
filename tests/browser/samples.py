"""Jobs as their drivers would report them, for tests of the page without drivers: small and large, hurt, and ended."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from flintstream.jobmaster.details import (
    CheckpointDetails,
    CheckpointsDetails,
    EdgeDetails,
    ExceptionDetails,
    GuaranteeDetails,
    JobDetails,
    OperatorDetails,
    SlotDetails,
    SubtaskCheckpoint,
    SubtaskDetails,
    UserMetric,
    VertexDetails,
)

MIB = 1024 * 1024


def identifier(text: str) -> str:
    """A stable id of 32 hexadecimal digits."""
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


@dataclass(frozen=True)
class Vertex:
    """How a vertex of a sample looks: per subtask, records and bytes a second, and shares of time."""

    name: str
    inputs: Sequence[tuple[str, str]] = ()
    parallelism: int = 2
    rate_in: float = 0.0
    rate_out: float = 0.0
    busy: float = 0.1
    back_pressured: float = 0.0
    lag: float | None = 2.0
    skew: float = 1.0
    user_metrics: Sequence[UserMetric] = field(default_factory=tuple)

    @property
    def id(self) -> str:
        return identifier(self.name)


SHOP = (
    Vertex("Source: orders -> parse", (), 2, 0, 24_500, 0.22, 0.66, 3.1),
    Vertex("Source: prices", (), 1, 0, 1_200, 0.04, 0.0, 1.2),
    Vertex(
        "enrich with prices",
        (("Source: orders -> parse", "HASH"), ("Source: prices", "BROADCAST")),
        4,
        12_550,
        12_250,
        0.31,
        0.58,
        3.4,
        user_metrics=(UserMetric("", "shop.orders", "counter", 91_234, {"shop": "berlin"}),),
    ),
    Vertex("fraud score", (("enrich with prices", "HASH"),), 4, 12_200, 11_900, 0.94, 0.0, 6.2, skew=1.7),
    Vertex("TumblingEventTimeWindows -> revenue", (("fraud score", "HASH"),), 4, 11_900, 310, 0.38, 0.0, 9.8),
    Vertex("Sink: dashboard", (("TumblingEventTimeWindows -> revenue", "REBALANCE"),), 1, 1_240, 0, 0.06, 0.0, 9.9),
    Vertex("Sink: alerts", (("fraud score", "REBALANCE"),), 2, 40, 0, 0.02, 0.0, None),
)

ONE = (Vertex("Source: numbers -> Map -> Sink: Print to Std. Out", (), 2, 0, 5_000, 0.41, 0.0, None),)


def thirty() -> tuple[Vertex, ...]:
    """Three sources, each with a chain of eight vertices that fans out and comes together, and three sinks."""
    found: list[Vertex] = []
    for branch, source in enumerate(("clicks", "views", "orders")):
        before = f"Source: {source}"
        found.append(Vertex(before, (), 2, 0, 9_000 - branch * 2_000, 0.2, 0.1 * branch))
        for step, what in enumerate(
            ("parse", "clean", "sessions", "enrich", "deduplicate", "score", "aggregate", "format")
        ):
            name = f"{what} {source}"
            inputs = [(before, "HASH" if step % 2 else "REBALANCE")]
            if what == "enrich" and branch:
                inputs.append((f"sessions {('clicks', 'views')[branch - 1]}", "BROADCAST"))
            busy = 0.97 if (branch, what) == (1, "score") else 0.08 + 0.07 * step
            held = 0.7 if branch == 1 and step < 5 else 0.0
            found.append(Vertex(name, inputs, 4, 4_000, 3_900, min(busy, 1 - held), held, 2.0 + step))
            before = name
        found.append(Vertex(f"Sink: {source}", ((before, "FORWARD"),), 4, 3_900, 0, 0.12, 0.0, 11.0))
    return tuple(found)


THIRTY = thirty()


def details(
    name: str,
    shape: Sequence[Vertex],
    status: str = "RUNNING",
    age: float = 1_260.0,
    now: float | None = None,
    restarts: int = 0,
    exceptions: Sequence[ExceptionDetails] = (),
    checkpoints: bool = True,
    ended: float | None = None,
) -> JobDetails:
    """A job of some shape that was started `age` seconds ago."""
    now = time.time() if now is None else now
    until = now if ended is None else ended
    start = round((now - age) * 1000)
    running = status == "RUNNING"
    vertices = [_vertex(shape, each, until, until - now + age, running, status) for each in shape]
    timestamps = {"INITIALIZING": start, "CREATED": start + 2_100, "RUNNING": start + 6_400}
    if restarts:
        timestamps |= {"RESTARTING": round(until * 1000) - 420_000, "RUNNING": round(until * 1000) - 405_000}
    if status not in timestamps:
        timestamps[status] = round(until * 1000)
    return JobDetails(
        job_id=identifier(f"job {name}"),
        name=name,
        status=status,
        job_type="STREAMING",
        start_time=start,
        end_time=-1 if ended is None else round(ended * 1000),
        now=round(now * 1000),
        timestamps=timestamps,
        parallelism=max(each.parallelism for each in shape),
        restarts=restarts,
        driver_pid=4711,
        driver_host="localhost",
        program="shop.py --rate 25000",
        configuration={
            "parallelism.default": "4",
            "execution.checkpointing.interval": "30 s",
            "execution.checkpointing.dir": "file:///var/lib/flint/checkpoints",
            "state.backend.type": "rocksdb",
            "restart-strategy.type": "exponential-delay",
            "spark.master": "local[4]",
        },
        parameters={"rate": "25000"},
        restart_strategy="exponential delay, from 1 s to 60 s",
        object_reuse=False,
        vertices=vertices,
        slots=[SlotDetails(index, "localhost", 5_000 + index, (180 + 12 * index) * MIB) for index in range(4)],
        checkpoints=_checkpoints(vertices, until, until - now + age)
        if checkpoints
        else CheckpointsDetails(enabled=False),
        exceptions=list(exceptions),
        guarantees=_guarantees(shape),
        metrics={"numRestarts": restarts, "uptime": round(age * 1000), "numEpochs": round(age / 0.8)},
        history=_history(shape, until, until - now + age),
        phase=None,
    )


def _vertex(
    shape: Sequence[Vertex], vertex: Vertex, now: float, age: float, running: bool, status: str
) -> VertexDetails:
    by_name = {each.name: each for each in shape}
    names = vertex.name.split(" -> ")
    operators = [
        OperatorDetails(vertex.id if place == 0 else identifier(name), name) for place, name in enumerate(names)
    ]
    level, before = 0, [source for source, _ in vertex.inputs]
    while before:
        level, before = level + 1, [source for name in before for source, _ in by_name[name].inputs]
    state = "RUNNING" if running else status if status in ("FAILED", "FINISHED", "CANCELED") else "CREATED"
    subtasks = [_subtask(vertex, index, now, age, state) for index in range(vertex.parallelism)]
    return VertexDetails(
        vertex_id=vertex.id,
        name=vertex.name,
        parallelism=vertex.parallelism,
        max_parallelism=128,
        level=level,
        slot_sharing_group="default",
        operators=operators,
        inputs=[
            EdgeDetails(by_name[source].id, ship, "alerts" if vertex.name == "Sink: alerts" else None)
            for source, ship in vertex.inputs
        ],
        subtasks=subtasks,
    )


def _subtask(vertex: Vertex, index: int, now: float, age: float, state: str) -> SubtaskDetails:
    share = _share(vertex, index)
    wave = 1 + 0.06 * math.sin(now / 7 + index + len(vertex.name)) if state == "RUNNING" else 0.0
    busy = min(1000, round(vertex.busy * 1000 * wave * min(share, 1.05)))
    held = min(1000 - busy, round(vertex.back_pressured * 1000 * wave))
    metrics: dict[str, Any] = {}
    read = vertex.rate_in if vertex.inputs else vertex.rate_out
    for direction, rate, size in (("In", read, 62), ("Out", vertex.rate_out, 58)):
        metrics[f"numRecords{direction}"] = round(rate * share * age)
        metrics[f"numRecords{direction}PerSecond"] = rate * share * wave
        metrics[f"numBytes{direction}"] = round(rate * share * age * size)
        metrics[f"numBytes{direction}PerSecond"] = rate * share * wave * size
    metrics |= {
        "busyTimeMsPerSecond": busy,
        "backPressuredTimeMsPerSecond": held,
        "softBackPressuredTimeMsPerSecond": held,
        "hardBackPressuredTimeMsPerSecond": 0,
        "idleTimeMsPerSecond": 1000 - busy - held,
        "isBackPressured": held > 0,
        "accumulateBusyTimeMs": round(vertex.busy * age * 1000),
        "accumulateBackPressuredTimeMs": round(vertex.back_pressured * age * 1000),
        "accumulateIdleTimeMs": round((1 - vertex.busy - vertex.back_pressured) * age * 1000),
    }
    watermark = -(2**63) if vertex.lag is None else round((now - vertex.lag - 0.1 * index) * 1000)
    if vertex.inputs:
        metrics["currentInputWatermark"] = watermark
    started = round((now - age) * 1000)
    return SubtaskDetails(
        index=index,
        slot=index % 4,
        attempt=0,
        status=state,
        timestamps={"CREATED": started, "DEPLOYING": started + 2_000, "RUNNING": started + 6_400},
        metrics=metrics,
        operator_metrics={vertex.id: {"currentOutputWatermark": watermark, "numLateRecordsDropped": 0}},
        user_metrics=[replace(metric, operator_id=vertex.id) for metric in vertex.user_metrics],
    )


def _share(vertex: Vertex, index: int) -> float:
    """The first subtask has more than the others where there is skew."""
    if vertex.parallelism == 1:
        return 1.0
    rest = (vertex.parallelism - vertex.skew) / (vertex.parallelism - 1)
    return vertex.skew if index == 0 else rest


def _history(shape: Sequence[Vertex], now: float, age: float) -> dict[str, list[Any]]:
    read = sum(each.rate_out * each.parallelism for each in shape if not each.inputs)
    written = sum(each.rate_in * each.parallelism for each in shape if "Sink: " in each.name)
    times = [now - age + age * step / 240 for step in range(10, 241)]
    ramp = [
        min(1.0, (at - now + age) / 90) * (1 + 0.08 * math.sin(at / 23) + 0.03 * math.sin(at / 3.7)) for at in times
    ]
    return {
        "time": [round(at * 1000) for at in times],
        "recordsInPerSecond": [round(read * each, 1) for each in ramp],
        "recordsOutPerSecond": [round((written or read) * each, 1) for each in ramp],
        "epochDurationMs": [round(640 + 180 * math.sin(at / 41) + 60 * math.sin(at / 5)) for at in times],
        "watermarkLagMs": [round(9_800 + 2_400 * math.sin(at / 37)) for at in times],
        "stateSize": [round(48 * MIB * (1 + 1.4 * (at - now + age) / age)) for at in times],
    }


def _checkpoints(vertices: Sequence[VertexDetails], now: float, age: float) -> CheckpointsDetails:
    newest = int(age // 30)
    first = max(1, newest - 19)
    taken = [_checkpoint(number, vertices, (now - age + 30 * number) * 1000) for number in range(first, newest + 1)]
    return CheckpointsDetails(
        enabled=True,
        interval=30_000,
        tolerable_failed=3,
        retained_on_cancellation=True,
        state_backend="rocksdb",
        storage="file:///var/lib/flint/checkpoints",
        incremental=True,
        completed=newest - newest // 11,
        failed=newest // 11,
        history=list(reversed(taken)),
    )


def _checkpoint(number: int, vertices: Sequence[VertexDetails], triggered: float) -> CheckpointDetails:
    failed = number % 11 == 0
    tasks = {
        vertex.vertex_id: [
            SubtaskCheckpoint(
                index,
                round(triggered) + 180 + 25 * index,
                checkpointed_size=(2 + index) * 300_000,
                state_size=(20 + index) * 300_000,
                sync_duration=8 + index,
                async_duration=150 + 25 * index,
            )
            for index in range(vertex.parallelism)
        ]
        for vertex in vertices
    }
    shares = [share for each in tasks.values() for share in each]
    return CheckpointDetails(
        checkpoint_id=number,
        status="FAILED" if failed else "COMPLETED",
        is_savepoint=number % 8 == 0 and not failed,
        trigger_timestamp=round(triggered),
        latest_ack_timestamp=-1 if failed else round(triggered) + 300 + 40 * (number % 5),
        end_to_end_duration=300 + 40 * (number % 5),
        checkpointed_size=0 if failed else sum(each.checkpointed_size for each in shares) + 90_000 * (number % 7),
        state_size=0 if failed else sum(each.state_size for each in shares) + 600_000 * number,
        external_path=None if failed else f"file:///var/lib/flint/checkpoints/chk-{number}",
        failure_timestamp=round(triggered) + 600_000 if failed else -1,
        failure_message="the snapshot of 'fraud score' (3/4) was not stored within 600 s" if failed else None,
        epoch=number * 37,
        tasks={} if failed else tasks,
    )


def _guarantees(shape: Sequence[Vertex]) -> list[GuaranteeDetails]:
    sources = [each.name.split(" -> ")[0] for each in shape if not each.inputs]
    sinks = [part for each in shape for part in each.name.split(" -> ") if part.startswith("Sink")]
    return [
        GuaranteeDetails(
            source,
            sink,
            "at least once" if "alerts" in sink else "exactly once",
            "the sink writes while records arrive" if "alerts" in sink else "",
        )
        for source in sources
        for sink in sinks
    ]


FAILURE = """Traceback (most recent call last):
  File "shop.py", line 41, in enrich
    return Order(order.item, order.amount * prices[order.item])
                                            ~~~~~~^^^^^^^^^^^^
KeyError: 'green kettle'"""


def failure(vertex: Vertex, now: float, attempt: int = 0) -> ExceptionDetails:
    """A failure of user code."""
    return ExceptionDetails(
        timestamp=round(now * 1000),
        exception="KeyError: 'green kettle'",
        stacktrace=FAILURE,
        operator=vertex.name,
        subtask=1,
        record="Order(item='green kettle', amount=3, visitor=8124, at=1794830024315)",
        attempt=attempt,
        host="localhost",
        vertex_id=vertex.id,
    )


def jobs(now: float | None = None) -> list[JobDetails]:
    """The jobs of a busy server."""
    now = time.time() if now is None else now
    return [
        details("revenue by shop", SHOP, now=now, restarts=1, exceptions=[failure(SHOP[2], now - 420)]),
        details("thirty vertices", THIRTY, now=now, age=5_400),
        details("one vertex", ONE, now=now, age=75, checkpoints=False),
        details(
            "hottest items", SHOP, "FAILED", now=now, age=9_000, restarts=3, ended=now - 4_000,
            exceptions=[failure(SHOP[2], now - 4_000, 3), failure(SHOP[2], now - 4_100, 2)],
        ),
        details("nightly report", ONE, "FINISHED", now=now, age=40_000, ended=now - 36_000),
        details("unique visitors", SHOP, "CANCELED", now=now, age=80_000, ended=now - 60_000),
    ]  # fmt: skip
