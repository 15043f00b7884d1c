# compare: sorted
# BATCH mode: the timers of both kinds fire, however far away; the watermark is the lowest for records, the highest for timers.
from flintstream.common import Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import (
    KeyedProcessFunction,
    ProcessFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Both(KeyedProcessFunction):
    def process_element(self, value, ctx):
        timers = ctx.timer_service()
        timers.register_event_time_timer(value[1] + 1)
        timers.register_processing_time_timer(4102444800000 + value[1])
        yield "%s element %d, watermark %d" % (value[0], value[1], timers.current_watermark())

    def on_timer(self, timestamp, ctx):
        yield "%s %s %d, watermark %d" % (
            ctx.get_current_key(),
            ctx.time_domain().name,
            timestamp,
            ctx.timer_service().current_watermark(),
        )


class Stamp(ProcessFunction):
    def process_element(self, value, ctx):
        yield "%s; result at %d" % (value, ctx.timestamp())


env = StreamExecutionEnvironment.get_execution_environment()
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
env.set_parallelism(1)
data = [("b", 400), ("a", 200), ("b", 100), ("c", 300), ("a", 250)]
env.from_collection(data, Types.TUPLE([Types.STRING(), Types.LONG()])).assign_timestamps_and_watermarks(
    WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
).key_by(lambda t: t[0], key_type=Types.STRING()).process(Both(), Types.STRING()).process(
    Stamp(), Types.STRING()
).print()
env.execute()
