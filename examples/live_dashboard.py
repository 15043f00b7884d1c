"""A day in a shop, live: views and visitors by the hour, the hottest items of the last hour, and what came too late.

One job, made of page_views.py, unique_visitors.py and hot_items.py: it reads the records once, and three branches of windows
work on them. They come out of order; watermarks say when a window is complete, so the totals are the same each time.

On a terminal there is a live table, elsewhere a line for each hour. With a number as its argument it reads so many records:

    flint demo live_dashboard 10000000
"""

import sys

from rich.bar import Bar
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from _user_behaviour import HOUR, clock, shop_day
from flintstream.common import Configuration
from flintstream.datastream import StreamExecutionEnvironment
from hot_items import hot_items
from page_views import page_views
from unique_visitors import unique_visitors

RECORDS = 3_000_000
SKETCH = "HyperLogLog"


def results(behaviour):
    """All results in one stream: (what, time, value)."""
    views, late = page_views(behaviour)
    visitors = unique_visitors(behaviour, ["exact", SKETCH])
    # In one subtask, as the windows over all records that they follow: nothing has to be sent on for so little.
    return (
        views.map(lambda count: ("views", *count))
        .set_parallelism(1)
        .union(
            visitors.map(lambda hour: ("visitors", *hour)).set_parallelism(1),
            hot_items(behaviour, 5).map(lambda ranking: ("hottest", *ranking)).set_parallelism(1),
            late.map(lambda view: ("late", 0, view)),
        )
    )


class Dashboard:
    """What has come so far, and how it looks."""

    def __init__(self):
        self.progress = None
        self.hours = {}
        self.ranking = 0, []
        self.rankings = 0
        self.late = 0
        self.told = 0

    def take(self, what, time, value):
        if what == "late":
            self.late += 1
        elif what == "visitors":
            self.hours.setdefault(time, {}).update(zip(("visitors", SKETCH), value))
        elif what == "hottest":
            self.rankings += 1
            self.ranking = max(self.ranking, (time, value))
            self.hours.setdefault(time - HOUR, {})[what] = value
        else:
            self.hours.setdefault(time, {})[what] = value

    def complete(self):
        """The hours of which everything has come, the first of them first: (time, results)."""
        whole = {"views", "visitors", SKETCH, "hottest"}
        return [(time, found) for time, found in sorted(self.hours.items()) if found.keys() == whole]

    # --- as lines ---

    def new_lines(self):
        """A line for each hour that is complete and has not been told yet."""
        new = self.complete()[self.told :]
        self.told += len(new)
        for time, found in new:
            item, views = found["hottest"][0]
            yield (
                f"{clock(time)} - {clock(time + HOUR)} {found['views']:8,} views {found['visitors']:7,} visitors "
                f"({SKETCH} {found[SKETCH]:7,})   hottest: {item} {views:,}"
            )

    def summary(self):
        hours = [found for _, found in self.complete()]
        views = sum(found["views"] for found in hours)
        off = max(abs(found[SKETCH] / found["visitors"] - 1) for found in hours)
        epochs = self.progress.epochs
        seconds = sum(epoch.seconds for epoch in epochs)
        later = epochs[len(epochs) // 2 :]
        warm = sum(epoch.records for epoch in later) / sum(epoch.seconds for epoch in later)
        records = self.progress.records_in
        windows = (
            f"{2 * len(hours) + self.rankings:,} windows: {len(hours)} hours, each for views and visitors, and "
            f"{self.rankings} last hours, one every five minutes."
        )
        speed = (
            f"{records:,} records in {seconds:.1f} s: {records / seconds:,.0f} a second, and {warm:,.0f} a second in the "
            "second half, when Java and Python are warm."
        )
        return [
            f"{views:,} views were in time for their hour; {self.late:,} came too late and went to a side output.",
            windows,
            f"{SKETCH} was off by {off:.1%} at most, and never holds more than 4 kB.",
            speed,
            "Next: `flint demo --list` has more programs, docs/guide/windows.md explains windows.",
        ]

    # --- as tables ---

    def __rich__(self):
        """What is shown while the job runs: the last hours only, so that it fits on every terminal."""
        sides = Table.grid(padding=(0, 1))
        sides.add_row(self.table(self.complete()[-10:]), self.hottest())
        return Group(sides, self.status())

    def table(self, hours):
        largest = max((found["views"] for _, found in hours), default=1)
        table = Table("hour", title="By the hour", box=SIMPLE_HEAD)
        table.add_column("views", justify="right", min_width=6)
        table.add_column("", width=7)
        table.add_column("visitors", justify="right")
        table.add_column(SKETCH, justify="right")
        for time, found in hours:
            bar = Bar(largest, 0, found["views"], color="cyan")
            table.add_row(clock(time), f"{found['views']:,}", bar, f"{found['visitors']:,}", f"{found[SKETCH]:,}")
        return table

    def hottest(self):
        end, items = self.ranking
        table = Table(title=f"Hottest {clock(max(end - HOUR, 0))} - {clock(end)}", box=SIMPLE_HEAD)
        table.add_column("item", min_width=14)
        table.add_column("views", justify="right", min_width=5)
        for item, views in items:
            table.add_row(item, f"{views:,}")
        return table

    def status(self):
        if self.progress is None or not self.progress.epochs:
            return "  waiting for the first records"
        last = self.progress.epochs[-1]
        return (
            f"  {self.progress.records_in:,} records, {last.records / last.seconds:,.0f} a second · "
            f"{2 * len(self.complete()) + self.rankings:,} windows · {self.late:,} late"
        )


def main(records):
    console = Console()
    settings = Configuration()
    settings.set_string("flint.progress", "false")  # The line that shows how a job goes on would be in the way.
    settings.set_string("flint.transport", "pipelined")  # Records are passed on as they come, and so are results.
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    env.set_parallelism(2)
    print(f"A day in a shop, {records:,} records. Spark starts first, which takes a few seconds.", flush=True)
    dashboard = Dashboard()
    with results(shop_day(env, records)).execute_and_collect("a day in a shop") as stream:
        dashboard.progress = stream.get_job_client().master.progress  # the engine's own numbers
        if console.is_terminal:
            with Live(dashboard, console=console, transient=True):
                for result in stream:
                    dashboard.take(*result)
            console.print(dashboard.table(dashboard.complete()))
        else:
            for result in stream:
                dashboard.take(*result)
                for line in dashboard.new_lines():
                    print(line, flush=True)
    print()
    for line in dashboard.summary():
        print(line)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else RECORDS)
