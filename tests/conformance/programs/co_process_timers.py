# compare: sorted
# KeyedCoProcessFunction: timers and state are shared by both inputs, and what the contexts give.
from flintstream.common import Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import KeyedCoProcessFunction, ProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.state import ListStateDescriptor


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Both(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.STRING()))

    def element(self, side, value, ctx):
        self.seen.add("%s%d" % (side, value[1]))
        ctx.timer_service().register_event_time_timer(1000)
        yield "%s %s at %d, watermark %d" % (
            side,
            ctx.get_current_key(),
            ctx.timestamp(),
            ctx.timer_service().current_watermark(),
        )

    def process_element1(self, value, ctx):
        return self.element("left", value, ctx)

    def process_element2(self, value, ctx):
        return self.element("right", value, ctx)

    def on_timer(self, timestamp, ctx):
        yield "timer %s %d %s %s, watermark %d: %s" % (
            ctx.get_current_key(),
            timestamp,
            ctx.timestamp() == timestamp,
            ctx.time_domain().name,
            ctx.timer_service().current_watermark(),
            sorted(self.seen.get()),
        )


class Stamp(ProcessFunction):
    def process_element(self, value, ctx):
        yield "%s; result at %d" % (value, ctx.timestamp())


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
pair = Types.TUPLE([Types.STRING(), Types.LONG()])
left = env.from_collection([("a", 1), ("b", 2), ("a", 3)], pair).assign_timestamps_and_watermarks(strategy)
right = env.from_collection([("a", 10), ("c", 20)], pair).assign_timestamps_and_watermarks(strategy)
left.connect(right).key_by(lambda t: t[0], lambda t: t[0], key_type=Types.STRING()).process(
    Both(), Types.STRING()
).process(Stamp(), Types.STRING()).print()
env.execute()
