# compare: sorted
# Connected streams: a timer waits for the watermark of both, also when one has no timestamps or no records.
from flintstream.common import Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import KeyedCoProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.state import ReducingStateDescriptor


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Count(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_reducing_state(
            ReducingStateDescriptor("count", lambda a, b: a + b, Types.INT())
        )

    def process_element1(self, value, ctx):
        self.count.add(1)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() - ctx.timestamp() % 100 + 99)

    def process_element2(self, value, ctx):
        self.count.add(100)

    def on_timer(self, timestamp, ctx):
        yield "%s %d %d" % (ctx.get_current_key(), timestamp, self.count.get())


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pair = Types.TUPLE([Types.STRING(), Types.LONG()])
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
timed = env.from_collection([("a", 10), ("b", 20), ("a", 170)], pair).assign_timestamps_and_watermarks(strategy)
untimed = env.from_collection([("a", 5), ("a", 6), ("c", 7)], pair)
empty = untimed.filter(lambda t: False)
for label, other in [("timed", timed), ("untimed", untimed), ("empty", empty)]:
    timed.connect(other).key_by(lambda t: t[0], lambda t: t[0], key_type=Types.STRING()).process(
        Count(), Types.STRING()
    ).print(label)
env.execute()
