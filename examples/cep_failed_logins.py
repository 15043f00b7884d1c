"""An alarm at three failed log-ins in a row within ten seconds, as a pattern.

The operator sorts log-ins by event time and keeps what has begun, which `failed_logins.py` does by hand.
"""

from dataclasses import dataclass

from flintstream.cep import CEP, AfterMatchSkipStrategy, Pattern
from flintstream.common import Duration, Types, WatermarkStrategy
from flintstream.datastream import StreamExecutionEnvironment


@dataclass(frozen=True)
class LogIn:
    user: str
    succeeded: bool
    second: int


LOG_INS = [
    LogIn("ann", False, 1),
    LogIn("ann", False, 4),
    LogIn("bob", False, 5),
    LogIn("ann", False, 6),  # the third of ann, within ten seconds
    LogIn("bob", False, 9),
    LogIn("bob", False, 8),  # late, and still the second of three
    LogIn("cid", False, 10),
    LogIn("cid", False, 11),
    LogIn("cid", False, 14),
    LogIn("cid", True, 12),  # late: cid's failures were not in a row
    LogIn("dan", False, 20),
    LogIn("dan", False, 25),
    LogIn("dan", False, 31),  # too slow
    LogIn("dan", False, 32),  # but this one is within ten seconds of the two before
]

# After an alarm the count begins anew: no failure counts twice.
THREE_FAILURES = (
    Pattern.begin("failures", AfterMatchSkipStrategy.skip_past_last_event())
    .where(lambda log_in: not log_in.succeeded)
    .times(3)
    .consecutive()
    .within(Duration.of_seconds(10))
)


def report(match):
    first, second, third = match["failures"]
    return f"{first.user} failed at seconds {first.second}, {second.second} and {third.second}"


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    in_event_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5)).with_timestamp_assigner(
        lambda log_in, before: log_in.second * 1000
    )
    log_ins = env.from_collection(LOG_INS).assign_timestamps_and_watermarks(in_event_time)
    by_user = log_ins.key_by(lambda log_in: log_in.user, Types.STRING())
    CEP.pattern(by_user, THREE_FAILURES).select(report, Types.STRING()).print()
    env.execute("failed log-ins, as a pattern")


if __name__ == "__main__":
    main()
