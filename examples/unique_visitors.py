"""Unique visitors by the hour, in three ways: exactly, with a Bloom filter, and with HyperLogLog.

What has been seen is the accumulator of a window, one for each of some keys, and is merged at the end of the hour. A set
must hold every visitor. The other two stay as small as they are, 8 kB and 4 kB here, and come close: HyperLogLog for
millions too, for which the Bloom filter would have to be larger.

    flint demo unique_visitors
"""

from _distinct import BloomFilter, ExactSet, HyperLogLog
from _user_behaviour import clock, shop_day
from flintstream.common import Time, Types
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.functions import AggregateFunction, ProcessAllWindowFunction
from flintstream.datastream.window import TumblingEventTimeWindows
from page_views import LATE

RECORDS = 50_000
WAYS = {"exact": ExactSet, "Bloom filter": BloomFilter, "HyperLogLog": HyperLogLog}
BY_THE_HOUR = TumblingEventTimeWindows.of(Time.hours(1))


class Distinct(AggregateFunction):
    """Adds up what there is to see, in several ways. Its result is still the set and the sketches: they can be merged."""

    def __init__(self, ways):
        self.ways = ways

    def create_accumulator(self):
        return [WAYS[way]() for way in self.ways]

    def add(self, value, accumulator):
        for seen in accumulator:
            seen.add(value)
        return accumulator

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        for left, right in zip(a, b):
            left.merge(right)
        return a


class Merged(Distinct):
    """Takes such results, and gives the counts."""

    def add(self, value, accumulator):
        return self.merge(accumulator, value)

    def get_result(self, accumulator):
        return [seen.count() for seen in accumulator]


class WithHour(ProcessAllWindowFunction):
    def process(self, context, elements):
        yield context.window().start, *elements


def unique_visitors(behaviour, ways):
    """A stream of (hour, [visitors, ...]), with a number for each of the ways."""
    return (
        behaviour.map(lambda record: record.visitor, Types.INT())  # Only what is counted is sent there.
        .set_parallelism(1)
        .key_by(lambda visitor: visitor % 4, Types.INT())
        .window(BY_THE_HOUR)
        .side_output_late_data(LATE)  # Nobody reads it: page_views.py shows what could be done with it.
        .aggregate(Distinct(ways))
        .window_all(BY_THE_HOUR)
        .aggregate(Merged(ways), WithHour())
    )


def describe(hour):
    time, counts = hour
    columns = "   ".join(f"{way} {visitors:5,}" for way, visitors in zip(WAYS, counts))
    return f"{clock(time)}   {columns}"


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    hours = unique_visitors(shop_day(env, RECORDS), list(WAYS))
    hours.map(describe, Types.STRING()).set_parallelism(1).print().set_parallelism(1)
    env.execute("unique visitors")


if __name__ == "__main__":
    main()
