# compare: sorted
# Results of one function's timers set the timers of the next, keyed otherwise.
from flintstream.common import Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.state import MapStateDescriptor

MINUTE = 60000


class Time(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


class SumByMinute(KeyedProcessFunction):
    """Sums the second field by key and minute; a minute's sum is given when the minute is over."""

    def open(self, runtime_context):
        self.sums = runtime_context.get_map_state(MapStateDescriptor("sums", Types.LONG(), Types.LONG()))

    def process_element(self, value, ctx):
        end = ctx.timestamp() - ctx.timestamp() % MINUTE + MINUTE
        self.sums.put(end, (self.sums.get(end) or 0) + value[1])
        ctx.timer_service().register_event_time_timer(end - 1)

    def on_timer(self, timestamp, ctx):
        total = self.sums.get(timestamp + 1)
        self.sums.remove(timestamp + 1)
        yield ctx.get_current_key(), total, timestamp


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
record = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
data = [
    ("oslo", 1, 1000),
    ("oslo", 2, 59999),
    ("rome", 4, 30000),
    ("oslo", 8, 60000),
    ("rome", 16, 61000),
    ("oslo", 32, 2000),
    ("rome", 64, 185000),
]
by_city = (
    env.from_collection(data, record)
    .assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Time()))
    .key_by(lambda t: t[0], key_type=Types.STRING())
    .process(SumByMinute(), record)
)
by_city.print("city")
by_city.key_by(lambda t: "all", key_type=Types.STRING()).process(SumByMinute(), record).print("all")
env.execute()
