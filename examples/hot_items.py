"""The three items most viewed in the last hour, every five minutes: sliding windows, then a ranking by an event-time timer.

A sliding window counts the views of each item. The count is one number, kept as the views come; a window function behind it
says which window it belongs to. The counts of all items in one window then meet under one key, the end of that window, and
wait for a timer: when the watermark has passed that time, all of them are there.

    flint demo hot_items
"""

from _user_behaviour import HOUR, clock, shop_day, views_of
from flintstream.common import Time, Types
from flintstream.datastream import KeyedProcessFunction, ProcessWindowFunction, StreamExecutionEnvironment
from flintstream.datastream.state import ListStateDescriptor
from flintstream.datastream.window import SlidingEventTimeWindows
from page_views import LATE, Count

RECORDS = 50_000
MOST = 3
COUNT = Types.TUPLE([Types.LONG(), Types.STRING(), Types.LONG()])


class WithWindow(ProcessWindowFunction):
    def process(self, item, context, elements):
        yield context.window().end, item, *elements


class Rank(KeyedProcessFunction):
    """Gathers the counts of one window, and gives the largest of them."""

    def __init__(self, most):
        self.most = most

    def open(self, runtime_context):
        self.counts = runtime_context.get_list_state(ListStateDescriptor("counts", COUNT))

    def process_element(self, count, ctx):
        self.counts.add(count)
        ctx.timer_service().register_event_time_timer(count[0])  # One timer for a window, however often it is set.

    def on_timer(self, timestamp, ctx):
        ranked = sorted(self.counts, key=lambda count: (-count[2], count[1]))
        self.counts.clear()
        yield ctx.get_current_key(), [(item, views) for _, item, views in ranked[: self.most]]


def hot_items(behaviour, most=MOST):
    """A stream of (end of the window, [(item, views), ...]), the most viewed first."""
    return (
        views_of(behaviour)
        .map(lambda view: view.item, Types.STRING())  # Only what is counted is sent there.
        .set_parallelism(1)
        .key_by(lambda item: item, Types.STRING())
        .window(SlidingEventTimeWindows.of(Time.hours(1), Time.minutes(5)))
        .side_output_late_data(LATE)  # Nobody reads it: a late view would not change the ranking that was shown.
        .aggregate(Count(), WithWindow(), output_type=COUNT, mergeable=True)
        .key_by(lambda count: count[0], Types.LONG())
        .process(Rank(most))
        .set_parallelism(1)  # Little to do, and so the rankings come in the order of their time.
    )


def describe(ranking):
    end, items = ranking
    names = ", ".join(f"{item} {views:,}" for item, views in items)
    return f"{clock(max(end - HOUR, 0))} - {clock(end)}  {names}"


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    rankings = hot_items(shop_day(env, RECORDS))
    rankings.map(describe, Types.STRING()).set_parallelism(1).print().set_parallelism(1)
    env.execute("hot items")


if __name__ == "__main__":
    main()
