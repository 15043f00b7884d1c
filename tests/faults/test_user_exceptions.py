"""A user's exception, wherever it is raised, ends the job with a message for the user and leaves nothing running."""

from __future__ import annotations

import re

import pytest
from tests.faults.helpers import failure, numbers

from flintstream.common import WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import CoMapFunction, FlatMapFunction, KeyedProcessFunction, MapFunction, ProcessFunction
from flintstream.datastream.connectors.source import PythonSource
from flintstream.datastream.functions import SinkFunction, SourceFunction
from flintstream.jobmaster.errors import JobExecutionError


class Broken(ValueError):
    pass


def breaks_at_7(value):
    if value == 7:
        raise Broken("this is the user's mistake")
    return value


class MapBreaks(MapFunction):
    def map(self, value):
        return breaks_at_7(value)


class BreaksHalfWay(FlatMapFunction):
    def flat_map(self, value):
        yield value
        yield breaks_at_7(value)


class ProcessBreaks(ProcessFunction):
    def process_element(self, value, ctx):
        yield breaks_at_7(value)


class KeyedProcessBreaks(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield breaks_at_7(value)


class CoMapBreaks(CoMapFunction):
    def map1(self, value):
        return value

    def map2(self, value):
        return breaks_at_7(value)


class SinkBreaks(SinkFunction):
    def invoke(self, value, context):
        breaks_at_7(value)


class OpenBreaks(MapFunction):
    def open(self, runtime_context):
        breaks_at_7(7)

    def map(self, value):
        return value


class CloseBreaks(MapFunction):
    def map(self, value):
        return value

    def close(self):
        breaks_at_7(7)


class RunBreaks(SourceFunction):
    def run(self, ctx):
        for number in range(100):
            ctx.collect(breaks_at_7(number))

    def cancel(self):
        pass


class ReaderBreaks(PythonSource):
    def splits(self, parallelism):
        return ["first", "second"]

    def read(self, split, position):
        for number in range(10):
            yield number, breaks_at_7(number)


class SplitsBreak(PythonSource):
    def splits(self, parallelism):
        return [breaks_at_7(7)]

    def read(self, split, position):
        yield None


class TimestampsBreak(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return breaks_at_7(value)


def without_watermarks(env, source, name):
    return env.from_source(source, WatermarkStrategy.no_watermarks(), name)


def keyed(env, selector):
    return numbers(env, 1, 10).map(lambda n: n).name("Before").key_by(selector)


PLACES = {
    # What fails: (the program up to its sink, the operator named in the message, the record)
    "map": (lambda env: numbers(env, 1, 10).map(MapBreaks()).name("Mine"), "Mine", "7"),
    "map function": (lambda env: numbers(env, 1, 10).map(breaks_at_7).name("Mine"), "Mine", "7"),
    "filter": (lambda env: numbers(env, 1, 10).filter(breaks_at_7).name("Mine"), "Mine", "7"),
    "behind an exchange": (lambda env: numbers(env, 1, 10).rebalance().map(breaks_at_7).name("Mine"), "Mine", "7"),
    "flat_map half way": (lambda env: numbers(env, 1, 10).flat_map(BreaksHalfWay()).name("Mine"), "Mine", "7"),
    "process": (lambda env: numbers(env, 1, 10).process(ProcessBreaks()).name("Mine"), "Mine", "7"),
    "keyed process": (lambda env: keyed(env, lambda n: n).process(KeyedProcessBreaks()).name("Mine"), "Mine", "7"),
    "reduce": (
        lambda env: keyed(env, lambda n: 0).reduce(lambda a, b: breaks_at_7(7)).name("Mine"),
        "Mine",
        None,
    ),
    "co-map": (
        lambda env: env.from_collection(["a"]).connect(numbers(env, 1, 10)).map(CoMapBreaks()).name("Mine"),
        "Mine",
        "7",
    ),
    "key selector": (
        lambda env: keyed(env, breaks_at_7).map(lambda n: n),
        r"key_by at test_user_exceptions\.py:\d+",
        "7",
    ),
    "partitioner": (
        lambda env: (
            numbers(env, 1, 10)
            .map(lambda n: n)
            .name("Before")
            .partition_custom(lambda key, count: breaks_at_7(key) % count, lambda n: n)
            .map(lambda n: n)
        ),
        "Before",
        "7",
    ),
    "timestamp assigner": (
        lambda env: numbers(env, 1, 10).assign_timestamps_and_watermarks(
            WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(TimestampsBreak())
        ),
        "Timestamps/Watermarks",
        "7",
    ),
    "open": (lambda env: numbers(env, 1, 10).map(OpenBreaks()).name("Mine"), "Mine", None),
    "close": (lambda env: numbers(env, 1, 10).map(CloseBreaks()).name("Mine"), "Mine", None),
    "source function": (lambda env: env.add_source(RunBreaks(), "Mine"), "Mine", None),
    "split reader": (lambda env: without_watermarks(env, ReaderBreaks(), "Mine"), "Mine", None),
    "split discovery": (lambda env: without_watermarks(env, SplitsBreak(), "Mine"), "Mine", None),
}


@pytest.mark.parametrize("place", PLACES)
def test_an_exception_names_its_operator_and_record_and_leaves_nothing_running(env, place):
    build, operator, record = PLACES[place]
    build(env).print()
    message = failure(env.execute_async())
    assert re.search(f"Operator '[^']*{operator}' .*failed: ", message)
    assert "this is the user's mistake" in message
    assert "breaks_at_7" in message, "the user's own traceback"
    if record is not None:
        assert f"Record at fault: {record}\n" in message


def test_an_exception_in_a_sink_names_it_and_its_record(env):
    numbers(env, 1, 10).add_sink(SinkBreaks()).name("My sink")
    message = failure(env.execute_async())
    assert "My sink' (subtask" in message
    assert "Record at fault: 7\n" in message


def test_execute_and_collect_raises_it_where_the_results_are_read(env):
    results = numbers(env, 1, 10).map(breaks_at_7).execute_and_collect()
    with pytest.raises(JobExecutionError, match="user's mistake") as caught, results:
        list(results)
    assert isinstance(caught.value.__cause__, Broken)
