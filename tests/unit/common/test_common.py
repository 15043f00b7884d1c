"""The small words: time, watermark strategies, schemas, restart strategies, jobs, futures, accumulators."""

import asyncio
import pickle
from concurrent.futures import Future
from decimal import Decimal
from typing import Any

import cloudpickle
import pytest

from flintstream.common import (
    ByteArraySchema,
    CompletableFuture,
    Duration,
    Encoder,
    Instant,
    JobClient,
    JobExecutionResult,
    JobID,
    JobStatus,
    RestartStrategies,
    Row,
    SimpleStringSchema,
    Time,
    TimestampAssigner,
    Types,
    WatermarkGenerator,
    WatermarkStrategy,
    accumulators,
)
from flintstream.common.configuration import add_jars_to_context_class_loader, get_gateway
from flintstream.common.serialization import (
    BulkWriterFactory,
    RowFieldExtractorSchema,
    TypeInformationSerializationSchema,
)
from flintstream.common.watermark_strategy import (
    AscendingTimestamps,
    AssignerWithPeriodicWatermarksWrapper,
    BoundedOutOfOrderness,
    NoWatermarks,
    WatermarkAlignment,
    WatermarkOutput,
)


def test_times() -> None:
    assert str(Time.minutes(1)) == "60000 ms"
    assert Time.hours(24) == Time.days(1) > Time.seconds(1)
    assert Duration.of_days(1) == Duration.of_hours(24) == Duration.of_nanos(86_400 * 10**9)
    assert Duration.of_millis(1) < Duration.of_seconds(1)
    assert Instant.of_epoch_milli(-5) == Instant(-1, 995_000_000)
    assert Instant(1, 2).to_epoch_milli() == 1000
    assert repr(Instant(1, 2)) == "Instant<1, 2>"
    assert pickle.loads(pickle.dumps([Instant(1, 2), Time(5), Duration(7)])) == [
        Instant(1, 2),
        Time(5),
        Duration(7),
    ]
    with pytest.raises(TypeError, match=r"0\.5"):
        Time.seconds(0.5)  # type: ignore[arg-type]


class Output(WatermarkOutput):
    def __init__(self) -> None:
        self.marks: list[int] = []

    def emit_watermark(self, timestamp: int) -> None:
        self.marks.append(timestamp)

    def mark_idle(self) -> None:
        raise AssertionError


def test_bounded_out_of_orderness() -> None:
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1))
    generator, output = strategy.create_generator(), Output()
    generator.on_periodic_emit(output)
    for timestamp in (5000, 3000):
        generator.on_event("x", timestamp, output)
    generator.on_periodic_emit(output)
    assert output.marks == [-(2**63), 3999]
    assert isinstance(generator, BoundedOutOfOrderness)
    generator.on_block([7000, 6000])
    generator.on_block([])
    assert generator.current_watermark() == 5999
    with pytest.raises(ValueError):
        WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(-1))


def test_other_generators() -> None:
    ascending, output = WatermarkStrategy.for_monotonous_timestamps().create_generator(), Output()
    assert isinstance(ascending, AscendingTimestamps)
    ascending.on_event(1, 10, output)
    ascending.on_periodic_emit(output)
    WatermarkStrategy.no_watermarks().create_generator().on_periodic_emit(output)
    assert output.marks == [9]
    assert not WatermarkStrategy.no_watermarks().emits_watermarks


class EveryEvent(WatermarkGenerator):
    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        output.emit_watermark(event_timestamp)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        pass


class First(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[0])


