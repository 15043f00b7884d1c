# compare: sorted
# Records from before 1970: windows are aligned the same way on both sides of zero.
from flintstream.common import Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import ProcessFunction, StreamExecutionEnvironment, WindowFunction
from flintstream.datastream.window import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Window(WindowFunction):
    def apply(self, key, window, inputs):
        yield "%s %s" % (window, sorted(value[1] for value in inputs))


class Stamp(ProcessFunction):
    def process_element(self, value, ctx):
        yield "%s at %d" % (value, ctx.timestamp())


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
keyed = (
    env.from_collection(
        [("k", time) for time in (-20, -10, -11, -1, 0, 1, -1000000000007)],
        Types.TUPLE([Types.STRING(), Types.LONG()]),
    )
    .assign_timestamps_and_watermarks(strategy)
    .key_by(lambda t: t[0], key_type=Types.STRING())
)
for label, assigner in [
    ("tumbling", TumblingEventTimeWindows.of(Time.milliseconds(10))),
    ("offset", TumblingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(3))),
    ("sliding", SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5))),
    ("sessions", EventTimeSessionWindows.with_gap(Time.milliseconds(5))),
]:
    keyed.window(assigner).apply(Window(), Types.STRING()).process(Stamp(), Types.STRING()).print(label)
env.execute()
