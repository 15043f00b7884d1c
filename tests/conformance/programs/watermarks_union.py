# compare: sorted
# A union's watermark is its slowest input's: timers fire when all inputs have ended, whatever their strategies.
from flintstream.common import Duration, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.state import ListStateDescriptor


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Collect(KeyedProcessFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))

    def process_element(self, value, ctx):
        self.seen.add(ctx.timestamp())
        ctx.timer_service().register_event_time_timer(1)

    def on_timer(self, timestamp, ctx):
        yield "%s %s watermark=%d" % (
            ctx.get_current_key(),
            sorted(self.seen.get()),
            ctx.timer_service().current_watermark(),
        )


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pair = Types.TUPLE([Types.STRING(), Types.LONG()])
strategies = [
    WatermarkStrategy.for_monotonous_timestamps(),
    WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_hours(1)),
    WatermarkStrategy.no_watermarks(),
]
streams = [
    env.from_collection([("a", 100 * n + 1), ("b", 100 * n + 2)], pair).assign_timestamps_and_watermarks(
        strategy.with_timestamp_assigner(SecondField())
    )
    for n, strategy in enumerate(strategies)
]
streams[0].union(*streams[1:]).key_by(lambda t: t[0], key_type=Types.STRING()).process(Collect(), Types.STRING()).print(
    "all"
)
streams[0].union(streams[0]).key_by(lambda t: t[0], key_type=Types.STRING()).process(Collect(), Types.STRING()).print(
    "twice"
)
env.execute()
