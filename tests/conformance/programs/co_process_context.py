# compare: sorted
# CoProcessFunction without a key: timestamps and watermark as each side sees them, results keep the record's timestamp.
from flintstream.common import Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import CoProcessFunction, ProcessFunction, StreamExecutionEnvironment


class Value(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value


class Look(CoProcessFunction):
    def process_element1(self, value, ctx: CoProcessFunction.Context):
        yield "first %s at %d, watermark %d" % (value, ctx.timestamp(), ctx.timer_service().current_watermark())

    def process_element2(self, value, ctx: CoProcessFunction.Context):
        yield "second %s at %d, watermark %d" % (value, ctx.timestamp(), ctx.timer_service().current_watermark())


class Stamp(ProcessFunction):
    def process_element(self, value, ctx):
        yield "%s; result at %d" % (value, ctx.timestamp())


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
timed = env.from_collection([10, 30, 20], Types.LONG()).assign_timestamps_and_watermarks(
    WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Value())
)
untimed = env.from_collection(["x", "y"], Types.STRING())
timed.connect(untimed).process(Look(), Types.STRING()).process(Stamp(), Types.STRING()).print()
env.execute()
