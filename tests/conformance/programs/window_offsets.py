# compare: sorted
# Tumbling and sliding windows with offsets, positive and negative.
from flintstream.common import Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import StreamExecutionEnvironment, WindowFunction
from flintstream.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Window(WindowFunction):
    def apply(self, key, window, inputs):
        yield "%s %s" % (window, [value[1] for value in inputs])


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
hour = 3600000
keyed = (
    env.from_collection(
        [("k", time) for time in (0, 14 * 60000, 15 * 60000, hour, 7 * hour, 15 * hour, 16 * hour, 17 * hour)],
        Types.TUPLE([Types.STRING(), Types.LONG()]),
    )
    .assign_timestamps_and_watermarks(strategy)
    .key_by(lambda t: t[0], key_type=Types.STRING())
)
for label, assigner in [
    ("hours from :15", TumblingEventTimeWindows.of(Time.hours(1), Time.minutes(15))),
    ("days of UTC+8", TumblingEventTimeWindows.of(Time.days(1), Time.hours(-8))),
    ("sliding plus", SlidingEventTimeWindows.of(Time.hours(2), Time.hours(1), Time.minutes(15))),
    ("sliding minus", SlidingEventTimeWindows.of(Time.hours(12), Time.hours(6), Time.hours(-1))),
]:
    keyed.window(assigner).apply(Window(), Types.STRING()).print(label)
env.execute()
