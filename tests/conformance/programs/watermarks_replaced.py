# compare: exact
# Timestamps assigned a second time, from a timer's results: the new ones count for the timers behind them.
from flintstream.common import Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Minutes(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return record_timestamp * 60000


class Delay(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp


class Show(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1)
        yield "%s %d at %d" % (value[0], value[1], ctx.timestamp())

    def on_timer(self, timestamp, ctx):
        yield "timer %s %d" % (ctx.get_current_key(), timestamp)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pair = Types.TUPLE([Types.STRING(), Types.LONG()])
monotonous = WatermarkStrategy.for_monotonous_timestamps()
env.from_collection([("a", 1), ("b", 3), ("a", 5)], pair).assign_timestamps_and_watermarks(
    monotonous.with_timestamp_assigner(SecondField())
).key_by(lambda t: t[0], key_type=Types.STRING()).process(Delay(), pair).assign_timestamps_and_watermarks(
    monotonous.with_timestamp_assigner(Minutes())
).key_by(lambda t: t[0], key_type=Types.STRING()).process(Show(), Types.STRING()).print()
env.execute()
