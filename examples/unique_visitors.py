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
COUNT = Types.TUPLE([Types.LONG(), Types.STRING(), Types.LONG()])


class Distinct(AggregateFunction):
    """Adds up what there is to see; its result is still the set, or the sketch, so that it can be merged with others."""

    def __init__(self, make, value_of=lambda record: record):
        self.make = make
        self.value_of = value_of

    def create_accumulator(self):
        return self.make()

    def add(self, value, accumulator):
        accumulator.add(self.value_of(value))
        return accumulator

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        a.merge(b)
        return a


class Merged(Distinct):
    """Takes such results, and gives the count."""

    def add(self, value, accumulator):
        accumulator.merge(value)
        return accumulator

    def get_result(self, accumulator):
        return accumulator.count()


class WithHour(ProcessAllWindowFunction):
    def __init__(self, way):
        self.way = way

    def process(self, context, elements):
        yield context.window().start, self.way, *elements


def unique_visitors(behaviour, way):
    """A stream of (hour, way, visitors)."""
    return (
        behaviour.key_by(lambda record: record.visitor % 4, Types.INT())
        .window(BY_THE_HOUR)
        .side_output_late_data(LATE)  # Nobody reads it: page_views.py shows what could be done with it.
        .aggregate(Distinct(WAYS[way], lambda record: record.visitor))
        .window_all(BY_THE_HOUR)
        .aggregate(Merged(WAYS[way]), WithHour(way), output_type=COUNT)
    )


class SideBySide(ProcessAllWindowFunction):
    """The results of an hour, from all ways, are in one window again."""

    def process(self, context, elements):
        counts = {way: visitors for _, way, visitors in elements}
        columns = "   ".join(f"{way} {counts[way]:5,}" for way in WAYS)
        yield f"{clock(context.window().start)}   {columns}"


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    behaviour = shop_day(env, RECORDS)
    exact, *others = [unique_visitors(behaviour, way) for way in WAYS]
    lines = exact.union(*others).window_all(BY_THE_HOUR).process(SideBySide(), Types.STRING())
    lines.print().set_parallelism(1)
    env.execute("unique visitors")


if __name__ == "__main__":
    main()
