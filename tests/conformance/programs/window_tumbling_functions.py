# compare: sorted
# WindowFunction and ProcessWindowFunction over all records of a window: none, one or several results, as a list or yielded.
from flintstream.common import Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import ProcessWindowFunction, StreamExecutionEnvironment, WindowFunction
from flintstream.datastream.window import TimeWindow, TumblingEventTimeWindows


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Values(WindowFunction[tuple, str, str, TimeWindow]):
    def apply(self, key, window, inputs):
        values = [value[2] for value in inputs]
        return ["%s [%d, %d) %s" % (key, window.start, window.end, values)]


class Each(ProcessWindowFunction[tuple, str, str, TimeWindow]):
    def process(self, key, context, elements):
        window = context.window()
        for element in elements:
            if element[2] % 2:
                yield "%s %d in %r, last %d" % (key, element[2], window, window.max_timestamp())

    def clear(self, context):
        pass


class Twice(WindowFunction):
    def apply(self, key, window, inputs):
        first = len(list(inputs))
        yield "%s: %d records, again %d" % (key, first, len(list(inputs)))


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
data = [("x", 1, 1), ("y", 2, 2), ("x", 15, 3), ("x", 12, 5), ("y", 9, 4), ("x", 38, 7), ("z", 40, 6)]
windows = (
    env.from_collection(data, Types.TUPLE([Types.STRING(), Types.LONG(), Types.INT()]))
    .assign_timestamps_and_watermarks(strategy)
    .key_by(lambda t: t[0], key_type=Types.STRING())
    .window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
)
windows.apply(Values(), Types.STRING()).print("apply")
windows.process(Each(), Types.STRING()).print("process")
windows.apply(Twice(), Types.STRING()).print("twice")
env.execute()
