# compare: sorted
# KeyedBroadcastProcessFunction: keyed state, timers that wait for both inputs, broadcast state read in on_timer, side outputs.
from flintstream.common import Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import KeyedBroadcastProcessFunction, OutputTag, ProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.state import ListStateDescriptor, MapStateDescriptor

prices = MapStateDescriptor("prices", Types.STRING(), Types.INT())
unknown = OutputTag("unknown", Types.STRING())


class SecondField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Bill(KeyedBroadcastProcessFunction):
    def open(self, runtime_context):
        self.items = runtime_context.get_list_state(ListStateDescriptor("items", Types.STRING()))

    def process_element(self, value, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext):
        self.items.add(value[2])
        ctx.timer_service().register_event_time_timer(1000)
        yield "%s takes %s at %d" % (ctx.get_current_key(), value[2], ctx.timestamp())

    def process_broadcast_element(self, value, ctx: KeyedBroadcastProcessFunction.Context):
        ctx.get_broadcast_state(prices).put(value[0], value[1])

    def on_timer(self, timestamp, ctx: KeyedBroadcastProcessFunction.OnTimerContext):
        known = ctx.get_broadcast_state(prices)
        items = list(self.items.get())
        for item in items:
            if not known.contains(item):
                yield unknown, "%s for %s" % (item, ctx.get_current_key())
        yield "%s pays %d at %d %s %d" % (
            ctx.get_current_key(),
            sum(known.get(item) or 0 for item in items),
            ctx.timestamp(),
            ctx.time_domain().name,
            ctx.current_watermark(),
        )
        self.items.clear()


class Stamp(ProcessFunction):
    def process_element(self, value, ctx):
        yield "%s; result at %d" % (value, ctx.timestamp())


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
bought = [("ann", 10, "tea"), ("bob", 20, "cake"), ("ann", 30, "cake"), ("cid", 40, "pie"), ("bob", 50, "pie")]
bill = (
    env.from_collection(bought, Types.TUPLE([Types.STRING(), Types.LONG(), Types.STRING()]))
    .assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
    )
    .key_by(lambda t: t[0], key_type=Types.STRING())
    .connect(
        env.from_collection(
            [("tea", 3), ("cake", 5), ("tea", 4)], Types.TUPLE([Types.STRING(), Types.INT()])
        ).broadcast(prices)
    )
    .process(Bill(), Types.STRING())
)
bill.process(Stamp(), Types.STRING()).print("bill")
bill.get_side_output(unknown).print("unknown")
env.execute()
