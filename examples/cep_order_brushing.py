"""Order brushing: a user who logs in, orders and pays three times within an hour, to make a shop look busy.

The three steps are a group, which is to come three times. Anything may stand between two rounds, such as browsing; inside a
round the steps come directly one after the other.
"""

from dataclasses import dataclass

from flintstream.cep import CEP, AfterMatchSkipStrategy, Pattern
from flintstream.common import Duration, Types, WatermarkStrategy
from flintstream.datastream import StreamExecutionEnvironment

MINUTE = 60_000


@dataclass(frozen=True)
class Event:
    user: str
    kind: str
    minute: int


def rounds(user, *minutes):
    return [Event(user, kind, minute) for minute in minutes for kind in ("log in", "order", "pay")]


EVENTS = sorted(
    [
        *rounds("ann", 0, 20, 45),  # three rounds in 45 minutes
        Event("ann", "browse", 30),
        *rounds("bob", 5, 40, 70),  # too slow
        *rounds("cid", 10, 30),
        Event("cid", "log in", 50),
        Event("cid", "browse", 51),  # in the middle of the third round
        Event("cid", "order", 52),
        Event("cid", "pay", 53),
        *rounds("dan", 61, 62, 63, 64),  # the fourth begins a new count
    ],
    key=lambda event: event.minute,
)

ONE_ROUND = (
    Pattern.begin("log in")
    .where(lambda event: event.kind == "log in")
    .next("order")
    .where(lambda event: event.kind == "order")
    .next("pay")
    .where(lambda event: event.kind == "pay")
)
BRUSHING = Pattern.begin(ONE_ROUND, AfterMatchSkipStrategy.skip_past_last_event()).times(3).within(Duration.of_hours(1))


def report(match):
    log_ins, payments = match["log in"], match["pay"]
    return f"{log_ins[0].user}: {len(payments)} orders from minute {log_ins[0].minute} to {payments[-1].minute}"


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    in_event_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda event, before: event.minute * MINUTE
    )
    events = env.from_collection(EVENTS).assign_timestamps_and_watermarks(in_event_time)
    by_user = events.key_by(lambda event: event.user, Types.STRING())
    CEP.pattern(by_user, BRUSHING).select(report, Types.STRING()).print()
    env.execute("order brushing")


if __name__ == "__main__":
    main()
