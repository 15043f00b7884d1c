# compare: sorted
# A timer moved with every record: it fires once for each key, after the key's last record.
from flintstream.common import Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.state import ListStateDescriptor, ValueStateDescriptor

GAP = 10**9


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Session(KeyedProcessFunction):
    def open(self, runtime_context):
        self.timer = runtime_context.get_state(ValueStateDescriptor("timer", Types.LONG()))
        self.pages = runtime_context.get_list_state(ListStateDescriptor("pages", Types.STRING()))

    def process_element(self, value, ctx):
        timers = ctx.timer_service()
        if self.timer.value() is not None:
            timers.delete_event_time_timer(self.timer.value())
        self.timer.update(ctx.timestamp() + GAP)
        timers.register_event_time_timer(ctx.timestamp() + GAP)
        self.pages.add(value[2])

    def on_timer(self, timestamp, ctx):
        yield "%s ended at %d: %s" % (ctx.get_current_key(), timestamp - GAP, " ".join(self.pages.get()))
        self.timer.clear()
        self.pages.clear()


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
data = [("ann", 100, "home"), ("bob", 150, "home"), ("ann", 200, "shop"), ("ann", 900, "cart"), ("bob", 950, "help")]
env.from_collection(data, Types.TUPLE([Types.STRING(), Types.LONG(), Types.STRING()])).assign_timestamps_and_watermarks(
    WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
).key_by(lambda t: t[0], key_type=Types.STRING()).process(Session(), Types.STRING()).print()
env.execute()
