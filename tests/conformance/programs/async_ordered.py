# compare: exact
# Asynchronous calls in the order of the input: several results, none, any iterable; timestamps are kept.
import asyncio

from flintstream.common import Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import AsyncDataStream, AsyncFunction, ProcessFunction, StreamExecutionEnvironment


class Value(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value * 1000


class LookUp(AsyncFunction):
    def open(self, runtime_context):
        self.name = "row"

    async def async_invoke(self, value):
        await asyncio.sleep((7 - value) * 0.05)
        if value == 2:
            return ("%s %d.%d" % (self.name, value, i) for i in range(2))
        return ["%s %d.%d" % (self.name, value, i) for i in range(value % 4)]


class Stamp(ProcessFunction):
    def process_element(self, value, ctx):
        yield "%s at %d" % (value, ctx.timestamp())


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
numbers = env.from_collection([1, 2, 3, 4, 5, 6], Types.INT()).assign_timestamps_and_watermarks(
    WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Value())
)
for capacity in (1, 2, 100):
    print("capacity", capacity)
    answers = AsyncDataStream.ordered_wait(numbers, LookUp(), Time.seconds(20), capacity, Types.STRING())
    for line in answers.process(Stamp(), Types.STRING()).execute_and_collect():
        print(" ", line)
