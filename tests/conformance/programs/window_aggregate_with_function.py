# compare: sorted
# An aggregate function with a window function behind it, which gets the one result; the accumulator is changed in place.
from flintstream.common import Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import (
    AggregateFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    WindowFunction,
)
from flintstream.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Collect(AggregateFunction):
    def create_accumulator(self):
        return []

    def add(self, value, accumulator):
        accumulator.append(value[2])
        return accumulator

    def get_result(self, accumulator):
        return sum(accumulator), len(accumulator)

    def merge(self, a, b):
        a.extend(b)
        return a


class Report(ProcessWindowFunction):
    def process(self, key, context, elements):
        (result,) = elements
        yield "%s until %d: sum %d of %d" % (key, context.window().end, *result)

    def clear(self, context):
        pass


class Apply(WindowFunction):
    def apply(self, key, window, inputs):
        (result,) = inputs
        return [(key, window.start, result[0] / result[1])]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
data = [("a", 100, 7), ("b", 150, 3), ("a", 900, 9), ("a", 1100, 2), ("b", 1900, 4), ("b", 1950, 1)]
keyed = (
    env.from_collection(data, Types.TUPLE([Types.STRING(), Types.LONG(), Types.INT()]))
    .assign_timestamps_and_watermarks(strategy)
    .key_by(lambda t: t[0], key_type=Types.STRING())
)
tumbling = keyed.window(TumblingEventTimeWindows.of(Time.seconds(1)))
tumbling.aggregate(Collect(), window_function=Report(), output_type=Types.STRING()).print("tumbling")
tumbling.aggregate(
    Collect(),
    Apply(),
    accumulator_type=Types.PICKLED_BYTE_ARRAY(),
    output_type=Types.TUPLE([Types.STRING(), Types.LONG(), Types.DOUBLE()]),
).print("apply")
sliding = keyed.window(SlidingEventTimeWindows.of(Time.seconds(1), Time.milliseconds(500)))
sliding.aggregate(Collect(), window_function=Report(), output_type=Types.STRING()).print("sliding")
env.execute()
