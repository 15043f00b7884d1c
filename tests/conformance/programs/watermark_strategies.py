# compare: exact
# With a short input no strategy gives a watermark before the end: no record is late, and each timer sees the last watermark.
from flintstream.common import Duration, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment


class Value(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value


class Look(KeyedProcessFunction):
    def process_element(self, value, ctx):
        watermark = ctx.timer_service().current_watermark()
        ctx.timer_service().register_event_time_timer(value + 1)
        yield "%d late=%s" % (ctx.timestamp(), ctx.timestamp() <= watermark)

    def on_timer(self, timestamp, ctx):
        yield "timer %d watermark=%d" % (timestamp, ctx.timer_service().current_watermark())


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
numbers = env.from_collection([100, 400, 200, 300], Types.LONG())
strategies = [
    ("monotonous", WatermarkStrategy.for_monotonous_timestamps()),
    ("bounded", WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(150))),
    ("none", WatermarkStrategy.no_watermarks()),
    ("idle", WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_seconds(30))),
]
for label, strategy in strategies:
    print(label)
    timed = numbers.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(Value()))
    for line in timed.key_by(lambda n: 0, key_type=Types.INT()).process(Look(), Types.STRING()).execute_and_collect():
        print(" ", line)
