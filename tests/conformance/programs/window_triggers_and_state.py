# compare: sorted
# Triggers mixed with assigners, state of key and window in a window function, count windows, what windows are like.
from flintstream.common import Row, Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import (
    AggregateFunction,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
    WindowFunction,
)
from flintstream.datastream.functions import AllWindowFunction, ProcessAllWindowFunction
from flintstream.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from flintstream.datastream.window import (
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    CountWindow,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindow,
    GlobalWindows,
    NeverTrigger,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
)

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
record = Types.TUPLE([Types.STRING(), Types.LONG(), Types.INT()])


class Second(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


data = [
    ("a", 1, 1),
    ("b", 2, 2),
    ("a", 7, 3),
    ("a", 12, 4),
    ("b", 13, 5),
    ("a", 3, 6),
    ("c", 29, 7),
    ("a", 19, 8),
    ("a", 30, 9),
]
stream = env.from_collection(data, record).assign_timestamps_and_watermarks(
    WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
)
keyed = stream.key_by(lambda v: v[0], Types.STRING())


class States(ProcessWindowFunction):
    def open(self, runtime_context):
        self.mine = runtime_context.get_state(ValueStateDescriptor("mine", Types.INT()))

    def process(self, key, context, elements):
        total = context.global_state().get_state(ValueStateDescriptor("total", Types.INT()))
        firings = context.window_state().get_reducing_state(
            ReducingStateDescriptor("firings", lambda a, b: a + b, Types.INT())
        )
        seen = context.global_state().get_list_state(ListStateDescriptor("seen", Types.LONG()))
        by_end = context.global_state().get_map_state(MapStateDescriptor("ends", Types.LONG(), Types.INT()))
        values = [v[2] for v in elements]
        total.update((total.value() or 0) + sum(values))
        firings.add(1)
        self.mine.update((self.mine.value() or 0) + 1)
        seen.add(context.window().end)
        by_end.put(context.window().end, len(values))
        yield "%s %s %s total %d firing %d mine %d seen %s ends %s" % (
            key,
            context.window(),
            sorted(values),
            total.value(),
            firings.get(),
            self.mine.value(),
            list(seen.get()),
            sorted(by_end.items()),
        )

    def clear(self, context):
        context.window_state().get_reducing_state(
            ReducingStateDescriptor("firings", lambda a, b: a + b, Types.INT())
        ).clear()


class Raw(WindowFunction):
    def apply(self, key, window, inputs):
        return [(key, str(window), window.max_timestamp(), [v[2] for v in inputs])]


class RawAll(AllWindowFunction):
    def apply(self, window, inputs):
        yield str(window), [v[2] for v in inputs]


class Sum(AggregateFunction):
    def create_accumulator(self):
        return [0]

    def add(self, value, accumulator):
        accumulator[0] += value[2]
        return accumulator

    def get_result(self, accumulator):
        return accumulator[0]

    def merge(self, a, b):
        return [a[0] + b[0]]


class Tagged(ProcessWindowFunction):
    def process(self, key, context, elements):
        return [Row(key, context.window().start, e) for e in elements]


class TaggedAll(ProcessAllWindowFunction):
    def process(self, context, elements):
        return [Row(context.window().start, e) for e in elements]


keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(10))).process(States(), Types.STRING()).print("states")
keyed.window(SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5))).process(
    States(), Types.STRING()
).print("sliding states")
keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(6))).aggregate(Sum(), Tagged()).print("session sum")
keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(6))).reduce(
    lambda a, b: (a[0], max(a[1], b[1]), a[2] + b[2]), Tagged()
).print("session reduce")
keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(6))).allowed_lateness(100).apply(Raw()).print(
    "session raw"
)
keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(20))).trigger(CountTrigger.of(2)).apply(Raw()).print(
    "count trigger"
)
keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(20))).trigger(PurgingTrigger.of(CountTrigger.of(2))).apply(
    Raw()
).print("purging count")
keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(20))).trigger(
    PurgingTrigger.of(EventTimeTrigger.create())
).apply(Raw()).print("purging time")
keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(20))).trigger(NeverTrigger()).apply(Raw()).print("never")
keyed.window(GlobalWindows.create()).trigger(CountTrigger.of(3)).apply(Raw()).print("global")
keyed.window(GlobalWindows.create()).apply(Raw()).print("global never")
keyed.count_window(2).apply(Raw()).print("count")
keyed.count_window(3, 2).apply(Raw()).print("count slide")
keyed.count_window(2, 3).apply(Raw()).print("count gap")
keyed.count_window(2).reduce(lambda a, b: (a[0], b[1], a[2] + b[2])).print("count reduce")
keyed.window(CountTumblingWindowAssigner.of(2)).apply(Raw()).print("assigner")
keyed.window(CountSlidingWindowAssigner.of(3, 1)).apply(Raw()).print("sliding assigner")
stream.window_all(TumblingEventTimeWindows.of(Time.milliseconds(20))).apply(RawAll()).print("all")
stream.window_all(SlidingEventTimeWindows.of(Time.milliseconds(20), Time.milliseconds(10))).aggregate(
    Sum(), TaggedAll()
).print("all sliding")
stream.window_all(EventTimeSessionWindows.with_gap(Time.milliseconds(5))).reduce(
    lambda a, b: ("x", b[1], a[2] + b[2]), TaggedAll()
).print("all session")
stream.window_all(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(4))).apply(RawAll()).print(
    "all global"
)
keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(20), Time.milliseconds(3))).apply(
    Raw(), Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG(), Types.LIST(Types.INT())])
).print("typed")
env.execute()
window = TimeWindow(5, 10)
print(
    window,
    repr(window),
    window == TimeWindow(5, 10),
    hash(window) == hash(TimeWindow(5, 10)),
    window.intersects(TimeWindow(10, 12)),
    window.intersects(TimeWindow(11, 12)),
    window.cover(TimeWindow(1, 6)),
    window < TimeWindow(6, 7),
)
print(
    GlobalWindow() == GlobalWindow(),
    CountWindow(3),
    CountWindow(3) == CountWindow(3),
    CountWindow(3).max_timestamp(),
    GlobalWindow().max_timestamp(),
)
print(TimeWindow.get_window_start_with_offset(17, 3, 10), TimeWindow.get_window_start_with_offset(-17, 3, 10))
