# compare: sorted
# A reduce function with a window function behind it, which gets the one reduced record.
from flintstream.common import Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import ProcessWindowFunction, StreamExecutionEnvironment, WindowFunction
from flintstream.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Report(ProcessWindowFunction):
    def process(self, key, context, elements):
        elements = list(elements)
        window = context.window()
        yield "%s in [%d, %d): %s of %d" % (key, window.start, window.end, elements[0], len(elements))

    def clear(self, context):
        pass


class Apply(WindowFunction):
    def apply(self, key, window, inputs):
        for value in inputs:
            yield value[2], key
            yield window.end, "end"


def largest(left, right):
    return left if left[2] >= right[2] else right


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
data = [("a", 100, 7), ("b", 150, 3), ("a", 900, 9), ("a", 1100, 2), ("b", 1900, 4), ("b", 1950, 1)]
keyed = (
    env.from_collection(data, Types.TUPLE([Types.STRING(), Types.LONG(), Types.INT()]))
    .assign_timestamps_and_watermarks(strategy)
    .key_by(lambda t: t[0], key_type=Types.STRING())
)
tumbling = keyed.window(TumblingEventTimeWindows.of(Time.seconds(1)))
tumbling.reduce(largest, window_function=Report(), output_type=Types.STRING()).print("tumbling")
tumbling.reduce(largest, Apply(), Types.TUPLE([Types.LONG(), Types.STRING()])).print("apply")
sliding = keyed.window(SlidingEventTimeWindows.of(Time.seconds(1), Time.milliseconds(500)))
sliding.reduce(largest, window_function=Report(), output_type=Types.STRING()).print("sliding")
env.execute()
