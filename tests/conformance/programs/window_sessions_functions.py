# compare: sorted
# Sessions that grow with every kind of function, and the timestamps of their results.
from flintstream.common import Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import (
    AggregateFunction,
    ProcessFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    WindowFunction,
)
from flintstream.datastream.window import EventTimeSessionWindows


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class CountNames(AggregateFunction):
    def create_accumulator(self):
        return {}

    def add(self, value, accumulator):
        accumulator[value[2]] = accumulator.get(value[2], 0) + 1
        return accumulator

    def get_result(self, accumulator):
        return sorted(accumulator.items())

    def merge(self, a, b):
        for name, count in b.items():
            a[name] = a.get(name, 0) + count
        return a


class Report(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield "%s %s %s" % (key, context.window(), list(elements))

    def clear(self, context):
        pass


class Apply(WindowFunction):
    def apply(self, key, window, inputs):
        yield "%s %d %s" % (key, window.end - window.start, sorted(inputs))


class Stamp(ProcessFunction):
    def process_element(self, value, ctx):
        yield "%s at %d" % (value, ctx.timestamp())


def longest(left, right):
    return max(left, right, key=lambda value: (len(value[2]), value[1]))


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
data = [("a", 0, "x"), ("a", 8, "yy"), ("b", 5, "x"), ("a", 15, "x"), ("b", 40, "zzz"), ("a", 60, "w"), ("b", 45, "x")]
windows = (
    env.from_collection(data, Types.TUPLE([Types.STRING(), Types.LONG(), Types.STRING()]))
    .assign_timestamps_and_watermarks(strategy)
    .key_by(lambda t: t[0], key_type=Types.STRING())
    .window(EventTimeSessionWindows.with_gap(Time.milliseconds(10)))
)
windows.reduce(longest).process(Stamp(), Types.STRING()).print("reduce")
windows.reduce(longest, Report(), Types.STRING()).process(Stamp(), Types.STRING()).print("reduce and process")
windows.aggregate(CountNames(), output_type=Types.PICKLED_BYTE_ARRAY()).process(Stamp(), Types.STRING()).print(
    "aggregate"
)
windows.aggregate(CountNames(), window_function=Report(), output_type=Types.STRING()).print("aggregate and process")
windows.aggregate(CountNames(), window_function=Apply(), output_type=Types.STRING()).print("aggregate and apply")
windows.apply(Apply(), Types.STRING()).process(Stamp(), Types.STRING()).print("apply")
env.execute()
