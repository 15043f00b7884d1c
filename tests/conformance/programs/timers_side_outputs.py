# compare: sorted
# Side outputs from process_element and on_timer, with their timestamps.
from flintstream.common import Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import KeyedProcessFunction, OutputTag, ProcessFunction, StreamExecutionEnvironment

alerts = OutputTag("alerts", Types.STRING())
audit = OutputTag("audit", Types.TUPLE([Types.STRING(), Types.LONG()]))


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Watch(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value[1] * 2)
        yield audit, value
        yield "seen %s" % value[0]

    def on_timer(self, timestamp, ctx):
        yield alerts, "alert for %s" % ctx.get_current_key()
        yield audit, (ctx.get_current_key(), timestamp)
        yield "timer of %s" % ctx.get_current_key()


class Stamp(ProcessFunction):
    def process_element(self, value, ctx):
        yield "%s at %d" % (value, ctx.timestamp())


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
main = (
    env.from_collection([("a", 10), ("b", 20), ("a", 30)], Types.TUPLE([Types.STRING(), Types.LONG()]))
    .assign_timestamps_and_watermarks(strategy)
    .key_by(lambda t: t[0], key_type=Types.STRING())
    .process(Watch(), Types.STRING())
)
main.process(Stamp(), Types.STRING()).print("main")
main.get_side_output(alerts).process(Stamp(), Types.STRING()).print("alerts")
main.get_side_output(audit).process(Stamp(), Types.STRING()).print("audit")
env.execute()
