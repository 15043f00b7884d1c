# compare: sorted
# What window functions are handed and may give: iterables read twice, side outputs, nothing, Rows, and odd accumulators.
from typing import NamedTuple

from flintstream.common import Row, Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import (
    AggregateFunction,
    OutputTag,
    ProcessWindowFunction,
    ReduceFunction,
    StreamExecutionEnvironment,
    WindowFunction,
)
from flintstream.datastream.functions import ProcessAllWindowFunction
from flintstream.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)


class Reading(NamedTuple):
    sensor: str
    time: int
    value: float


class When(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value.time


readings = [
    Reading("s1", 1, 10.0),
    Reading("s2", 2, 20.5),
    Reading("s1", 5, 30.0),
    Reading("s1", 12, 1.5),
    Reading("s2", 25, 7.0),
    Reading("s1", 11, 0.5),
]
stream = env.from_collection(readings).assign_timestamps_and_watermarks(
    WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(When())
)
stream.map(lambda r: "%s %s" % (type(r).__name__, r), Types.STRING()).print("named tuples")
keyed = stream.key_by(lambda r: r.sensor, Types.STRING())
tens = TumblingEventTimeWindows.of(Time.milliseconds(10))
hot = OutputTag("hot", Types.STRING())
windows_seen = OutputTag("windows", Types.TUPLE([Types.LONG(), Types.LONG()]))


class Twice(ProcessWindowFunction):
    def process(self, key, context, elements):
        first = [e.value for e in elements]
        second = [e.value for e in elements]
        yield "%s %s %s" % (key, first, first == second)
        for e in elements:
            if e.value > 15:
                yield hot, "%s was hot: %s" % (key, e.value)
        yield windows_seen, (context.window().start, context.window().end)


class Length(ProcessWindowFunction):
    def process(self, key, context, elements):
        return [Row(key, len(elements), elements[0].value)]


class Nothing(WindowFunction):
    def apply(self, key, window, inputs):
        return []


class Some(ProcessAllWindowFunction):
    def process(self, context, elements):
        values = sorted(e.value for e in elements)
        if len(values) > 2:
            yield Row(start=context.window().start, median=values[len(values) // 2])
            yield hot, "all %s" % values


class Stats(AggregateFunction):
    def create_accumulator(self):
        return {"n": 0, "sum": 0.0, "max": None}

    def add(self, value, accumulator):
        accumulator["n"] += 1
        accumulator["sum"] += value.value
        accumulator["max"] = value.value if accumulator["max"] is None else max(accumulator["max"], value.value)
        return accumulator

    def get_result(self, accumulator):
        return accumulator["n"], accumulator["sum"] / accumulator["n"], accumulator["max"]

    def merge(self, a, b):
        return {"n": a["n"] + b["n"], "sum": a["sum"] + b["sum"], "max": max(a["max"], b["max"])}


class NoResult(Stats):
    def get_result(self, accumulator):
        return None


class Strings(AggregateFunction):
    def create_accumulator(self):
        return ""

    def add(self, value, accumulator):
        return accumulator + value.sensor[-1] + ("%g" % value.value)

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return a + "|" + b


class Largest(ReduceFunction):
    def reduce(self, value1, value2):
        return value1 if value1.value >= value2.value else value2


twice = keyed.window(tens).process(Twice(), Types.STRING())
twice.print("twice")
twice.get_side_output(hot).print("hot")
twice.get_side_output(windows_seen).print("windows")
keyed.window(tens).process(Length()).print("length")
keyed.window(tens).apply(Nothing()).print("nothing")
some = stream.window_all(TumblingEventTimeWindows.of(Time.milliseconds(20))).process(
    Some(), Types.ROW_NAMED(["start", "median"], [Types.LONG(), Types.DOUBLE()])
)
some.print("median")
some.get_side_output(hot).print("hot all")
keyed.window(tens).aggregate(Stats()).print("stats")
keyed.window(tens).aggregate(Stats(), output_type=Types.TUPLE([Types.INT(), Types.DOUBLE(), Types.DOUBLE()])).print(
    "typed stats"
)
keyed.window(tens).aggregate(
    Stats(),
    accumulator_type=Types.PICKLED_BYTE_ARRAY(),
    output_type=Types.TUPLE([Types.INT(), Types.DOUBLE(), Types.DOUBLE()]),
).map(lambda t: t[1], Types.DOUBLE()).print("typed accumulator")
keyed.window(tens).aggregate(NoResult()).print("no result")
keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(7))).aggregate(Stats()).print("session stats")
keyed.window(SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5))).aggregate(
    Strings(), accumulator_type=Types.STRING(), output_type=Types.STRING()
).print("sliding strings")
keyed.window(tens).reduce(Largest()).print("largest")
keyed.window(tens).reduce(Largest(), Length()).print("largest length")
keyed.window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(2))).reduce(Largest()).print("pairs")
keyed.count_window(2).aggregate(Stats()).print("count stats")
stream.window_all(tens).reduce(Largest()).print("all largest")
stream.window_all(tens).aggregate(Stats()).print("all stats")
env.execute()
