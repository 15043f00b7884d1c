"""Orders that are not paid within 15 minutes: two streams, event-time timers, side outputs.

Neither stream waits for the other, so a payment may come before its order. Whichever is first stays in the state of the
order's number, with a timer. Event time says when it is too late: the watermark of two connected streams is the lesser
of both, so nothing is given up because one stream is slower to arrive.
"""

from dataclasses import dataclass

from flintstream.common import Duration, Types, WatermarkStrategy
from flintstream.datastream import KeyedCoProcessFunction, OutputTag, StreamExecutionEnvironment
from flintstream.datastream.state import ValueStateDescriptor

MINUTE = 60_000
UNPAID = OutputTag("unpaid", Types.STRING())
STRAY = OutputTag("stray", Types.STRING())


@dataclass(frozen=True)
class Order:
    number: int
    item: str
    minute: int


@dataclass(frozen=True)
class Payment:
    order: int
    minute: int


ORDERS = [Order(1, "tea", 0), Order(2, "cake", 2), Order(3, "soup", 3), Order(4, "rice", 10), Order(5, "fish", 20)]
PAYMENTS = [Payment(2, 9), Payment(1, 15), Payment(9, 12), Payment(4, 26), Payment(5, 20)]


class Match(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.order = runtime_context.get_state(ValueStateDescriptor("order", Types.PICKLED_BYTE_ARRAY()))
        self.payment = runtime_context.get_state(ValueStateDescriptor("payment", Types.PICKLED_BYTE_ARRAY()))

    def process_element1(self, order, ctx):
        if self.payment.value() is not None:
            yield from self.settle(order, self.payment.value(), ctx)
        else:
            self.order.update(order)
            ctx.timer_service().register_event_time_timer((order.minute + 15) * MINUTE)

    def process_element2(self, payment, ctx):
        if self.order.value() is not None:
            yield from self.settle(self.order.value(), payment, ctx)
        else:
            # When the watermark is here, the order, which was made before, must have come.
            self.payment.update(payment)
            ctx.timer_service().register_event_time_timer(payment.minute * MINUTE)

    def settle(self, order, payment, ctx):
        ctx.timer_service().delete_event_time_timer((order.minute + 15) * MINUTE)
        ctx.timer_service().delete_event_time_timer(payment.minute * MINUTE)
        self.order.clear()
        self.payment.clear()
        if payment.minute <= order.minute + 15:
            yield f"order {order.number}, {order.item}: paid after {payment.minute - order.minute} minutes"
        else:
            yield UNPAID, f"order {order.number}, {order.item}"
            yield STRAY, f"minute {payment.minute}, for order {payment.order}"

    def on_timer(self, timestamp, ctx):
        order, payment = self.order.value(), self.payment.value()
        if order is not None:
            yield UNPAID, f"order {order.number}, {order.item}"
        if payment is not None:
            yield STRAY, f"minute {payment.minute}, for order {payment.order}"
        self.order.clear()
        self.payment.clear()


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    in_event_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_minutes(5)).with_timestamp_assigner(
        lambda event, before: event.minute * MINUTE
    )
    orders = env.from_collection(ORDERS).assign_timestamps_and_watermarks(in_event_time)
    payments = env.from_collection(PAYMENTS).assign_timestamps_and_watermarks(in_event_time)
    paid = (
        orders.connect(payments)
        .key_by(lambda order: order.number, lambda payment: payment.order, Types.INT())
        .process(Match(), Types.STRING())
    )
    paid.print("paid")
    paid.get_side_output(UNPAID).print("not paid within 15 minutes")
    paid.get_side_output(STRAY).print("payment without an open order")
    env.execute("unpaid orders")


if __name__ == "__main__":
    main()
