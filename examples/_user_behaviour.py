"""A made-up day in a shop: who looked at which item, put it into the cart or bought it, and when.

No program, but what page_views.py, unique_visitors.py, hot_items.py and live_dashboard.py read. Each record follows from its
index, so the day is the same each time. As in real life records come out of order: most of them within a minute, a few from
phones that were offline for hours.
"""

from random import Random
from typing import NamedTuple

from flintstream.common import WatermarkStrategy
from flintstream.common.watermark_strategy import WatermarkGenerator
from flintstream.datastream.connectors.datagen import DataGeneratorSource

SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
RUSH = [5, 3, 2, 1, 1, 2, 4, 8, 12, 14, 14, 15, 17, 15, 13, 13, 15, 18, 22, 26, 28, 23, 16, 9]
"""How busy each hour of the day is."""
GOLDEN_RATIO = (5**0.5 - 1) / 2
"""The fractions of its multiples are spread evenly from 0 to 1, in no obvious order."""
ITEMS = [
    f"{colour} {thing}"
    for thing in ("shoes", "kettle", "lamp", "scarf", "bicycle", "chair", "teapot", "rucksack")
    for colour in ("red", "blue", "green", "black", "white")
]
FASHION = [[ITEMS[(rank + 7 * hour) % len(ITEMS)] for rank in range(len(ITEMS))] for hour in range(24)]
"""The items of each hour, from the one that is looked at most."""


class Behaviour(NamedTuple):
    visitor: int
    item: str
    kind: str
    """view, cart or buy."""
    time: int
    """Milliseconds since midnight."""


class ShopDay:
    """Makes so many records of a day from their index, in the order in which they come in.

    A record is made in a microsecond, since what is random about it stands in tables. Their lengths are prime, so that they
    meet in another way each time they are used again.
    """

    def __init__(self, records):
        chance = Random("a day in a shop")
        self.visitors = max(records // 10, 1)
        # Equally many records come in each part of the day; the busier an hour is, the more parts it has.
        self.pace = sum(RUSH) / records
        self.starts = [HOUR * hour + HOUR * part // parts for hour, parts in enumerate(RUSH) for part in range(parts)]
        self.lengths = [HOUR / parts for parts in RUSH for _ in range(parts)]
        kinds = chance.choices(["view", "cart", "buy"], weights=[85, 11, 4], k=9_973)
        self.looks = [(int(len(ITEMS) * chance.random() ** 3), kind) for kind in kinds]
        # One record in 500 comes from a phone that was offline for up to three hours.
        waits = chance.choices([MINUTE, 3 * HOUR], weights=[499, 1], k=10_007)
        self.on_its_way = [chance.randrange(wait) for wait in waits]

    def map(self, index):
        place = index * self.pace
        part = int(place)
        comes_in = self.starts[part] + int((place - part) * self.lengths[part])
        time = max(comes_in - self.on_its_way[index % 10_007], 0)
        # A few visitors click far more than the rest, and a few items are looked at far more.
        visitor = int(self.visitors * (index * GOLDEN_RATIO % 1) ** 4)
        rank, kind = self.looks[index % 9_973]
        return Behaviour(visitor, FASHION[time // HOUR][rank], kind, time)


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
