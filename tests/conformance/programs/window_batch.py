# compare: sorted
# BATCH mode: event-time windows and count windows over a bounded input; nothing is late, records come by time.
from flintstream.common import Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import (
    AggregateFunction,
    ProcessFunction,
    ProcessWindowFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from flintstream.datastream.window import (
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Count(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return a + b


class All(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield "%s %r %s" % (key, context.window(), list(elements))

    def clear(self, context):
        pass


class Stamp(ProcessFunction):
    def process_element(self, value, ctx):
        yield "%s at %d" % (value, ctx.timestamp())


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
data = [("b", 31), ("a", 12), ("b", 4), ("a", 25), ("c", 5), ("a", 3), ("b", 29), ("a", 14), ("a", 1)]
keyed = (
    env.from_collection(data, Types.TUPLE([Types.STRING(), Types.LONG()]))
    .assign_timestamps_and_watermarks(strategy)
    .key_by(lambda t: t[0], key_type=Types.STRING())
)
for label, windows in [
    ("tumbling", keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(10)))),
    ("sliding", keyed.window(SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5)))),
]:
    windows.reduce(lambda left, right: (left[0] + right[0], right[1])).process(Stamp(), Types.STRING()).print(label)
    windows.aggregate(Count(), window_function=All(), output_type=Types.STRING()).print(label + ", counted")
for label, windows in [("count", keyed.count_window(2)), ("sliding count", keyed.count_window(3, 1))]:
    windows.process(All(), Types.STRING()).process(Stamp(), Types.STRING()).print(label)
    windows.aggregate(Count(), window_function=All(), output_type=Types.STRING()).print(label + ", counted")
env.execute()
