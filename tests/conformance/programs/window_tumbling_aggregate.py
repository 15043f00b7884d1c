# compare: sorted
# Tumbling event-time windows with an aggregate function: start included, end not; a key without records has no window.
from flintstream.common import Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import AggregateFunction, StreamExecutionEnvironment
from flintstream.datastream.window import TumblingEventTimeWindows


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Average(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value[2], accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, a, b):
        return a[0] + b[0], a[1] + b[1]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
data = [("a", 0, 1), ("b", 10, 5), ("a", 999, 4), ("a", 1000, 8), ("a", 2999, 9), ("b", 3000, 2), ("a", 500, 10)]
windows = (
    env.from_collection(data, Types.TUPLE([Types.STRING(), Types.LONG(), Types.INT()]))
    .assign_timestamps_and_watermarks(strategy)
    .key_by(lambda t: t[0], key_type=Types.STRING())
    .window(TumblingEventTimeWindows.of(Time.seconds(1)))
)
windows.aggregate(Average(), output_type=Types.DOUBLE()).print("declared")
windows.aggregate(
    Average(), accumulator_type=Types.TUPLE([Types.INT(), Types.INT()]), output_type=Types.DOUBLE()
).print("accumulator declared")
windows.aggregate(Average()).print("undeclared")
env.execute()
