# compare: sorted
# window_all with every kind of function: one window over all records, in one subtask whatever the parallelism.
from flintstream.common import Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import AggregateFunction, ProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.functions import AllWindowFunction, ProcessAllWindowFunction
from flintstream.datastream.window import (
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Sum(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value[2]

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return a + b


class Apply(AllWindowFunction):
    def apply(self, window, inputs):
        yield "%s %s" % (window, sorted(str(value) for value in inputs))


class Process(ProcessAllWindowFunction):
    def process(self, context, elements):
        yield "%s %s" % (context.window(), sorted(str(value) for value in elements))

    def clear(self, context):
        pass


class Stamp(ProcessFunction):
    def process_element(self, value, ctx):
        yield "%s at %d" % (value, ctx.timestamp())


def add(left, right):
    return "sum", max(left[1], right[1]), left[2] + right[2]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
data = [("a", 1, 1), ("b", 5, 2), ("c", 9, 4), ("a", 12, 3), ("b", 31, 5)]
stream = env.from_collection(
    data, Types.TUPLE([Types.STRING(), Types.LONG(), Types.INT()])
).assign_timestamps_and_watermarks(strategy)
for label, assigner in [
    ("tumbling", TumblingEventTimeWindows.of(Time.milliseconds(10))),
    ("sliding", SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5))),
    ("sessions", EventTimeSessionWindows.with_gap(Time.milliseconds(5))),
]:
    windows = stream.window_all(assigner)
    windows.reduce(add).process(Stamp(), Types.STRING()).print(label + " reduce")
    windows.reduce(add, Process(), Types.STRING()).print(label + " reduce, process")
    windows.aggregate(Sum(), output_type=Types.INT()).print(label + " aggregate")
    windows.aggregate(Sum(), window_function=Apply(), output_type=Types.STRING()).print(label + " aggregate, apply")
    windows.apply(Apply(), Types.STRING()).print(label + " apply")
    windows.process(Process(), Types.STRING()).process(Stamp(), Types.STRING()).print(label + " process")
env.execute()
stream.window_all(CountTumblingWindowAssigner.of(2)).apply(Apply(), Types.STRING()).print("count")
stream.window_all(CountSlidingWindowAssigner.of(3, 1)).process(Process(), Types.STRING()).print("sliding count")
stream.window_all(GlobalWindows.create()).trigger(CountTrigger.of(4)).process(Process(), Types.STRING()).print("global")
env.execute()
