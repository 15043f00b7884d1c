# compare: sorted
# Timestamps and timers given as floats: what is behind the point is lost.
from flintstream.common import Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import (
    KeyedProcessFunction,
    ProcessFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from flintstream.datastream.window import TumblingEventTimeWindows

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)


class Seconds(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1] * 1000


class When(ProcessFunction):
    def process_element(self, value, ctx):
        yield "%s at %r" % (value, ctx.timestamp())


class Halfway(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 0.5)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 7.9)
        ctx.timer_service().register_event_time_timer(1e6)
        ctx.timer_service().delete_event_time_timer(1e6 + 0.25)

    def on_timer(self, timestamp, ctx):
        yield "%s %r" % (ctx.get_current_key(), timestamp)


class Count(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield "%s [%r, %r) %d" % (key, context.window().start, context.window().end, len(list(elements)))


readings = env.from_collection(
    [("a", 1.0015), ("b", 0.25), ("a", 1.9999), ("a", 2.0), ("b", 12.3456)],
    Types.TUPLE([Types.STRING(), Types.DOUBLE()]),
).assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Seconds()))
readings.process(When(), Types.STRING()).print("when")
keyed = readings.key_by(lambda reading: reading[0], Types.STRING())
keyed.process(Halfway(), Types.STRING()).print("timer")
keyed.window(TumblingEventTimeWindows.of(Time.seconds(1))).process(Count(), Types.STRING()).print("window")
env.execute()