def test_a_strategy_is_an_immutable_description() -> None:
    base = WatermarkStrategy.for_generator(EveryEvent)
    full = (
        base.with_timestamp_assigner(lambda value, old: value + old)
        .with_idleness(Duration.of_seconds(2))
        .with_watermark_alignment("g", Duration.of_seconds(20), Duration.of_millis(500))
    )
    assert (base.timestamp_assigner, base.idle_timeout, base.alignment) == (None, None, None)
    assert full.idle_timeout == 2000
    assert full.alignment == WatermarkAlignment("g", 20_000, 500)
    again = cloudpickle.loads(cloudpickle.dumps(full))
    assert again.timestamp_assigner.extract_timestamp(5, 1) == 6
    assert not full.has_built_in_generator
    assert WatermarkStrategy.for_monotonous_timestamps().has_built_in_generator
    assert base.with_timestamp_assigner(First()).timestamp_assigner.extract_timestamp((7,), 0) == 7  # type: ignore[union-attr]
    assert base.with_watermark_alignment("g", Duration.of_seconds(1)).alignment == WatermarkAlignment("g", 1000, 1000)
    assert type(WatermarkStrategy.no_watermarks().create_generator()) is NoWatermarks
    with pytest.raises(TypeError):
        WatermarkStrategy.for_generator(EveryEvent())  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        base.with_timestamp_assigner(5)  # type: ignore[arg-type]
    with pytest.raises(ValueError):
        base.with_idleness(Duration.of_millis(0))


def test_schemas() -> None:
    assert SimpleStringSchema("ISO-8859-1").serialize("é") == b"\xe9"
    assert SimpleStringSchema().deserialize(b"\xc3\xa9") == "é"
    assert SimpleStringSchema().deserialize(b"\xff") == "\ufffd"
    assert ByteArraySchema().serialize(bytearray(b"a")) == b"a"
    assert RowFieldExtractorSchema(1).serialize(Row(1, b"k")) == b"k"
    assert RowFieldExtractorSchema(0).serialize(Row(None)) == b""
    assert RowFieldExtractorSchema(0).serialize(None) == b""
    assert RowFieldExtractorSchema(0) == RowFieldExtractorSchema(0) != RowFieldExtractorSchema(1)
    assert cloudpickle.loads(cloudpickle.dumps(Encoder.simple_string_encoder())).encode("a") == b"a\n"
    with pytest.raises(TypeError, match="strings, not 5"):
        SimpleStringSchema().serialize(5)
    with pytest.raises(ValueError, match="charset 'nope'"):
        SimpleStringSchema("nope")
    with pytest.raises(TypeError):
        ByteArraySchema().serialize("a")
    with pytest.raises(TypeError, match="must hold bytes"):
        RowFieldExtractorSchema(0).serialize(Row(1))
    with pytest.raises(ValueError, match="Field index must be non-negative, got: -1"):
        RowFieldExtractorSchema(-1)


def test_typed_messages() -> None:
    pair = Types.TUPLE([Types.STRING(), Types.BIG_DEC()])
    schema = cloudpickle.loads(cloudpickle.dumps(TypeInformationSerializationSchema(pair)))
    for value in (("a", Decimal("1.50")), (None, Decimal(0))):
        found = schema.deserialize(schema.serialize(value))
        assert (found, str(found)) == (value, str(value)), "also the form of a number is kept"
    assert schema.get_produced_type() == pair
    with pytest.raises(TypeError, match="not None"):
        schema.serialize(None)
    with pytest.raises(TypeError, match="type_info must be a type of Types, got 'string'"):
        TypeInformationSerializationSchema("string")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "call",
    [
        get_gateway,
        lambda: add_jars_to_context_class_loader([]),
        AssignerWithPeriodicWatermarksWrapper,
        lambda: BulkWriterFactory().get_java_object(),
    ],
)
def test_java_names_are_refused(call: Any) -> None:
    with pytest.raises(NotImplementedError, match="JVM"):
        call()


