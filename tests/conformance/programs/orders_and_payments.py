# compare: sorted
# Orders that are paid within 15 minutes, orders that are not, payments without an order: KeyedCoProcessFunction with timers.
from flintstream.common import Duration, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import KeyedCoProcessFunction, OutputTag, StreamExecutionEnvironment
from flintstream.datastream.state import ValueStateDescriptor

MINUTE = 60000
unmatched = OutputTag("unmatched", Types.STRING())


class Time(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[1]


class Match(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.order = runtime_context.get_state(ValueStateDescriptor("order", Types.LONG()))
        self.payment = runtime_context.get_state(ValueStateDescriptor("payment", Types.LONG()))

    def match(self, ctx):
        order, payment = self.order.value(), self.payment.value()
        if order is not None and payment is not None:
            ctx.timer_service().delete_event_time_timer(order + 15 * MINUTE)
            ctx.timer_service().delete_event_time_timer(payment)
            self.order.clear()
            self.payment.clear()
            if payment <= order + 15 * MINUTE:
                yield "%s paid after %d minutes" % (ctx.get_current_key(), (payment - order) // MINUTE)
            else:
                yield unmatched, "%s paid too late" % ctx.get_current_key()

    def process_element1(self, value, ctx: KeyedCoProcessFunction.Context):
        self.order.update(value[1])
        ctx.timer_service().register_event_time_timer(value[1] + 15 * MINUTE)
        yield from self.match(ctx)

    def process_element2(self, value, ctx: KeyedCoProcessFunction.Context):
        self.payment.update(value[1])
        ctx.timer_service().register_event_time_timer(value[1])
        yield from self.match(ctx)

    def on_timer(self, timestamp, ctx: KeyedCoProcessFunction.OnTimerContext):
        if self.order.value() is not None:
            yield unmatched, "%s not paid at minute %d" % (ctx.get_current_key(), timestamp // MINUTE)
        if self.payment.value() is not None:
            yield unmatched, "%s paid without an order" % ctx.get_current_key()
        self.order.clear()
        self.payment.clear()


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_hours(2)).with_timestamp_assigner(Time())
pair = Types.TUPLE([Types.STRING(), Types.LONG()])
orders = [("o1", 0), ("o2", 2 * MINUTE), ("o3", 3 * MINUTE), ("o5", 40 * MINUTE), ("o6", 41 * MINUTE)]
payments = [("o2", 9 * MINUTE), ("o1", 15 * MINUTE), ("o5", 56 * MINUTE), ("o4", 20 * MINUTE), ("o6", 41 * MINUTE)]
matched = (
    env.from_collection(orders, pair)
    .assign_timestamps_and_watermarks(strategy)
    .connect(env.from_collection(payments, pair).assign_timestamps_and_watermarks(strategy))
    .key_by(lambda o: o[0], lambda p: p[0], key_type=Types.STRING())
    .process(Match(), Types.STRING())
)
matched.print("matched")
matched.get_side_output(unmatched).print("unmatched")
env.execute()
