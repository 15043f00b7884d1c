# compare: exact
# BATCH mode hands a keyed function the records of one key in the order of their timestamps.
from flintstream.common import Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import KeyedProcessFunction, RuntimeExecutionMode, StreamExecutionEnvironment


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Show(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield value


env = StreamExecutionEnvironment.get_execution_environment()
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
env.set_parallelism(1)
data = [("a", 300, 0), ("b", 20, 1), ("a", 100, 2), ("b", -7, 3), ("a", 400, 4), ("a", 200, 5), ("a", 150, 6)]
types = Types.TUPLE([Types.STRING(), Types.LONG(), Types.INT()])
timed = env.from_collection(data, types).assign_timestamps_and_watermarks(
    WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
)
results = list(timed.key_by(lambda t: t[0], key_type=Types.STRING()).process(Show(), types).execute_and_collect())
for key in "ab":
    print([result for result in results if result[0] == key])
