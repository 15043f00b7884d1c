# compare: sorted-no-prefix
# Windows in several subtasks: each key's results are the same, window_all has one subtask.
from flintstream.common import Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import AggregateFunction, ProcessWindowFunction, StreamExecutionEnvironment
from flintstream.datastream.functions import ProcessAllWindowFunction
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


class Show(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield "%d %d %d" % (key, context.window().end, len(list(elements)))

    def clear(self, context):
        pass


class ShowAll(ProcessAllWindowFunction):
    def process(self, context, elements):
        yield "%d %d" % (context.window().end, len(list(elements)))

    def clear(self, context):
        pass


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
data = [(number % 7, number * 13 % 1000) for number in range(300)]
stream = env.from_collection(data, Types.TUPLE([Types.INT(), Types.LONG()])).assign_timestamps_and_watermarks(strategy)
keyed = stream.key_by(lambda t: t[0], key_type=Types.INT())
for label, assigner in [
    ("tumbling", TumblingEventTimeWindows.of(Time.milliseconds(250))),
    ("sliding", SlidingEventTimeWindows.of(Time.milliseconds(500), Time.milliseconds(250))),
    ("sessions", EventTimeSessionWindows.with_gap(Time.milliseconds(11))),
]:
    keyed.window(assigner).process(Show(), Types.STRING()).print(label)
    stream.window_all(assigner).process(ShowAll(), Types.STRING()).print("all-" + label)
keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(500))).aggregate(Count(), output_type=Types.INT()).print(
    "count"
)
env.execute()
