# compare: sorted
# Windows over the results of windows: the largest of the counts of each window, then a total; late data is none.
from flintstream.common import Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import AggregateFunction, StreamExecutionEnvironment, WindowFunction
from flintstream.datastream.functions import ProcessAllWindowFunction
from flintstream.datastream.window import TumblingEventTimeWindows


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


class Named(WindowFunction):
    def apply(self, key, window, inputs):
        for count in inputs:
            yield key, window.end, count


class Top(WindowFunction):
    def apply(self, key, window, inputs):
        best = sorted(inputs, key=lambda item: (-item[2], item[0]))[:2]
        yield "window to %d: %s" % (key, [(name, count) for name, _, count in best])


class Total(ProcessAllWindowFunction):
    def process(self, context, elements):
        elements = list(elements)
        yield "%r: %d windows, %d records" % (context.window(), len(elements), sum(item[2] for item in elements))

    def clear(self, context):
        pass


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
names = "abcabcaabdabdddab"
data = [(name, position * 3) for position, name in enumerate(names)]
counted = Types.TUPLE([Types.STRING(), Types.LONG(), Types.INT()])
ten = TumblingEventTimeWindows.of(Time.milliseconds(10))
counts = (
    env.from_collection(data, Types.TUPLE([Types.STRING(), Types.LONG()]))
    .assign_timestamps_and_watermarks(strategy)
    .key_by(lambda t: t[0], key_type=Types.STRING())
    .window(ten)
    .aggregate(Count(), window_function=Named(), output_type=counted)
)
counts.key_by(lambda t: t[1], key_type=Types.LONG()).window(ten).apply(Top(), Types.STRING()).print("top")
counts.window_all(ten).process(Total(), Types.STRING()).print("each")
counts.window_all(TumblingEventTimeWindows.of(Time.milliseconds(20))).process(Total(), Types.STRING()).print("twice")
counts.key_by(lambda t: t[0], key_type=Types.STRING()).window(TumblingEventTimeWindows.of(Time.seconds(1))).reduce(
    lambda left, right: (left[0], max(left[1], right[1]), left[2] + right[2])
).print("all")
env.execute()
