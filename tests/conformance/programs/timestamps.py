# compare: exact
# Timestamps given by an assigner are seen through ctx.timestamp(), also after map and filter.
from flintstream.common import Duration, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import ProcessFunction, StreamExecutionEnvironment


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Show(ProcessFunction):
    def process_element(self, value, ctx: ProcessFunction.Context):
        yield "%s at %s" % (value, ctx.timestamp())


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
ds = env.from_collection(
    [("a", 1000), ("b", 3000), ("c", 2000), ("d", -5)], Types.TUPLE([Types.STRING(), Types.LONG()])
)
ds.process(Show(), Types.STRING()).print("none")
env.execute()
strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5)).with_timestamp_assigner(SecondField())
timed = ds.assign_timestamps_and_watermarks(strategy)
timed.process(Show(), Types.STRING()).print("given")
env.execute()
timed.map(lambda t: (t[0] * 2, t[1])).filter(lambda t: t[0] != "bb").process(Show(), Types.STRING()).print("later")
env.execute()
