# compare: sorted
# The results of a window carry the greatest timestamp of the window, those of count and global windows the greatest of all.
from flintstream.common import Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import ProcessFunction, ProcessWindowFunction, StreamExecutionEnvironment
from flintstream.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Size(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield "%s %d" % (key, len(list(elements)))
        yield "%s end" % key

    def clear(self, context):
        pass


class Stamp(ProcessFunction):
    def process_element(self, value, ctx):
        yield "%s at %d" % (value, ctx.timestamp())


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
data = [("a", 1), ("b", 4), ("a", 7), ("a", 22), ("b", 23)]
keyed = (
    env.from_collection(data, Types.TUPLE([Types.STRING(), Types.LONG()]))
    .assign_timestamps_and_watermarks(strategy)
    .key_by(lambda t: t[0], key_type=Types.STRING())
)
for label, windows in [
    ("tumbling", keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(10)))),
    ("sliding", keyed.window(SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5)))),
    ("sessions", keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(8)))),
    ("count", keyed.count_window(2)),
    ("early", keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(10))).trigger(CountTrigger.of(1))),
    ("global", keyed.window(GlobalWindows.create()).trigger(CountTrigger.of(2))),
]:
    windows.process(Size(), Types.STRING()).process(Stamp(), Types.STRING()).print(label)
    windows.reduce(lambda left, right: right).process(Stamp(), Types.STRING()).print(label + ", reduced")
env.execute()
