# compare: sorted
# Triggers of sessions: on_merge with state that merges (reducing, list), and CountTrigger, whose count goes along.
from flintstream.common import Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from flintstream.datastream.state import ListStateDescriptor, ReducingStateDescriptor
from flintstream.datastream.window import CountTrigger, EventTimeSessionWindows, PurgingTrigger, Trigger, TriggerResult


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class EnoughWeight(Trigger):
    def __init__(self, weight):
        self.weight = weight
        self.total = ReducingStateDescriptor("total", lambda a, b: a + b, Types.INT())
        self.times = ListStateDescriptor("times", Types.LONG())

    def on_element(self, element, timestamp, window, ctx):
        ctx.get_partitioned_state(self.total).add(element[2])
        ctx.get_partitioned_state(self.times).add(timestamp)
        ctx.register_event_time_timer(window.max_timestamp())
        if ctx.get_partitioned_state(self.total).get() >= self.weight:
            return TriggerResult.FIRE
        return TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        even = len(list(ctx.get_partitioned_state(self.times).get())) % 2 == 0
        return TriggerResult.FIRE if even and time == window.max_timestamp() else TriggerResult.CONTINUE

    def can_merge(self):
        return True

    def on_merge(self, window, ctx):
        ctx.merge_partitioned_state(self.total)
        ctx.merge_partitioned_state(self.times)
        ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window, ctx):
        ctx.get_partitioned_state(self.total).clear()
        ctx.get_partitioned_state(self.times).clear()
        ctx.delete_event_time_timer(window.max_timestamp())


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
    ("a", 0, 4), ("a", 8, 4), ("a", 10, 1), ("a", 11, 3), ("b", 0, 1), ("b", 5, 2), ("c", 9, 20), ("d", 1, 1),
    ("joined", 0, 1), ("joined", 20, 1), ("joined", 10, 1), ("joined", 12, 1),
]  # fmt: skip
stream = env.from_collection(
    data, Types.TUPLE([Types.STRING(), Types.LONG(), Types.INT()])
).assign_timestamps_and_watermarks(strategy)
keyed = stream.key_by(lambda t: t[0], key_type=Types.STRING())
growing = stream.filter(lambda t: t[0] != "joined").key_by(lambda t: t[0], key_type=Types.STRING())
sessions = EventTimeSessionWindows.with_gap(Time.milliseconds(10))
keyed.window(sessions).trigger(EnoughWeight(9)).process(Session(), Types.STRING()).print("weight")
growing.window(sessions).trigger(CountTrigger.of(3)).process(Session(), Types.STRING()).print("count")
growing.window(sessions).trigger(PurgingTrigger.of(CountTrigger.of(2))).process(Session(), Types.STRING()).print(
    "purging"
)
env.execute()
