"""Who is held back for whom, on hand-made epochs."""

from __future__ import annotations

import pytest

from flintstream.graph import RebalancePartitioner
from flintstream.jobmaster.backpressure import BackPressure

from ..graph.programs import by, co_op, execution_graph, op, sink, source


def after(input, name, **settings):
    return op(by(input, RebalancePartitioner()), name, **settings)


def named(graph, name):
    (found,) = [vertex.id for vertex in graph.job_graph.vertices if name in vertex.name]
    return found


def chain(parallelism=1):
    """Vertices 0 to 3: source, map, slow, sink."""
    slow = after(
        after(source(parallelism=parallelism), "Map", parallelism=parallelism), "Slow", parallelism=parallelism
    )
    end = sink(by(slow, RebalancePartitioner()), parallelism=parallelism)
    return BackPressure(execution_graph(end))


def test_the_vertices_before_a_busy_one_wait_for_it_and_for_what_follows():
    waits = chain().waits({(0, 0): 0.1, (1, 0): 0.2, (2, 0): 0.6, (3, 0): 0.05}, {0})
    assert waits == pytest.approx({0: 0.85, 1: 0.65, 2: 0.05})


def test_without_more_to_read_nobody_was_held_back():
    assert chain().waits({(0, 0): 0.1, (1, 0): 0.2, (2, 0): 0.6}, set()) == {}


def test_of_several_subtasks_the_busiest_counts():
    waits = chain(2).waits({(2, 0): 0.1, (2, 1): 0.9, (3, 0): 0.2, (3, 1): 0.0}, {0})
    # Levels end one after the other, each with its last subtask.
    assert waits == pytest.approx({0: 1.1, 1: 1.1, 2: 0.2})


def test_in_a_diamond_the_branches_do_not_wait_for_each_other():
    start = source()
    left, right = after(start, "Left"), after(start, "Right")
    joined = co_op(by(left, RebalancePartitioner()), by(right, RebalancePartitioner()))
    graph = execution_graph(sink(joined))
    numbers, fast, slow, end = (named(graph, name) for name in ("Numbers", "Left", "Right", "Co-Map"))
    waits = BackPressure(graph).waits({(fast, 0): 0.1, (slow, 0): 0.5, (end, 0): 0.2}, {numbers})
    # Both branches run on the one thread of their slot, so the source waits for both.
    assert waits == pytest.approx({numbers: 0.8, fast: 0.2, slow: 0.2})


def test_a_source_without_more_records_waits_for_nobody():
    full, idle = source("Full"), source("Idle")
    joined = co_op(by(full, RebalancePartitioner()), by(idle, RebalancePartitioner()))
    graph = execution_graph(sink(by(joined, RebalancePartitioner())))
    first, middle, end = (named(graph, name) for name in ("Full", "Co-Map", "Print"))
    waits = BackPressure(graph).waits({(middle, 0): 0.7, (end, 0): 0.1}, {first})
    assert waits == pytest.approx({first: 0.8, middle: 0.1})
