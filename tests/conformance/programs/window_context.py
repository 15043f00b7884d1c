# compare: sorted
# What a ProcessWindowFunction and a trigger may ask: window, watermark, processing time.
import time

from flintstream.common import Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from flintstream.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    TumblingEventTimeWindows,
)

began = time.time() * 1000


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Ask(ProcessWindowFunction):
    def process(self, key, context, elements):
        now = context.current_processing_time()
        yield "%s %r watermark %d now %s %s" % (
            key,
            context.window(),
            context.current_watermark(),
            began <= now <= time.time() * 1000,
            type(now).__name__,
        )

    def clear(self, context):
        pass


class Asking(EventTimeTrigger):
    def on_element(self, element, timestamp, window, ctx):
        assert timestamp == element[1]
        assert ctx.get_current_watermark() < timestamp
        assert began <= ctx.get_current_processing_time() <= time.time() * 1000
        return super().on_element(element, timestamp, window, ctx)

    def on_event_time(self, time, window, ctx):
        assert time == window.max_timestamp()
        assert ctx.get_current_watermark() >= time
        return super().on_event_time(time, window, ctx)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
data = [("a", 1), ("b", 4), ("a", 7), ("a", 22)]
keyed = (
    env.from_collection(data, Types.TUPLE([Types.STRING(), Types.LONG()]))
    .assign_timestamps_and_watermarks(strategy)
    .key_by(lambda t: t[0], key_type=Types.STRING())
)
tumbling = TumblingEventTimeWindows.of(Time.milliseconds(10))
keyed.window(tumbling).process(Ask(), Types.STRING()).print("tumbling")
keyed.window(tumbling).trigger(CountTrigger.of(1)).process(Ask(), Types.STRING()).print("early")
keyed.window(tumbling).trigger(Asking()).process(Ask(), Types.STRING()).print("asking")
keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(5))).process(Ask(), Types.STRING()).print("sessions")
keyed.window(GlobalWindows.create()).trigger(CountTrigger.of(3)).process(Ask(), Types.STRING()).print("global")
env.execute()
