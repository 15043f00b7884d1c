"""A made-up day in a shop: who looked at which item, put it into the cart or bought it, and when.

No program, but what page_views.py, unique_visitors.py, hot_items.py and live_dashboard.py read. Each record follows from its
index, so the day is the same each time. As in real life records come out of order: most of them within a minute, a few from
phones that were offline for hours.
"""

from bisect import bisect
from itertools import accumulate
from typing import NamedTuple

from flintstream.common import WatermarkStrategy
from flintstream.common.watermark_strategy import WatermarkGenerator
from flintstream.datastream.connectors.datagen import DataGeneratorSource

SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
VISITORS = 20_000
RUSH = [5, 3, 2, 1, 1, 2, 4, 8, 12, 14, 14, 15, 17, 15, 13, 13, 15, 18, 22, 26, 28, 23, 16, 9]
"""How busy each hour of the day is."""
_64_BITS = 2**64 - 1
ITEMS = [
    f"{colour} {thing}"
    for thing in ("shoes", "kettle", "lamp", "scarf", "bicycle", "chair", "teapot", "rucksack")
    for colour in ("red", "blue", "green", "black", "white")
]


class Behaviour(NamedTuple):
    visitor: int
    item: str
    kind: str
    """view, cart or buy."""
    time: int
    """Milliseconds since midnight."""


class ShopDay:
    """Makes so many records of a day from their index, in the order in which they come in."""

    def __init__(self, records):
        self.records = records
        total = sum(RUSH)
        self.shares = [0.0, *(so_far / total for so_far in accumulate(RUSH))]

    def map(self, index):
        who, what, how, delay = chances(index)
        # One record in 500 comes from a phone that was offline for up to three hours.
        on_its_way = 3 * HOUR * delay / 0.002 if delay < 0.002 else MINUTE * delay
        time = max(int(self.arrival(index) - on_its_way), 0)
        # A few visitors click far more than the rest, and what is in fashion changes with the hour.
        visitor = int(VISITORS * who**2)
        item = ITEMS[(int(len(ITEMS) * what**3) + 7 * (time // HOUR)) % len(ITEMS)]
        return Behaviour(visitor, item, "view" if how < 0.85 else "cart" if how < 0.96 else "buy", time)

    def arrival(self, index):
        """When a record comes in."""
        share = index / self.records
        hour = bisect(self.shares, share) - 1
        return HOUR * (hour + (share - self.shares[hour]) / (self.shares[hour + 1] - self.shares[hour]))


def chances(index):
    """Four numbers from 0 to 1 that look random and follow from the index: a source must be able to repeat its records."""
    mixed = (index + 1) * 0x9E3779B97F4A7C15 & _64_BITS
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & _64_BITS
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _64_BITS
    mixed ^= mixed >> 31
    return (mixed >> 48) / 65536, (mixed >> 32 & 65535) / 65536, (mixed >> 16 & 65535) / 65536, (mixed & 65535) / 65536


class EveryFiveMinutes(WatermarkGenerator):
    """A watermark each time that event time has gone on by five minutes: records may be one minute out of order.

    It follows from the records alone and not from the clock, so the same records are late each time.
    """

    def __init__(self):
        self.due = 0

    def on_event(self, event, event_timestamp, output):
        if event_timestamp >= self.due:
            self.due = event_timestamp + 5 * MINUTE
            output.emit_watermark(event_timestamp - MINUTE - 1)

    def on_periodic_emit(self, output):
        pass


def shop_day(env, records):
    """The day as a stream with timestamps and watermarks, in the order of arrival: that is why one subtask reads it."""
    in_event_time = WatermarkStrategy.for_generator(EveryFiveMinutes).with_timestamp_assigner(
        lambda behaviour, before: behaviour.time
    )
    source = DataGeneratorSource(ShopDay(records), records)
    return env.from_source(source, in_event_time, "shop").set_parallelism(1)


def views_of(behaviour):
    """Only the views, chosen where they are read: two subtasks would not keep them in order."""
    return behaviour.filter(lambda record: record.kind == "view").set_parallelism(1)


def clock(time):
    """A time of the day: 09:05."""
    hours, minutes = divmod(time // MINUTE, 60)
    return f"{hours:02}:{minutes:02}"
