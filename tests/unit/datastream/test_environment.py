"""The environment: settings and where they come from, sources, graphs."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from flintstream.common import Configuration, Row, Types, WatermarkStrategy
from flintstream.datastream import (
    CheckpointingMode,
    ParallelSourceFunction,
    ProcessFunction,
    RichSourceFunction,
    RuntimeExecutionMode,
    SlotSharingGroup,
    SourceFunction,
    StreamExecutionEnvironment,
    TimeCharacteristic,
)
from flintstream.datastream.connectors.collection import CollectionSource
from flintstream.datastream.connectors.number_seq import NumberSequenceSource
from flintstream.datastream.ingestion_time import INGESTION_TIME
from flintstream.graph import InvalidProgramException
from flintstream.runtime.captured import unwrapped
from flintstream.runtime.operators.sinks import CollectOperator
from flintstream.runtime.operators.source import SourceOperator
from flintstream.runtime.operators.source_function import SourceFunctionOperator
from flintstream.testing import LocalJob


class Numbers(SourceFunction):
    def run(self, ctx: Any) -> None:
        ctx.collect(1)


class ParallelNumbers(ParallelSourceFunction):
    def run(self, ctx: Any) -> None:
        ctx.collect(1)


def new(configuration: Configuration | None = None) -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def source(stream: Any) -> Any:
    return stream._transformation


# Where settings come from


def test_parallelism_from_low_to_high(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "flint.yaml").write_text("parallelism:\n  default: 3\npipeline.max-parallelism: 77\n")
    monkeypatch.setenv("FLINT_CONF_DIR", str(tmp_path))
    assert new().get_parallelism() == 3
    monkeypatch.setenv("FLINT_CONF_OVERRIDES", json.dumps({"parallelism.default": "4"}))
    assert new().get_parallelism() == 4
    given = Configuration.from_dict({"parallelism.default": 5})
    env = new(given)
    assert (env.get_parallelism(), env.get_max_parallelism()) == (5, 77)
    assert env.set_parallelism(6).get_parallelism() == 6
    assert given.get_integer("parallelism.default", 0) == 5
    stream = env.from_sequence(1, 2).map(lambda x: x).set_parallelism(7)
    assert env.generate_stream_graph().nodes[stream._transformation.id].parallelism == 7


@pytest.mark.parametrize("text", ["{", "[1]"])
def test_overrides_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("FLINT_CONF_OVERRIDES", text)
    with pytest.raises(ValueError, match="FLINT_CONF_OVERRIDES"):
        new()


def test_the_configuration_must_be_one() -> None:
    with pytest.raises(TypeError, match="expected a Configuration"):
        new({"parallelism.default": 5})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("master", "expected"),
    [
        ("local[3]", 3),
        ("local", 1),
        ("local[*]", os.cpu_count()),
        ("local[4,2]", 4),
        ("yarn", os.cpu_count()),
    ],
)
def test_the_default_parallelism_is_that_of_the_master(master: str, expected: int) -> None:
    assert new(Configuration.from_dict({"spark.master": master})).get_parallelism() == expected


def test_the_master_of_the_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLINT_SPARK_MASTER", "local[5]")
    assert new().get_parallelism() == 5


def test_the_default_local_parallelism() -> None:
    env = new()
    assert env.get_default_local_parallelism() == (os.cpu_count() or 1)
    env.set_default_local_parallelism(9)
    assert (env.get_default_local_parallelism(), new().get_parallelism()) == (9, 9)


def test_minus_one_is_the_default_again() -> None:
    env = new(Configuration.from_dict({"spark.master": "local[3]"})).set_parallelism(8)
    assert env.set_parallelism(-1).get_parallelism() == 3


@pytest.mark.parametrize("value", [0, -2, 1.5, "2", True, None])
def test_parallelism_refuses(value: Any) -> None:
    with pytest.raises(InvalidProgramException, match="The parallelism of the environment"):
        new().set_parallelism(value)


def test_configure_and_methods_are_one_setting() -> None:
    env = new().set_parallelism(2)
    env.configure(
        Configuration.from_dict(
            {
                "parallelism.default": "5",
                "pipeline.max-parallelism": "99",
                "execution.buffer-timeout.interval": "5 s",
                "execution.checkpointing.interval": "3 s",
                "pipeline.operator-chaining.enabled": "false",
            }
        )
    )
    assert (env.get_parallelism(), env.get_max_parallelism(), env.get_buffer_timeout()) == (5, 99, 5000)
    assert (env.get_checkpoint_interval(), env.is_chaining_enabled()) == (3000, False)
    assert env.get_config().get_parallelism() == 5


def test_defaults() -> None:
    env = new()
    assert (env.get_max_parallelism(), env.get_buffer_timeout(), env.get_checkpoint_interval()) == (
        -1,
        100,
        -1,
    )
    assert env.is_chaining_enabled()
    assert env.is_chaining_of_operators_with_different_max_parallelism_enabled()
    assert env.is_changelog_state_backend_enabled() is None
    assert env.get_default_savepoint_directory() is None
    assert env.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE


def test_settings_by_method() -> None:
    env = new().set_max_parallelism(64).set_buffer_timeout(50).disable_operator_chaining()
    env.enable_checkpointing(1000).enable_changelog_state_backend(True).set_default_savepoint_directory("/s")
    env.register_slot_sharing_group(SlotSharingGroup.builder("g").build())
    assert (env.get_max_parallelism(), env.get_buffer_timeout(), env.is_chaining_enabled()) == (64, 50, False)
    assert env.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE
    assert env.is_changelog_state_backend_enabled() is True
    assert env.get_default_savepoint_directory() == "/s"
    assert env.set_buffer_timeout(-1).get_buffer_timeout() == -1
    mode = CheckpointingMode.AT_LEAST_ONCE
    assert env.enable_checkpointing(1000, mode).get_checkpointing_consistency_mode() is mode


@pytest.mark.parametrize(
    ("method", "value", "error"),
    [
        ("set_max_parallelism", 0, ValueError),
        ("set_max_parallelism", 40_000, ValueError),
        ("set_buffer_timeout", -2, ValueError),
        ("enable_checkpointing", 5, ValueError),
        ("set_runtime_mode", "BATCH", TypeError),
        ("configure", {}, TypeError),
        ("register_slot_sharing_group", "g", TypeError),
        ("set_default_local_parallelism", 0, ValueError),
        ("add_python_file", 5, TypeError),
    ],
)
def test_settings_refuse(method: str, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        getattr(new(), method)(value)


def test_jars_are_not_used() -> None:
    with pytest.warns(UserWarning, match=r"add_jars: Flintstream does not use Flink's jars \(file:///a.jar\)"):
        new().add_jars("file:///a.jar")


# Sources


def test_from_collection(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection((value for value in [1, 2]), Types.INT())
    recorded = source(stream)
    assert (stream.get_name(), stream.get_type()) == ("Collection Source", Types.INT())
    assert isinstance(recorded.source, CollectionSource)
    assert isinstance(recorded.operator, SourceOperator)
    assert (recorded.bounded, recorded.parallelism, recorded.non_parallel) == (True, 1, True)


def test_from_collection_converts_elements(env: StreamExecutionEnvironment) -> None:
    recorded = source(env.from_collection([("a", 1)], Types.ROW_NAMED(["k", "v"], [Types.STRING(), Types.INT()])))
    assert recorded.source._values[0]["k"] == "a"


def test_integers_of_a_collection_wrap_at_any_depth(env: StreamExecutionEnvironment) -> None:
    kind = Types.TUPLE([Types.LIST(Types.BYTE()), Types.MAP(Types.SHORT(), Types.ROW([Types.INT()]))])
    stream = env.from_collection([([300, None], {43878: Row(2**31)})], kind)
    assert source(stream).source._values == [([44, None], {-21658: Row(f0=-(2**31))})]
    assert stream.get_type() == kind
    with pytest.raises(TypeError, match="it holds -128 to 127"):
        kind.coerce([([300], {})])
    with pytest.raises(TypeError, match="from_collection: an element does not fit Long"):
        env.from_collection([2**63], Types.LONG())


def test_former_keys_reach_the_job(env: StreamExecutionEnvironment, cluster: Any) -> None:
    env.configure(Configuration.from_dict({"state.backend": "rocksdb", "state.savepoints.dir": "/sp"}))
    env.from_collection([1]).print()
    env.execute()
    _, settings = cluster.submitted[0]
    assert settings.state_backend == "rocksdb"
    assert settings.checkpoints.savepoint_directory == "/sp"


def test_from_collection_is_a_copy(env: StreamExecutionEnvironment) -> None:
    values = [1]
    recorded = source(env.from_collection(values))
    values.append(2)
    assert recorded.source._values == [1]
    assert source(env.from_collection([], Types.INT())).source._values == []


def test_from_collection_refuses(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(TypeError, match="from_collection: an element does not fit Integer"):
        env.from_collection([1, "a"], Types.INT())
    with pytest.raises(TypeError, match="from_collection: expected a collection, got 5"):
        env.from_collection(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="from_collection: output_type must be one of Types"):
        env.from_collection([1], int)  # type: ignore[arg-type]


def test_from_source(env: StreamExecutionEnvironment) -> None:
    numbers = NumberSequenceSource(1, 3)
    stream = env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers")
    assert (stream.get_name(), stream.get_type()) == ("numbers", Types.LONG())
    assert (source(stream).source, source(stream).bounded, source(stream).parallelism) == (
        numbers,
        True,
        None,
    )
    assert env.from_sequence(1, 3).get_name() == env.generate_sequence(1, 3).get_name() == "Sequence Source"


def test_only_records_that_may_be_of_another_type_are_converted(env: StreamExecutionEnvironment) -> None:
    def converted(**options: Any) -> bool:
        stream = env.from_source(NumberSequenceSource(1, 3), WatermarkStrategy.no_watermarks(), "numbers", **options)
        return not source(stream).operator.emits_declared_type

    assert not converted()
    assert converted(type_info=Types.DOUBLE())


@pytest.mark.parametrize("bounds", [(0, 1 << 63), (-(1 << 63) - 1, 0)])
def test_a_sequence_of_more_than_64_bits_is_refused(bounds: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="must fit 64 bits"):
        NumberSequenceSource(*bounds)


def test_from_source_refuses(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(TypeError, match="from_source: expected a Source of"):
        env.from_source(5, WatermarkStrategy.no_watermarks(), "x")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="from_source: expected a WatermarkStrategy"):
        env.from_source(NumberSequenceSource(1, 3), None, "x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="The name of a source"):
        env.from_source(NumberSequenceSource(1, 3), WatermarkStrategy.no_watermarks(), "")


def test_add_source(env: StreamExecutionEnvironment) -> None:
    function = Numbers()
    stream = env.add_source(function, type_info=Types.INT())
    recorded = source(stream)
    assert (stream.get_name(), stream.get_type()) == ("Custom Source", Types.INT())
    assert isinstance(recorded.operator, SourceFunctionOperator)
    assert unwrapped(recorded.operator.function) is function
    assert (recorded.bounded, recorded.parallelism) == (False, 1)
    assert source(env.add_source(ParallelNumbers(), "many")).parallelism is None


def test_add_source_refuses(env: StreamExecutionEnvironment) -> None:
    class Empty(SourceFunction):
        pass

    with pytest.raises(TypeError, match=r"add_source: Empty does not define run\(self, ctx\)"):
        env.add_source(Empty())
    with pytest.raises(TypeError, match="add_source: expected a SourceFunction, got 5"):
        env.add_source(5)  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError, match="Inherit from the class and write the function in Python"):
        SourceFunction("org.example.MySource")
    with pytest.raises(NotImplementedError, match=r"RichSourceFunction does not define run\(self, ctx\)"):
        RichSourceFunction().run(None)  # type: ignore[arg-type]


class Two(SourceFunction):
    def run(self, ctx: Any) -> None:
        ctx.collect(1)
        ctx.collect(2)


@pytest.mark.parametrize("kind", ["collection", "sequence", "function"])
def test_in_ingestion_time_records_have_the_time_at_which_they_are_read(
    env: StreamExecutionEnvironment, kind: str
) -> None:
    class Times(ProcessFunction):
        def process_element(self, value: int, ctx: Any) -> Any:
            yield value, ctx.timestamp()

    env.set_stream_time_characteristic(TimeCharacteristic.IngestionTime)
    env.set_parallelism(1)
    sources = {
        "collection": env.from_collection([1, 2]),
        "sequence": env.from_sequence(1, 2),
        "function": env.add_source(Two()),
    }
    before = time.time_ns() // 1_000_000
    sources[kind].process(Times())._sink("collect", CollectOperator("all"))
    job = LocalJob(env.generate_stream_graph()).run()
    (one, first), (two, second) = job.collected["all"]
    assert (one, two) == (1, 2)
    assert before <= first <= second <= time.time_ns() // 1_000_000


def test_a_strategy_of_its_own_counts_more_than_ingestion_time(env: StreamExecutionEnvironment) -> None:
    env.set_stream_time_characteristic(TimeCharacteristic.IngestionTime)
    own = WatermarkStrategy.for_monotonous_timestamps()
    assert env._strategy(own) is own
    assert env._strategy(WatermarkStrategy.no_watermarks()) is INGESTION_TIME


# Graphs


def test_nothing_recorded(env: StreamExecutionEnvironment) -> None:
    env.from_collection([1])
    with pytest.raises(InvalidProgramException, match="defines no operators"):
        env.get_execution_plan()


def test_the_graph_follows_the_settings() -> None:
    env = new(Configuration.from_dict({"pipeline.name": "configured"})).set_parallelism(3).set_max_parallelism(50)
    env.from_sequence(1, 5).map(lambda x: x).print()
    graph = env.generate_stream_graph()
    assert (graph.job_name, graph.config.parallelism, graph.config.max_parallelism) == ("configured", 3, 50)
    assert env.generate_stream_graph(job_name="given").job_name == "given"
    assert len(env.get_job_graph().vertices) == 1
    env.disable_operator_chaining()
    assert len(env.get_job_graph().vertices) == 3


def test_word_count_has_three_vertices_and_five_subtasks() -> None:
    env = new().set_parallelism(2)
    words = env.from_collection(["to be"], Types.STRING())
    words.flat_map(str.split).key_by(lambda w: w).reduce(lambda a, b: a).print()
    vertices = env.get_job_graph().vertices
    assert [vertex.parallelism for vertex in vertices] == [1, 2, 2]
    assert vertices[2].name == "Keyed Reduce -> Sink: Print to Std. Out"


def test_close_forgets(env: StreamExecutionEnvironment) -> None:
    env.from_collection([1]).print()
    env.close()
    with pytest.raises(InvalidProgramException):
        env.get_job_graph()


def test_automatic_is_batch_when_all_sources_end(env: StreamExecutionEnvironment) -> None:
    env.from_collection([1]).print()
    bounded = env.generate_stream_graph()
    assert not env._is_batch(bounded)
    env.set_runtime_mode(RuntimeExecutionMode.AUTOMATIC)
    assert env._is_batch(bounded)
    env.add_source(Numbers()).print()
    both = env.generate_stream_graph()
    assert not env._is_batch(both)
    env.configure(Configuration.from_dict({"execution.runtime-mode": "batch"}))
    assert env._is_batch(bounded)
    with pytest.raises(InvalidProgramException, match="these are unbounded: 'Source: Custom Source'"):
        env._is_batch(both)
    env.configure(Configuration.from_dict({"execution.runtime-mode": "fast"}))
    with pytest.raises(ValueError, match=r"'execution\.runtime-mode' must be one of .* got 'fast'"):
        env._is_batch(bounded)
