# compare: exact
# Event-time timers: one for each key and time however often registered, fired in the order of time, at the end of input too.
from flintstream.common import Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Remind(KeyedProcessFunction):
    def process_element(self, value, ctx: KeyedProcessFunction.Context):
        timers = ctx.timer_service()
        timers.register_event_time_timer(value[1] + 1000)
        timers.register_event_time_timer(value[1] + 1000)
        timers.register_event_time_timer(5000 + len(ctx.get_current_key()))
        yield "%s at %d" % value

    def on_timer(self, timestamp, ctx: KeyedProcessFunction.OnTimerContext):
        yield "%s: timer %d" % (ctx.get_current_key(), timestamp)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
data = [("ccc", 300), ("a", 100), ("bb", 200), ("a", 250), ("a", 100), ("ccc", 9000)]
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
env.from_collection(data, Types.TUPLE([Types.STRING(), Types.LONG()])).assign_timestamps_and_watermarks(
    strategy
).key_by(lambda t: t[0], key_type=Types.STRING()).process(Remind(), Types.STRING()).print()
env.execute()
