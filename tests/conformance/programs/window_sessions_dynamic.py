# compare: sorted
# Sessions with a gap of its own behind each record: a long gap holds a session open for later ones.
from flintstream.common import Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from flintstream.datastream.window import (
    DynamicEventTimeSessionWindows,
    EventTimeSessionWindows,
    SessionWindowTimeGapExtractor,
)


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Gap(SessionWindowTimeGapExtractor):
    def extract(self, element):
        return element[2]


class Session(ProcessWindowFunction):
    def process(self, key, context, elements):
        window = context.window()
        yield "%s [%d, %d) %s" % (key, window.start, window.end, sorted(value[1] for value in elements))

    def clear(self, context):
        pass


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
data = [
    ("long", 0, 500), ("long", 100, 10), ("long", 450, 20), ("long", 501, 5),
    ("short", 0, 10), ("short", 10, 10), ("short", 21, 10),
    ("over", 100, 50), ("over", 300, 50), ("over", 90, 400), ("over", 600, 1),
]  # fmt: skip
keyed = (
    env.from_collection(data, Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()]))
    .assign_timestamps_and_watermarks(strategy)
    .key_by(lambda t: t[0], key_type=Types.STRING())
)
keyed.window(EventTimeSessionWindows.with_dynamic_gap(Gap())).process(Session(), Types.STRING()).print("a")
keyed.window(DynamicEventTimeSessionWindows(Gap())).process(Session(), Types.STRING()).print("b")
env.execute()
