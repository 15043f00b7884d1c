# compare: sorted
# BATCH mode: sessions and windows with all their records, in the order of their timestamps.
from flintstream.common import Configuration, Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import (
    AggregateFunction,
    ProcessFunction,
    ProcessWindowFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from flintstream.datastream.window import (
    EventTimeSessionWindows,
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


config = Configuration()
config.set_integer("python.fn-execution.bundle.size", 1)
env = StreamExecutionEnvironment.get_execution_environment(config)
env.set_parallelism(1)
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
data = [("a", 12), ("a", 25), ("a", 3), ("a", 47), ("a", 14), ("a", 1), ("a", 54), ("a", 41)]
keyed = (
    env.from_collection(data, Types.TUPLE([Types.STRING(), Types.LONG()]))
    .assign_timestamps_and_watermarks(strategy)
    .key_by(lambda t: t[0], key_type=Types.STRING())
)
for label, assigner in [
    ("tumbling", TumblingEventTimeWindows.of(Time.milliseconds(10))),
    ("sliding", SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5))),
    ("sessions", EventTimeSessionWindows.with_gap(Time.milliseconds(8))),
]:
    windows = keyed.window(assigner)
    windows.process(All(), Types.STRING()).process(Stamp(), Types.STRING()).print(label)
    windows.aggregate(Count(), window_function=All(), output_type=Types.STRING()).print(label + ", counted")
env.execute()
