# compare: exact
# Event-time timers fire at the end of input also without timestamps, and with no_watermarks.
from flintstream.common import Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment


class Value(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value


class At(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value)
        yield "%d at %d, watermark %d" % (value, ctx.timestamp(), ctx.timer_service().current_watermark())

    def on_timer(self, timestamp, ctx):
        yield "timer %d, watermark %d" % (timestamp, ctx.timer_service().current_watermark())


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
numbers = env.from_collection([3, 1, 2], Types.LONG())
strategy = WatermarkStrategy.no_watermarks().with_timestamp_assigner(Value())
for label, stream in [
    ("no timestamps", numbers),
    ("no watermarks", numbers.assign_timestamps_and_watermarks(strategy)),
]:
    print(label)
    for line in stream.key_by(lambda n: n % 2).process(At(), Types.STRING()).execute_and_collect():
        print(" ", line)
