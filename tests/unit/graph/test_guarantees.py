"""What a source and a sink give together when something fails."""

from __future__ import annotations

from typing import Any

import pytest

from flintstream.common import Types, WatermarkStrategy
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.connectors.number_seq import NumberSequenceSource
from flintstream.datastream.connectors.spark import SparkSink
from flintstream.datastream.functions import ListCheckpointed, SinkFunction, SourceFunction
from flintstream.graph.guarantees import guarantees, guarantees_text


class Forgetful(SourceFunction):
    def run(self, ctx: Any) -> None:
        ctx.collect(1)

    def cancel(self) -> None:
        """Ends by itself."""


class Mindful(Forgetful, ListCheckpointed):
    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[Any]:
        return [1]

    def restore_state(self, state: list[Any]) -> None:
        """Nothing depends on it."""


class Log(SinkFunction):
    def invoke(self, value: Any, context: Any) -> None:
        """Goes nowhere."""


def environment() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment()


def numbers(env: StreamExecutionEnvironment) -> Any:
    return env.from_source(NumberSequenceSource(1, 2), WatermarkStrategy.no_watermarks(), "numbers")


def deliveries(env: StreamExecutionEnvironment, checkpointing: bool = True) -> list[str]:
    return [guarantee.delivery.value for guarantee in guarantees(env.generate_stream_graph(), checkpointing)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [(Forgetful(), "at most once"), (Mindful(), "at least once")],
)
def test_a_source_function_is_read_again_if_it_keeps_its_place(source: Any, expected: str) -> None:
    env = environment()
    env.add_source(source, "function").add_sink(Log())
    assert deliveries(env) == [expected]


def test_a_socket_cannot_be_read_again() -> None:
    env = environment()
    env.socket_text_stream("localhost", 1).print()
    assert deliveries(env) == ["at most once"]


@pytest.mark.parametrize(("by_checkpoint", "expected"), [(True, "exactly once"), (False, "at least once")])
def test_a_spark_sink_writes_each_checkpoint_once(by_checkpoint: bool, expected: str) -> None:
    env = environment()
    numbers(env).sink_to(SparkSink(print, by_checkpoint))
    assert deliveries(env) == [expected]


def test_the_plan_says_what_exactly_once_depends_on() -> None:
    env = environment()
    numbers(env).sink_to(SparkSink(print)).name("out")
    text = guarantees_text(env.generate_stream_graph(), True)
    assert "'Source: numbers' → 'Sink: out': exactly once (if the write is idempotent)" in text


def test_without_checkpoints_a_failure_loses_what_was_on_its_way() -> None:
    env = environment()
    numbers(env).sink_to(SparkSink(print))
    assert deliveries(env, checkpointing=False) == ["at most once"]


def test_each_source_of_a_sink_counts_by_itself() -> None:
    env = environment()
    numbers(env).union(env.add_source(Forgetful(), "function", Types.LONG())).print().name("out")
    assert guarantees_text(env.generate_stream_graph(), True) == (
        "Guarantees if something fails:\n"
        "  'Source: numbers' → 'Sink: out': at least once (the sink writes immediately)\n"
        "  'Source: function' → 'Sink: out': at most once (the source cannot be replayed)\n"
    )
