# compare: exact
# A strategy given to from_source, and the empty and one-number sequences.
from flintstream.common import Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import ProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.connectors.number_seq import NumberSequenceSource


class Thousands(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value * 1000


class Show(ProcessFunction):
    def process_element(self, value, ctx):
        yield "%d at %s" % (value, ctx.timestamp())


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
plain = env.from_source(NumberSequenceSource(7, 7), WatermarkStrategy.no_watermarks(), "one", Types.LONG())
for line in plain.process(Show(), Types.STRING()).execute_and_collect():
    print(line)
timed = env.from_source(
    NumberSequenceSource(-1, 3), WatermarkStrategy.no_watermarks(), "timed", Types.LONG()
).assign_timestamps_and_watermarks(WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Thousands()))
for line in timed.process(Show(), Types.STRING()).execute_and_collect():
    print(line)
