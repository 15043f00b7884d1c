# compare: sorted
# Timestamps after flat_map, assigned twice, seen by process functions, windows, side outputs and on connected streams.
from flintstream.common import Duration, Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import (
    CoProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from flintstream.datastream.state import ListStateDescriptor, MapStateDescriptor
from flintstream.datastream.window import TumblingEventTimeWindows

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
lines = env.from_collection(["a:5 b:7", "a:1", "", "c:12 a:13 a:14"], Types.STRING())
pair = Types.TUPLE([Types.STRING(), Types.LONG()])
tag = OutputTag("side", Types.STRING())


class Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Later(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return record_timestamp * 10


class Times(ProcessFunction):
    def process_element(self, value, ctx):
        yield "%s at %s" % (value, ctx.timestamp())
        yield tag, "side of %s" % (value,)


class SideTimes(ProcessFunction):
    def process_element(self, value, ctx):
        yield "%s at %s wm %s" % (value, ctx.timestamp(), ctx.timer_service().current_watermark())


class Count(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, context.window().start, len(list(elements))


class Timed(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 100)
        yield "now", ctx.timestamp()

    def on_timer(self, timestamp, ctx):
        yield "timer", timestamp
        yield tag, "timer %d of %s" % (timestamp, ctx.get_current_key())


class Join(KeyedCoProcessFunction):
    """Buffers both sides by time and joins those at most 5 apart when the watermark has passed."""

    def open(self, runtime_context):
        self.left = runtime_context.get_map_state(
            MapStateDescriptor("left", Types.LONG(), Types.TUPLE([Types.STRING(), Types.LONG()]))
        )
        self.right = runtime_context.get_list_state(ListStateDescriptor("right", Types.PICKLED_BYTE_ARRAY()))

    def process_element1(self, value, ctx):
        self.left.put(ctx.timestamp(), value)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 5)

    def process_element2(self, value, ctx):
        self.right.add(value)
        return []

    def on_timer(self, timestamp, ctx):
        left = self.left.get(timestamp - 5)
        for right in self.right.get():
            if abs(right[1] - left[1]) <= 5:
                yield "%s %d %d" % (left[0], left[1], right[1])
        self.left.remove(timestamp - 5)
        if not list(self.left.keys()):
            yield tag, "all done for " + ctx.get_current_key()


class Both(CoProcessFunction):
    def process_element1(self, value, ctx):
        yield "left %s %s" % (value, ctx.timestamp())

    def process_element2(self, value, ctx):
        yield "right %s %s" % (value, ctx.timestamp())
        yield tag, "right side"


words = lines.flat_map(lambda s: [(w.split(":")[0], int(w.split(":")[1])) for w in s.split()], pair)
timed = words.assign_timestamps_and_watermarks(
    WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(20)).with_timestamp_assigner(Second())
)
seen = timed.process(Times(), Types.STRING())
seen.print("seen")
seen.get_side_output(tag).process(SideTimes(), Types.STRING()).print("side")
again = timed.map(lambda v: (v[0], v[1]), pair).assign_timestamps_and_watermarks(
    WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Later())
)
again.process(SideTimes(), Types.STRING()).print("again")
again.key_by(lambda v: v[0]).window(TumblingEventTimeWindows.of(Time.milliseconds(50))).process(Count()).print(
    "again windows"
)
out = timed.key_by(lambda v: v[0]).process(Timed(), pair)
out.process(SideTimes(), Types.STRING()).print("timed")
out.get_side_output(tag).process(SideTimes(), Types.STRING()).print("timed side")
joined = (
    timed.connect(again.map(lambda v: v, pair))
    .key_by(lambda v: v[0], lambda v: v[0], Types.STRING())
    .process(Join(), Types.STRING())
)
joined.print("joined")
joined.get_side_output(tag).process(SideTimes(), Types.STRING()).print("joined side")
both = timed.connect(words).process(Both(), Types.STRING())
both.print("both")
both.get_side_output(tag).print("both side")
timed.union(again).process(SideTimes(), Types.STRING()).print("union")
words.process(SideTimes(), Types.STRING()).print("no timestamps")
timed.key_by(lambda v: v[0]).reduce(lambda a, b: (a[0], a[1] + b[1])).process(SideTimes(), Types.STRING()).print(
    "reduced"
)
timed.key_by(lambda v: v[0]).flat_map(lambda v: [v, v]).process(SideTimes(), Types.STRING()).print("flat")
timed.rebalance().filter(lambda v: v[1] > 5).process(SideTimes(), Types.STRING()).print("rebalanced")
env.execute()
