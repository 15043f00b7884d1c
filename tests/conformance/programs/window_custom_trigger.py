# compare: exact
# A trigger of one's own with state for each key and window: fires on a mark, purges on another, and at the end.
from flintstream.common import Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from flintstream.datastream.state import ValueStateDescriptor
from flintstream.datastream.window import Trigger, TriggerResult, TumblingEventTimeWindows


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class OnMarks(Trigger):
    def __init__(self):
        self.seen = ValueStateDescriptor("seen", Types.INT())

    def on_element(self, element, timestamp, window, ctx):
        seen = ctx.get_partitioned_state(self.seen)
        count = (seen.value() or 0) + 1
        seen.update(count)
        ctx.register_event_time_timer(window.max_timestamp())
        if element[2] == "fire":
            return TriggerResult.FIRE
        if element[2] == "fire and purge":
            return TriggerResult.FIRE_AND_PURGE
        if element[2] == "purge":
            return TriggerResult.PURGE
        if count % 3 == 0:
            return TriggerResult.FIRE
        return TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        if time == window.max_timestamp() and (ctx.get_partitioned_state(self.seen).value() or 0) > 1:
            return TriggerResult.FIRE
        return TriggerResult.CONTINUE

    def on_merge(self, window, ctx):
        pass

    def clear(self, window, ctx):
        ctx.get_partitioned_state(self.seen).clear()
        ctx.delete_event_time_timer(window.max_timestamp())


class All(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield "%s %d %s" % (key, context.window().start, [(value[1], value[2]) for value in elements])

    def clear(self, context):
        pass


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
data = [
    ("a", 1, "-"), ("b", 2, "-"), ("a", 3, "fire"), ("a", 4, "-"), ("a", 12, "-"), ("a", 5, "fire and purge"),
    ("a", 6, "fire"), ("a", 7, "-"), ("a", 8, "purge"), ("c", 21, "-"), ("c", 22, "-"), ("a", 13, "purge"),
    ("a", 33, "-"),
]  # fmt: skip
env.from_collection(data, Types.TUPLE([Types.STRING(), Types.LONG(), Types.STRING()])).assign_timestamps_and_watermarks(
    strategy
).key_by(lambda t: t[0], key_type=Types.STRING()).window(TumblingEventTimeWindows.of(Time.milliseconds(10))).trigger(
    OnMarks()
).process(All(), Types.STRING()).print()
env.execute()
