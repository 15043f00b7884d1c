# compare: sorted
# Keys of several types, as the window functions see them.
from flintstream.common import Row, Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import KeySelector, ProcessWindowFunction, StreamExecutionEnvironment
from flintstream.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Show(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield "%s %r %d %d" % (type(key).__name__, key, context.window().start, len(list(elements)))

    def clear(self, context):
        pass


class ByName(KeySelector):
    def get_key(self, value):
        return value[0]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
data = [("a", 1, 3), ("b", 4, 4), ("a", 7, 5), ("ccc", 12, 7), ("b", 13, 3)]
stream = env.from_collection(
    data, Types.TUPLE([Types.STRING(), Types.LONG(), Types.INT()])
).assign_timestamps_and_watermarks(strategy)
tumbling = TumblingEventTimeWindows.of(Time.milliseconds(10))
sessions = EventTimeSessionWindows.with_gap(Time.milliseconds(4))
for label, keyed in [
    ("str", stream.key_by(lambda t: t[0], key_type=Types.STRING())),
    ("int", stream.key_by(lambda t: t[2] % 2, key_type=Types.INT())),
    ("bool", stream.key_by(lambda t: t[2] > 3, key_type=Types.BOOLEAN())),
    ("float", stream.key_by(lambda t: t[2] / 2, key_type=Types.DOUBLE())),
    ("tuple", stream.key_by(lambda t: (t[0], t[2] % 2), key_type=Types.TUPLE([Types.STRING(), Types.INT()]))),
    ("row", stream.key_by(lambda t: Row(t[0], t[2] % 2), key_type=Types.ROW([Types.STRING(), Types.INT()]))),
    ("untyped", stream.key_by(lambda t: (len(t[0]), t[0]))),
    ("selector", stream.key_by(ByName())),
]:
    keyed.window(tumbling).process(Show(), Types.STRING()).print(label)
    keyed.window(sessions).process(Show(), Types.STRING()).print(label + " sessions")
    keyed.count_window(2).reduce(lambda left, right: (left[0] + right[0], right[1], right[2])).print(label + " count")
env.execute()
