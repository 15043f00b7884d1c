"""Suspicious cards, as a pattern: a payment under 1, as if to try the card, and next one over 500 within a minute.

`card_fraud.py` does the same by hand, with a flag and a timer. A window does not include its end: an event a minute after
the first is too late.
"""

from dataclasses import dataclass

from flintstream.cep import CEP, Pattern
from flintstream.common import Duration, Types, WatermarkStrategy
from flintstream.datastream import StreamExecutionEnvironment


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
    Payment("grey", 800.0, 100),  # a minute later
    Payment("blue", 0.3, 110),
    Payment("blue", 0.2, 120),  # a small one behind a small one counts from here
    Payment("blue", 650.0, 179),  # suspicious, just within the minute
    Payment("grey", 0.1, 200),  # and nothing follows
]

SMALL_THEN_LARGE = (
    Pattern.begin("small")
    .where(lambda payment: payment.amount < 1)
    .next("large")
    .where(lambda payment: payment.amount > 500)
    .within(Duration.of_minutes(1))
)


def report(match):
    large = match["large"][0]
    return f"{large.card}: {large.amount} at second {large.second}"


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    in_event_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda payment, before: payment.second * 1000
    )
    payments = env.from_collection(PAYMENTS).assign_timestamps_and_watermarks(in_event_time)
    by_card = payments.key_by(lambda payment: payment.card, Types.STRING())
    CEP.pattern(by_card, SMALL_THEN_LARGE).select(report, Types.STRING()).print("suspicious")
    env.execute("card fraud, as a pattern")


if __name__ == "__main__":
    main()
