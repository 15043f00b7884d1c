"""When an iteration ends, and how much its sources may read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from flintstream.common import Types
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.graph import ExecutionGraph
from flintstream.jobmaster.iterations import IterationCoordinator, Loop, admitted
from flintstream.jobmaster.sources import SourceCoordinator
from flintstream.runtime.slot.protocol import VertexReport

SOURCE, HEAD, OTHER = 0, 1, 2


def coordinator(max_wait: float = 0.0, nested: tuple[int, ...] = ()) -> IterationCoordinator:
    loop = Loop(frozenset([SOURCE]), frozenset([HEAD, *nested]))
    return IterationCoordinator(HEAD, "IterationSource-3", 2, max_wait, loop)


def report(vertex: int, finished: bool = False, feedback: int = 0, read: int = 0, subtask: int = 0) -> VertexReport:
    return VertexReport(vertex, subtask, read, 0, finished, feedback=feedback)


def is_over(iteration: IterationCoordinator) -> bool:
    return iteration.work(10).complete


def test_an_iteration_ends_when_its_sources_have_ended_and_nothing_is_fed_back():
    iteration = coordinator()
    assert iteration.next_due() is None and not is_over(iteration), "nothing is known before the first epoch"
    iteration.epoch_done([report(SOURCE), report(HEAD)])
    assert not is_over(iteration)
    iteration.epoch_done([report(SOURCE, finished=True), report(HEAD), report(HEAD, feedback=3, subtask=1)])
    assert iteration.waiting == 3 and not is_over(iteration)
    iteration.epoch_done([report(SOURCE, finished=True), report(HEAD), report(HEAD, subtask=1)])
    assert iteration.next_due() == 0.0, "an epoch has to tell it to the head"
    assert is_over(iteration) and iteration.next_due() is None
    assert is_over(iteration), "once it is told, it stays so"


def test_one_source_that_goes_on_is_enough():
    iteration = coordinator()
    iteration.epoch_done([report(SOURCE, finished=True), report(SOURCE, subtask=1), report(HEAD)])
    assert not is_over(iteration)


def test_iterations_within_each_other_end_together():
    iteration = coordinator(nested=(OTHER,))
    assert iteration.watched == {SOURCE, HEAD, OTHER}
    iteration.epoch_done([report(SOURCE, finished=True), report(HEAD), report(OTHER, feedback=1)])
    assert not is_over(iteration)
    iteration.epoch_done([report(SOURCE, finished=True), report(HEAD), report(OTHER)])
    assert is_over(iteration)


def test_a_waiting_time_counts_from_the_last_feedback(monkeypatch: pytest.MonkeyPatch):
    now = 100.0
    monkeypatch.setattr("flintstream.jobmaster.iterations.time", SimpleNamespace(monotonic=lambda: now))
    iteration = coordinator(max_wait=5.0)
    now = 130.0
    iteration.epoch_done([report(SOURCE, finished=True), report(HEAD)])
    assert iteration.next_due() == 135.0, "the first epoch may take long, since all is being started"
    now = 134.0
    iteration.epoch_done([report(SOURCE), report(HEAD, feedback=1)])
    assert iteration.next_due() is None, "slots with feedback ask for epochs themselves"
    now = 140.0
    assert not is_over(iteration)
    iteration.epoch_done([report(SOURCE), report(HEAD, read=1)])
    assert iteration.next_due() == 145.0, "in this epoch it was fed back to"
    now = 144.0
    iteration.epoch_done([report(SOURCE), report(HEAD, read=1)])
    assert not is_over(iteration)
    now = 145.0
    assert is_over(iteration), "whether its input goes on or not"


def graph_of(build: Any) -> ExecutionGraph:
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    build(env)
    return ExecutionGraph(env.get_job_graph())


def heads(graph: ExecutionGraph) -> dict[str, IterationCoordinator]:
    job = graph.job_graph
    found = [vertex for vertex in job.vertices if job.nodes[vertex.head_id].kind == "iteration head"]
    return {vertex.name.removeprefix("IterationSource-"): IterationCoordinator.of(graph, vertex) for vertex in found}


def sources(graph: ExecutionGraph) -> dict[str, int]:
    job = graph.job_graph
    return {v.name.split(" -> ")[0]: v.id for v in job.vertices if job.nodes[v.head_id].kind == "source"}


def numbers(env: StreamExecutionEnvironment, name: str) -> Any:
    return env.from_collection([1], Types.LONG()).name(name)


def same(value: Any) -> Any:
    return value


def test_an_iteration_waits_only_for_what_leads_into_it():
    def build(env: StreamExecutionEnvironment) -> None:
        loop = numbers(env, "into").iterate().name("loop")
        body = loop.map(same)
        loop.close_with(body.union(numbers(env, "through").map(same)))
        body.union(numbers(env, "after").map(same)).print()

    graph = graph_of(build)
    known = sources(graph)
    loop = heads(graph)["loop"]
    assert loop.loop.before == {known["Source: into"], known["Source: through"]}
    assert loop.loop.nested == {loop.vertex_id}


def test_a_later_iteration_waits_for_an_earlier_one_to_finish():
    def build(env: StreamExecutionEnvironment) -> None:
        first = numbers(env, "n").iterate().name("first")
        left = first.map(same)
        first.close_with(left)
        second = left.iterate().name("second")
        second.close_with(second.map(same))

    found = heads(graph_of(build))
    assert found["first"].vertex_id in found["second"].loop.before
    assert found["second"].vertex_id not in found["first"].watched


@pytest.mark.parametrize("inner_wait", [0, 50])
def test_an_outer_iteration_waits_for_an_inner_one_that_waits_by_the_clock(inner_wait: int):
    def build(env: StreamExecutionEnvironment) -> None:
        outer = numbers(env, "n").iterate().name("outer")
        inner = outer.map(same).iterate(inner_wait).name("inner")
        body = inner.map(same)
        inner.close_with(body)
        outer.close_with(body)

    found = heads(graph_of(build))
    outer, inner = found["outer"], found["inner"]
    assert outer.loop.nested == inner.loop.nested == {outer.vertex_id, inner.vertex_id}
    assert (inner.vertex_id in outer.loop.before) == (inner_wait > 0)
    assert outer.vertex_id not in inner.loop.before


def test_sources_read_less_while_a_loop_is_full_and_never_stop():
    iteration, source, other = coordinator(), SourceCoordinator(SOURCE, "n", 1), SourceCoordinator(9, "m", 1)
    sources = [source, other, iteration]
    limits = []
    for waiting in (0, 100, 200, 1000, 10**9):
        iteration.waiting = waiting
        limits.append(admitted(source, sources, 100))
        assert admitted(other, sources, 100) == admitted(iteration, sources, 100) == 100
    assert limits == [100, 100, 25, 1, 1]
    assert admitted(source, [source], 100) == 100
