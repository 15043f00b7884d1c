# compare: sorted
# State in a ProcessWindowFunction: of the key and window (cleared with the window), and of the key.
from flintstream.common import Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from flintstream.datastream.functions import ProcessAllWindowFunction
from flintstream.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from flintstream.datastream.window import CountTrigger, TumblingEventTimeWindows


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Firings(ProcessWindowFunction):
    def __init__(self):
        self.fired = ValueStateDescriptor("fired", Types.INT())
        self.sizes = ListStateDescriptor("sizes", Types.INT())
        self.total = ReducingStateDescriptor("total", lambda a, b: a + b, Types.INT())
        self.windows = MapStateDescriptor("windows", Types.LONG(), Types.INT())

    def process(self, key, context, elements):
        size = len(list(elements))
        fired = context.window_state().get_state(self.fired)
        fired.update((fired.value() or 0) + 1)
        sizes = context.window_state().get_list_state(self.sizes)
        sizes.add(size)
        total = context.global_state().get_reducing_state(self.total)
        total.add(1)
        windows = context.global_state().get_map_state(self.windows)
        windows.put(context.window().start, size)
        yield "%s %d: firing %d, sizes %s, firings of the key %d, windows %s" % (
            key,
            context.window().start,
            fired.value(),
            list(sizes.get()),
            total.get(),
            sorted(windows.items()),
        )

    def clear(self, context):
        context.window_state().get_state(self.fired).clear()
        context.window_state().get_list_state(self.sizes).clear()


class Firing(ProcessAllWindowFunction):
    def __init__(self):
        self.fired = ValueStateDescriptor("fired", Types.INT())
        self.ever = ValueStateDescriptor("ever", Types.INT())

    def process(self, context, elements):
        fired = context.window_state().get_state(self.fired)
        fired.update((fired.value() or 0) + 1)
        ever = context.global_state().get_state(self.ever)
        ever.update((ever.value() or 0) + 1)
        yield "%d: firing %d of %d" % (context.window().start, fired.value(), ever.value())

    def clear(self, context):
        context.window_state().get_state(self.fired).clear()


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
data = [("a", 1), ("a", 2), ("b", 3), ("a", 11), ("a", 4), ("a", 12), ("b", 13), ("b", 14), ("a", 5), ("a", 13)]
stream = env.from_collection(data, Types.TUPLE([Types.STRING(), Types.LONG()])).assign_timestamps_and_watermarks(
    strategy
)
tumbling = TumblingEventTimeWindows.of(Time.milliseconds(10))
keyed = stream.key_by(lambda t: t[0], key_type=Types.STRING())
keyed.window(tumbling).trigger(CountTrigger.of(2)).process(Firings(), Types.STRING()).print("count")
stream.window_all(tumbling).trigger(CountTrigger.of(3)).process(Firing(), Types.STRING()).print("all")
env.execute()
for label, key in [("end", "a"), ("end of b", "b")]:
    one = stream.filter(lambda t, key=key: t[0] == key).key_by(lambda t: t[0], key_type=Types.STRING())
    one.window(tumbling).process(Firings(), Types.STRING()).print(label)
env.execute()
