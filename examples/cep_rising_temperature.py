"""An alarm when a sensor's temperature rises three times in a row within ten seconds: a condition that looks back.

The condition compares a reading with the last one that the partial match has taken.
"""

from dataclasses import dataclass

from flintstream.cep import CEP, AfterMatchSkipStrategy, Pattern
from flintstream.common import Duration, Types, WatermarkStrategy
from flintstream.datastream import StreamExecutionEnvironment


@dataclass(frozen=True)
class Reading:
    sensor: str
    degrees: float
    second: int


READINGS = [
    Reading("oven", 20.0, 0),
    Reading("fridge", 5.0, 0),
    Reading("oven", 35.0, 2),
    Reading("fridge", 5.4, 2),
    Reading("oven", 50.0, 4),
    Reading("fridge", 4.9, 4),  # a fall: the fridge begins anew
    Reading("oven", 65.0, 6),  # the third rise
    Reading("fridge", 5.1, 6),
    Reading("oven", 80.0, 8),
    Reading("fridge", 5.2, 8),
    Reading("oven", 79.0, 10),
    Reading("fridge", 5.3, 15),  # the third rise, but too slow
]


def is_higher(reading, ctx):
    before = ctx.get_events_for_pattern("readings")
    return not before or reading.degrees > before[-1].degrees


RISING = (
    Pattern.begin("readings", AfterMatchSkipStrategy.skip_past_last_event())
    .where(is_higher)
    .times(4)
    .consecutive()
    .within(Duration.of_seconds(10))
)


def report(match):
    first, *_, last = match["readings"]
    return f"{first.sensor}: from {first.degrees} to {last.degrees} in {last.second - first.second} seconds"


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    in_event_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda reading, before: reading.second * 1000
    )
    readings = env.from_collection(READINGS).assign_timestamps_and_watermarks(in_event_time)
    by_sensor = readings.key_by(lambda reading: reading.sensor, Types.STRING())
    CEP.pattern(by_sensor, RISING).select(report, Types.STRING()).print()
    env.execute("rising temperature, as a pattern")


if __name__ == "__main__":
    main()
