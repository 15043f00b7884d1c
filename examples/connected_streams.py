"""Matches orders with their payments: two streams of different types, one function, shared state.

An order and its payment may come in any order. Whichever comes first waits in the state of their key.
"""

from dataclasses import dataclass

from flintstream.common import Types
from flintstream.datastream import KeyedCoProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.state import ValueStateDescriptor


@dataclass(frozen=True)
class Order:
    order_id: int
    item: str
    price: float


@dataclass(frozen=True)
class Payment:
    order_id: int
    amount: float


ORDERS = [Order(1, "tea", 4.5), Order(2, "cake", 6.0), Order(3, "soup", 7.2)]
PAYMENTS = [Payment(2, 6.0), Payment(1, 4.0), Payment(4, 1.0)]


class Match(KeyedCoProcessFunction):
    def open(self, runtime_context):
        # State without a special type holds any Python object.
        self.order = runtime_context.get_state(ValueStateDescriptor("order", Types.PICKLED_BYTE_ARRAY()))
        self.payment = runtime_context.get_state(ValueStateDescriptor("payment", Types.PICKLED_BYTE_ARRAY()))

    def process_element1(self, order, ctx):
        payment = self.payment.value()
        if payment is None:
            self.order.update(order)
        else:
            self.payment.clear()
            yield self.settle(order, payment)

    def process_element2(self, payment, ctx):
        order = self.order.value()
        if order is None:
            self.payment.update(payment)
        else:
            self.order.clear()
            yield self.settle(order, payment)

    def settle(self, order, payment):
        missing = order.price - payment.amount
        return f"{order.item}: paid" if missing <= 0 else f"{order.item}: {missing:.2f} missing"


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    orders = env.from_collection(ORDERS)
    payments = env.from_collection(PAYMENTS)
    (
        orders.connect(payments)
        .key_by(lambda order: order.order_id, lambda payment: payment.order_id, Types.INT())
        .process(Match(), Types.STRING())
        .print()
    )
    env.execute("orders and payments")


if __name__ == "__main__":
    main()
