# compare: sorted
# BATCH mode with timestamps: which record of a key is its first for aggregates and state, and what follows behind them.
from flintstream.common import Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import (
    AggregateFunction,
    FlatMapFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from flintstream.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from flintstream.datastream.window import CountTrigger, GlobalWindows, PurgingTrigger, TumblingEventTimeWindows

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
record = Types.TUPLE([Types.STRING(), Types.LONG(), Types.INT()])
data = [("b", 30, 1), ("a", 10, 2), ("a", 5, 3), ("c", 1, 4), ("b", 31, 5), ("a", 22, 6), ("b", 2, 7)]
tag = OutputTag("side", Types.STRING())


class Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Timers(KeyedProcessFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.INT()))

    def process_element(self, value, ctx):
        self.seen.add(value[2])
        ctx.timer_service().register_event_time_timer(value[1] + 3)
        yield "%s at %d" % (value, ctx.timestamp())
        yield tag, "side %s" % value[0]

    def on_timer(self, timestamp, ctx):
        yield "timer %d of %s" % (timestamp, ctx.get_current_key())


class Unkeyed(ProcessFunction):
    def process_element(self, value, ctx):
        yield "%s at %s" % (value, ctx.timestamp())


class Running(MapFunction):
    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.INT()))

    def map(self, value):
        total = (self.total.value() or 0) + value[2]
        self.total.update(total)
        return value[0], value[1], total


class Last(FlatMapFunction):
    def open(self, runtime_context):
        self.map = runtime_context.get_map_state(MapStateDescriptor("m", Types.LONG(), Types.INT()))

    def flat_map(self, value):
        self.map.put(value[1], value[2])
        yield value[0], len(list(self.map.keys()))


class Sum(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value[2]

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return a + b


class Named(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield "%s %s %s" % (key, context.window(), list(elements))


class Join(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.left = runtime_context.get_list_state(ListStateDescriptor("left", Types.INT()))

    def process_element1(self, value, ctx):
        self.left.add(value[2])
        yield "left %s" % (value,)

    def process_element2(self, value, ctx):
        yield "right %s with %s" % (value, sorted(self.left.get()))


stream = env.from_collection(data, record).assign_timestamps_and_watermarks(
    WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
)
keyed = stream.key_by(lambda v: v[0], Types.STRING())
timers = keyed.process(Timers(), Types.STRING())
timers.print("timers")
timers.get_side_output(tag).print("side")
stream.process(Unkeyed(), Types.STRING()).print("unkeyed")
keyed.map(Running(), record).print("running")
keyed.map(Running(), record).key_by(lambda v: v[1] // 10, Types.LONG()).map(Running(), record).print("two stages")
keyed.flat_map(Last()).print("last")
keyed.filter(lambda v: v[2] % 2 == 1).print("filter")
keyed.reduce(lambda a, b: (a[0], max(a[1], b[1]), a[2] + b[2])).print("reduce")
keyed.reduce(lambda a, b: (a[0], max(a[1], b[1]), a[2] + b[2])).process(Unkeyed(), Types.STRING()).print("reduce times")
keyed.sum(2).print("sum")
keyed.min_by(2).print("min_by")
keyed.max(1).print("max")
keyed.sum(2).key_by(lambda v: 0).max_by(2).print("best sum")
keyed.count_window(2).reduce(lambda a, b: (a[0], b[1], a[2] + b[2])).print("count")
keyed.window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(2))).process(
    Named(), Types.STRING()
).print("global")
stream.window_all(TumblingEventTimeWindows.of(Time.milliseconds(10))).aggregate(Sum()).print("all")
keyed.connect(stream.filter(lambda v: v[2] > 4).key_by(lambda v: v[0], Types.STRING())).process(
    Join(), Types.STRING()
).map(lambda s: s.split(" ")[0]).print("join")
stream.union(stream.map(lambda v: (v[0], v[1], -v[2]), record)).key_by(lambda v: v[0]).sum(2).print("union")
env.execute()
