# compare: exact
# A trigger with event-time timers of its own on global windows: a batch is given every hundred milliseconds of event time.
from flintstream.common import Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from flintstream.datastream.window import GlobalWindows, Trigger, TriggerResult


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class AtMultiples(Trigger):
    def on_element(self, element, timestamp, window, ctx):
        ctx.register_event_time_timer(timestamp - timestamp % 100 + 100)
        ctx.register_event_time_timer(7777)
        ctx.delete_event_time_timer(7777)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.FIRE_AND_PURGE if time == 300 else TriggerResult.FIRE

    def on_merge(self, window, ctx):
        pass

    def clear(self, window, ctx):
        pass


class All(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield "%s %s" % (key, [value[1] for value in elements])

    def clear(self, context):
        yield "never called"


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
data = [("a", 10), ("a", 20), ("a", 250), ("a", 120), ("a", 320)]
env.from_collection(data, Types.TUPLE([Types.STRING(), Types.LONG()])).assign_timestamps_and_watermarks(
    strategy
).key_by(lambda t: t[0], key_type=Types.STRING()).window(GlobalWindows.create()).trigger(AtMultiples()).process(
    All(), Types.STRING()
).print()
env.execute()
