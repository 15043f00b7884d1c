# compare: exact
# What on_timer's context gives, and current_watermark() before and at the end of a short input.
from flintstream.common import Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment, TimeDomain


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Look(KeyedProcessFunction):
    def process_element(self, value, ctx):
        timers = ctx.timer_service()
        timers.register_event_time_timer(value[1] + 5)
        yield "element key=%r timestamp=%d watermark=%d" % (
            ctx.get_current_key(),
            ctx.timestamp(),
            timers.current_watermark(),
        )

    def on_timer(self, timestamp, ctx):
        yield "timer key=%r argument=%d timestamp=%d domain=%s event=%s processing=%s watermark=%d" % (
            ctx.get_current_key(),
            timestamp,
            ctx.timestamp(),
            ctx.time_domain(),
            ctx.time_domain() == TimeDomain.EVENT_TIME,
            ctx.time_domain() == TimeDomain.PROCESSING_TIME,
            ctx.timer_service().current_watermark(),
        )


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
env.from_collection(
    [("x", 1000), ("y", 2000), ("x", 3000)], Types.TUPLE([Types.STRING(), Types.LONG()])
).assign_timestamps_and_watermarks(strategy).key_by(lambda t: t[0], key_type=Types.STRING()).process(
    Look(), Types.STRING()
).print()
env.execute()
