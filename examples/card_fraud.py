"""Suspicious cards: a payment under 1, as if to try the card, and next one over 500 within a minute.

A flag in the state of the card holds the time of the small payment. A timer takes the flag away after a minute, so that
cards which are not used again leave nothing behind.
"""

from dataclasses import dataclass

from flintstream.common import Types, WatermarkStrategy
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.state import ValueStateDescriptor

MINUTE = 60_000


@dataclass(frozen=True)
class Payment:
    card: str
    amount: float
    second: int


PAYMENTS = [
    Payment("red", 0.5, 0),
    Payment("blue", 700.0, 5),
    Payment("red", 501.0, 20),  # suspicious
    Payment("green", 0.01, 30),
    Payment("green", 20.0, 31),  # in between: the next one is not the one behind the small payment
    Payment("green", 900.0, 32),
    Payment("grey", 0.9, 40),
    Payment("grey", 800.0, 101),  # more than a minute later
    Payment("blue", 0.3, 110),
    Payment("blue", 0.2, 120),  # a small one behind a small one counts from here
    Payment("blue", 650.0, 180),  # suspicious, just within the minute
    Payment("grey", 0.1, 200),  # and nothing follows
]


class SmallThenLarge(KeyedProcessFunction):
    def open(self, runtime_context):
        self.small = runtime_context.get_state(ValueStateDescriptor("small", Types.LONG()))
        self.forgotten = runtime_context.get_int_counter("forgotten")

    def process_element(self, payment, ctx):
        small = self.small.value()
        if small is not None:
            # The time is compared too: records may come before the watermark that lets the timer fire.
            if payment.amount > 500 and ctx.timestamp() <= small + MINUTE:
                yield f"{payment.card}: {payment.amount} at second {payment.second}"
            ctx.timer_service().delete_event_time_timer(small + MINUTE)
            self.small.clear()
        if payment.amount < 1:
            self.small.update(ctx.timestamp())
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + MINUTE)

    def on_timer(self, timestamp, ctx):
        self.small.clear()
        self.forgotten.add(1)


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    in_event_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda payment, before: payment.second * 1000
    )
    (
        env.from_collection(PAYMENTS)
        .assign_timestamps_and_watermarks(in_event_time)
        .key_by(lambda payment: payment.card, Types.STRING())
        .process(SmallThenLarge(), Types.STRING())
        .print("suspicious")
    )
    result = env.execute("card fraud")
    print("forgotten after a minute:", result.get_accumulator_result("forgotten"))


if __name__ == "__main__":
    main()
