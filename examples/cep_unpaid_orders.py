"""Orders that are not paid within 15 minutes, as a pattern: payments are matches, and time-outs are a side output.

`unpaid_orders.py` does the same by hand, with two streams, state and timers.
"""

from dataclasses import dataclass

from flintstream.cep import CEP, Pattern
from flintstream.common import Duration, Types, WatermarkStrategy
from flintstream.datastream import OutputTag, StreamExecutionEnvironment

MINUTE = 60_000
UNPAID = OutputTag("unpaid", Types.STRING())


@dataclass(frozen=True)
class Event:
    order: int
    kind: str
    minute: int


EVENTS = [
    Event(1, "created", 0),
    Event(2, "created", 2),
    Event(3, "created", 3),  # never paid
    Event(2, "paid", 9),
    Event(4, "created", 10),
    Event(4, "changed", 12),
    Event(1, "paid", 14),
    Event(5, "created", 20),
    Event(4, "paid", 26),  # too late
    Event(5, "paid", 20),
]

PAID_IN_TIME = (
    Pattern.begin("created")
    .where(lambda event: event.kind == "created")
    .followed_by("paid")
    .where(lambda event: event.kind == "paid")
    .within(Duration.of_minutes(15))
)


def paid(match):
    created, payment = match["created"][0], match["paid"][0]
    return f"order {created.order}, after {payment.minute - created.minute} minutes"


def unpaid(match, end):
    return f"order {match['created'][0].order}, given up in minute {end // MINUTE}"


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    in_event_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_minutes(5)).with_timestamp_assigner(
        lambda event, before: event.minute * MINUTE
    )
    events = env.from_collection(EVENTS).assign_timestamps_and_watermarks(in_event_time)
    by_order = events.key_by(lambda event: event.order, Types.INT())
    payments = CEP.pattern(by_order, PAID_IN_TIME).select(UNPAID, unpaid, paid, Types.STRING())
    payments.print("paid")
    payments.get_side_output(UNPAID).print("not paid within 15 minutes")
    env.execute("unpaid orders, as a pattern")


if __name__ == "__main__":
    main()
