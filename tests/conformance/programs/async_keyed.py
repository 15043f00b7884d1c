# compare: sorted
# Asynchronous results keyed and timed behind the call: state and timers work on them.
import asyncio

from flintstream.common import Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import AsyncDataStream, AsyncFunction, KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.state import ReducingStateDescriptor


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Country(AsyncFunction):
    async def async_invoke(self, value):
        await asyncio.sleep(0.01)
        return [({"oslo": "no", "rome": "it", "bari": "it"}[value[0]], value[1])]


class Sum(KeyedProcessFunction):
    def open(self, runtime_context):
        self.sum = runtime_context.get_reducing_state(ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG()))

    def process_element(self, value, ctx):
        self.sum.add(value[1])
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10**9)

    def on_timer(self, timestamp, ctx):
        yield "%s %d %d" % (ctx.get_current_key(), self.sum.get(), timestamp - 10**9)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pair = Types.TUPLE([Types.STRING(), Types.LONG()])
visits = env.from_collection([("oslo", 1), ("rome", 2), ("bari", 3), ("oslo", 4)], pair)
timed = visits.assign_timestamps_and_watermarks(
    WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
)
countries = AsyncDataStream.unordered_wait(timed, Country(), Time.seconds(20), 10, pair)
countries.key_by(lambda t: t[0], key_type=Types.STRING()).process(Sum(), Types.STRING()).print()
env.execute()