def test_restart_strategies() -> None:
    fixed = RestartStrategies.fixed_delay_restart(3, 1000)
    assert fixed.get_restart_attempts() == 3
    assert fixed.get_delay_between_attempts_interval() == Duration.of_seconds(1)
    assert fixed == RestartStrategies.fixed_delay_restart(3, Time.seconds(1))
    rate = RestartStrategies.failure_rate_restart(3, 1000, 50)
    assert (rate.get_max_failure_rate(), rate.get_failure_interval()) == (3, Duration.of_seconds(1))
    assert "3 failures" in rate.get_description()
    assert RestartStrategies.no_restart() != RestartStrategies.fall_back_restart()
    assert RestartStrategies.exponential_delay_restart(1000, 60_000).backoff_multiplier == 1.5
    for make in (
        lambda: RestartStrategies.fixed_delay_restart(-1, 0),
        lambda: RestartStrategies.fixed_delay_restart(1, -1),
        lambda: RestartStrategies.exponential_delay_restart(10, 5),
    ):
        with pytest.raises(ValueError):
            make()


def test_jobs() -> None:
    job = JobID()
    assert JobID(str(job)) == job != JobID()
    with pytest.raises(ValueError):
        JobID("abc")
    terminal = {status.name for status in JobStatus if status.is_terminal_state()}
    assert terminal == {"FAILED", "CANCELED", "FINISHED", "SUSPENDED"}
    assert not JobStatus.SUSPENDED.is_globally_terminal_state()
    result = JobExecutionResult(job, 12, {"n": 1})
    assert (result.get_job_id(), result.get_all_accumulator_results()) == (job, {"n": 1})
    assert result.get_accumulator_result("m") is None
    with pytest.raises(TypeError):
        JobClient()  # type: ignore[abstract]


def test_futures() -> None:
    inner: Future[int] = Future()
    future = CompletableFuture(inner, py_class=str)
    seen: list[Any] = []
    future.add_done_callback(lambda f: seen.append(f.result()))
    assert not future.done()
    inner.set_result(5)
    assert (future.done(), future.result(), future.exception(), future.cancelled()) == (
        True,
        "5",
        None,
        False,
    )
    assert seen == ["5"]
    failed = CompletableFuture.failed(ValueError("no"))
    assert isinstance(failed.exception(), ValueError)
    with pytest.raises(ValueError):
        failed.result()

    async def wait() -> Any:
        return await CompletableFuture.completed(7)

    assert asyncio.run(wait()) == 7
    assert CompletableFuture().cancel()


@pytest.mark.parametrize(
    ("kind", "first", "second", "merged", "empty"),
    [
        (accumulators.IntCounter, [1, 2], [3], 6, 0),
        (accumulators.LongCounter, [1, 2], [3], 6, 0),
        (accumulators.DoubleCounter, [1.5], [2], 3.5, 0.0),
        (accumulators.AverageAccumulator, [1, 2], [6], 3.0, 0.0),
        (accumulators.ListAccumulator, ["a"], ["b"], ["a", "b"], []),
        (accumulators.Histogram, [3, 1], [3], {1: 1, 3: 2}, {}),
        (accumulators.IntMinimum, [3, 1], [2], 1, 2**31 - 1),
        (accumulators.IntMaximum, [3, 1], [2], 3, -(2**31)),
        (accumulators.LongMinimum, [3, 1], [2], 1, 2**63 - 1),
        (accumulators.LongMaximum, [3, 1], [2], 3, -(2**63)),
        (accumulators.DoubleMinimum, [3.5], [2], 2, float("inf")),
        (accumulators.DoubleMaximum, [3.5], [2], 3.5, float("-inf")),
    ],
)
def test_accumulators(kind: Any, first: list[Any], second: list[Any], merged: Any, empty: Any) -> None:
    one, other = kind(), kind()
    assert one.get_local_value() == empty
    for value in first:
        one.add(value)
    for value in second:
        other.add(value)
    copy = pickle.loads(pickle.dumps(one.clone()))
    copy.merge(other)
    assert copy.get_local_value() == merged
    one.reset_local()
    assert one.get_local_value() == empty
