# compare: exact
# Timestamps after key_by, in reduce's results, and replaced by a second assigner.
from flintstream.common import Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import KeyedProcessFunction, ProcessFunction, StreamExecutionEnvironment


class Field(TimestampAssigner):
    def __init__(self, index):
        self.index = index

    def extract_timestamp(self, value, record_timestamp):
        return value[self.index]


class AddHour(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return record_timestamp + 3600000


class ShowKeyed(KeyedProcessFunction):
    def process_element(self, value, ctx: KeyedProcessFunction.Context):
        yield "%s %s at %s" % (ctx.get_current_key(), value[1], ctx.timestamp())


class Show(ProcessFunction):
    def process_element(self, value, ctx):
        yield "%s at %s" % (value, ctx.timestamp())


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
ds = env.from_collection([("a", 100), ("b", 200), ("a", 300), ("b", 400)], Types.TUPLE([Types.STRING(), Types.LONG()]))
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Field(1))
timed = ds.assign_timestamps_and_watermarks(strategy)

keyed = timed.key_by(lambda t: t[0], key_type=Types.STRING())
for line in keyed.process(ShowKeyed(), Types.STRING()).execute_and_collect():
    print(line)
for line in keyed.sum(1).process(Show(), Types.STRING()).execute_and_collect():
    print("sum", line)
again = timed.assign_timestamps_and_watermarks(WatermarkStrategy.no_watermarks().with_timestamp_assigner(AddHour()))
for line in again.process(Show(), Types.STRING()).execute_and_collect():
    print("again", line)
