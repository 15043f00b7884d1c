"""Small programs for the graph tests, written as the API would record them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flintstream.graph import (
    ExecutionGraph,
    JobGraph,
    KeyGroupPartitioner,
    OneInputTransformation,
    PartitionTransformation,
    SinkTransformation,
    SourceTransformation,
    StreamGraph,
    StreamGraphConfig,
    StreamGraphGenerator,
    StreamPartitioner,
    Transformation,
    TwoInputTransformation,
    build_job_graph,
)
from flintstream.runtime.operators.base import Operator


@dataclass
class AnyOperator(Operator):
    """Stands for what the API would place; one is as good as another."""


def first(value: Any) -> Any:
    return value[0]


def _set(transformation: Any, settings: dict[str, Any]) -> Any:
    for name, value in settings.items():
        setattr(transformation, name, value)
    return transformation


def source(name: str = "Numbers", **settings: Any) -> Transformation:
    return _set(SourceTransformation(name, AnyOperator(), f"description of {name}", bounded=True), settings)


def op(input: Transformation, name: str = "Map", **settings: Any) -> Transformation:
    return _set(OneInputTransformation(input, name, AnyOperator()), settings)


def co_op(left: Transformation, right: Transformation, name: str = "Co-Map", **settings: Any) -> Transformation:
    return _set(TwoInputTransformation(left, right, name, AnyOperator()), settings)


def sink(input: Transformation, name: str = "Print to Std. Out", **settings: Any) -> Transformation:
    return _set(SinkTransformation(input, name, AnyOperator()), settings)


def by(input: Transformation, partitioner: StreamPartitioner) -> Transformation:
    return PartitionTransformation(input, partitioner)


def key_by(input: Transformation) -> Transformation:
    return by(input, KeyGroupPartitioner(first))


def stream_graph(*sinks: Transformation, **config: Any) -> StreamGraph:
    return StreamGraphGenerator(sinks, StreamGraphConfig(**config)).generate()


def job_graph(*sinks: Transformation, **config: Any) -> JobGraph:
    return build_job_graph(stream_graph(*sinks, **config))


def execution_graph(*sinks: Transformation, **config: Any) -> ExecutionGraph:
    return ExecutionGraph(job_graph(*sinks, **config))


def chains(*sinks: Transformation, **config: Any) -> list[str]:
    """The names of the job graph's vertices."""
    return [vertex.name for vertex in job_graph(*sinks, **config).vertices]


def word_count() -> Transformation:
    """The example of the docs: source(1) -> flat_map(2) -> key_by -> reduce(2) -> sink(2)."""
    words = op(source("Text", parallelism=1), "Flat Map", parallelism=2)
    return sink(op(key_by(words), "Reduce", parallelism=2), parallelism=2)
