"""Orders and their payments, matched by an interval join: a payment counts if it comes within 15 minutes of its order.

The join keeps the state and the timers that `unpaid_orders.py` has by hand. It says which pairs there are, and nothing of
records without a partner. An order may be paid in parts, and then has several pairs.
"""

from dataclasses import dataclass

from flintstream.common import Duration, Types, WatermarkStrategy
from flintstream.datastream import OutputTag, ProcessJoinFunction, StreamExecutionEnvironment

MINUTE = 60_000
IN_PART = OutputTag("in part", Types.STRING())


@dataclass(frozen=True)
class Order:
    number: int
    item: str
    price: int
    minute: int


@dataclass(frozen=True)
class Payment:
    order: int
    amount: int
    minute: int


ORDERS = [Order(1, "tea", 4, 0), Order(2, "cake", 7, 2), Order(3, "soup", 6, 3), Order(4, "rice", 5, 20)]
PAYMENTS = [
    Payment(2, 7, 9),
    Payment(1, 4, 15),  # Just in time.
    Payment(3, 6, 19),  # A minute too late.
    Payment(4, 2, 22),
    Payment(4, 3, 24),
    Payment(9, 1, 25),  # For an order that nobody has made.
]


class Match(ProcessJoinFunction):
    def process_element(self, order, payment, ctx):
        waited = (ctx.get_right_timestamp() - ctx.get_left_timestamp()) // MINUTE
        text = f"order {order.number}, {order.item}: {payment.amount} of {order.price} after {waited} minutes"
        if payment.amount < order.price:
            yield IN_PART, text
        else:
            yield text


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    in_event_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_minutes(5)).with_timestamp_assigner(
        lambda event, before: event.minute * MINUTE
    )
    orders = env.from_collection(ORDERS).assign_timestamps_and_watermarks(in_event_time)
    payments = env.from_collection(PAYMENTS).assign_timestamps_and_watermarks(in_event_time)
    paid = (
        orders.key_by(lambda order: order.number, Types.INT())
        .interval_join(payments.key_by(lambda payment: payment.order, Types.INT()))
        .between(Duration.of_minutes(0), Duration.of_minutes(15))
        .process(Match(), Types.STRING())
    )
    paid.print("paid")
    paid.get_side_output(IN_PART).print("paid in part")
    env.execute("order payments")


if __name__ == "__main__":
    main()
