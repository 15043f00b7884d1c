# compare: exact
# Windows reduced by a lambda and by a ReduceFunction: the earlier value comes first, one record is passed on as it is.
from flintstream.common import Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import ReduceFunction, StreamExecutionEnvironment
from flintstream.datastream.window import TumblingEventTimeWindows


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Join(ReduceFunction):
    def reduce(self, value1, value2):
        return value1[0], value2[1], value1[2] + "-" + value2[2]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
data = [("k", 100, "a"), ("k", 2100, "b"), ("k", 300, "c"), ("k", 2200, "d"), ("k", 200, "e"), ("k", 7000, "f")]
windows = (
    env.from_collection(data, Types.TUPLE([Types.STRING(), Types.LONG(), Types.STRING()]))
    .assign_timestamps_and_watermarks(strategy)
    .key_by(lambda t: t[0], key_type=Types.STRING())
    .window(TumblingEventTimeWindows.of(Time.seconds(2)))
)
windows.reduce(Join()).print()
env.execute()
windows.reduce(lambda left, right: (left[0], min(left[1], right[1]), left[2] + right[2])).map(
    lambda t: "%s %d %s" % t, Types.STRING()
).print()
env.execute()
