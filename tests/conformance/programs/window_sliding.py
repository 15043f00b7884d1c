# compare: sorted
# Sliding windows: slides that divide the size, that do not, and that leave gaps in which records belong to no window.
from flintstream.common import Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import AggregateFunction, ProcessWindowFunction, StreamExecutionEnvironment
from flintstream.datastream.window import SlidingEventTimeWindows


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Count(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return a + b


class Window(ProcessWindowFunction):
    def process(self, key, context, elements):
        window = context.window()
        yield "%s [%d, %d) %s" % (key, window.start, window.end, list(elements))

    def clear(self, context):
        pass


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
data = [("k", 0), ("k", 3), ("k", 10), ("k", 11), ("j", 11), ("k", 27), ("k", 24)]
keyed = (
    env.from_collection(data, Types.TUPLE([Types.STRING(), Types.LONG()]))
    .assign_timestamps_and_watermarks(strategy)
    .key_by(lambda t: t[0], key_type=Types.STRING())
)
for size, slide in [(10, 5), (10, 4), (10, 3), (4, 10), (7, 7)]:
    windows = keyed.window(SlidingEventTimeWindows.of(Time.milliseconds(size), Time.milliseconds(slide)))
    label = "%d every %d" % (size, slide)
    windows.aggregate(Count(), window_function=Window(), output_type=Types.STRING()).print(label)
    windows.process(Window(), Types.STRING()).print(label + ", all")
env.execute()
