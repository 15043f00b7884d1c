# compare: sorted
# Sessions with a fixed gap: sessions that touch are one, and a record out of order joins two.
from flintstream.common import Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from flintstream.datastream.window import EventTimeSessionWindows


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


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
    ("touch", 0), ("touch", 1000), ("touch", 2001),
    ("joined", 5000), ("joined", 6500), ("joined", 5800),
    ("three", 100), ("three", 2000), ("three", 4000), ("three", 1050), ("three", 3010),
    ("same", 700), ("same", 700), ("inside", 0), ("inside", 900), ("inside", 500), ("alone", 77),
    ("backwards", 3000), ("backwards", 2500), ("backwards", 1600),
]  # fmt: skip
env.from_collection(data, Types.TUPLE([Types.STRING(), Types.LONG()])).assign_timestamps_and_watermarks(
    strategy
).key_by(lambda t: t[0], key_type=Types.STRING()).window(EventTimeSessionWindows.with_gap(Time.seconds(1))).process(
    Session(), Types.STRING()
).print()
env.execute()
