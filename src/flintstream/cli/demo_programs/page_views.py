"""Counts the views and the visitors of each page over 300,000 clicks, and shows them as a table."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from rich.bar import Bar
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from flintstream.common import Types, WatermarkStrategy
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.connectors.datagen import DataGeneratorSource
from flintstream.datastream.state import MapStateDescriptor, ValueStateDescriptor

CLICKS = 300_000
VISITORS = 25_000
PAGES = ["/", "/search", "/shoes", "/cart", "/shoes/red", "/help", "/login", "/orders", "/about", "/jobs"]


class Click(NamedTuple):
    page: str
    visitor: int
    milliseconds: int


def chance(index: int, what: int) -> float:
    """A number from 0 to 1 that looks random, and is the same each time: clicks can be made again after a failure."""
    mixed = (index * 0x9E3779B97F4A7C15 + what * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    mixed = ((mixed ^ (mixed >> 29)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return (mixed ^ (mixed >> 32)) / 2**64


def make_click(index: int) -> Click:
    """As in real life, a few pages get most of the views, and a few visitors click far more than the rest."""
    page = PAGES[int(len(PAGES) * chance(index, 1) ** 2)]
    visitor = int(VISITORS * chance(index, 2) ** 3)
    return Click(page, visitor, index * 3_600_000 // CLICKS)


class CountViews(KeyedProcessFunction):
    """Keeps two counts for each page: the state belongs to the key of the record at hand."""

    def open(self, runtime_context: Any) -> None:
        self.views = runtime_context.get_state(ValueStateDescriptor("views", Types.LONG()))
        self.visitors = runtime_context.get_map_state(MapStateDescriptor("visitors", Types.LONG(), Types.LONG()))
        self.visitors_so_far = runtime_context.get_state(ValueStateDescriptor("visitors so far", Types.LONG()))

    def process_element(self, click: Click, ctx: Any) -> Iterator[tuple[str, int, int]]:
        views = (self.views.value() or 0) + 1
        self.views.update(views)
        visitors = self.visitors_so_far.value() or 0
        if not self.visitors.contains(click.visitor):
            self.visitors.put(click.visitor, click.milliseconds)
            visitors += 1
            self.visitors_so_far.update(visitors)
        yield ctx.get_current_key(), views, visitors


def show(pages: dict[str, tuple[int, int]], epochs: list[Any]) -> None:
    """The table, and how fast it came about."""
    total = sum(views for views, _ in pages.values())
    largest = max(views for views, _ in pages.values())
    seconds = sum(epoch.seconds for epoch in epochs)
    table = Table(title="One hour of clicks", caption_justify="left", box=SIMPLE_HEAD, show_footer=True)
    table.add_column("page", footer="all pages")
    table.add_column("views", justify="right", footer=f"{total:,}")
    table.add_column("visitors", justify="right")
    table.add_column("share", justify="right", footer="100.0 %")
    table.add_column("", width=30)
    for page, (views, visitors) in sorted(pages.items(), key=lambda item: -item[1][0]):
        bar = Bar(largest, 0, views, color="cyan")
        table.add_row(page, f"{views:,}", f"{visitors:,}", f"{views / total:.1%}".replace("%", " %"), bar)
    fastest = max(epoch.records / epoch.seconds for epoch in epochs)
    table.caption = (
        f"{total / seconds:,.0f} clicks a second, in {len(epochs)} epochs on Spark ({seconds:.1f} s); "
        f"{fastest:,.0f} in the fastest"
    )
    Console().print(table)


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    source = DataGeneratorSource(make_click, CLICKS)
    counts = (
        env.from_source(source, WatermarkStrategy.no_watermarks(), "clicks")
        .key_by(lambda click: click.page, key_type=Types.STRING())
        .process(CountViews())
        .name("count views")
    )
    print(
        f"Counting views and visitors over {CLICKS:,} clicks. Spark starts first, which takes a few seconds.",
        flush=True,
    )
    pages = {}
    with counts.execute_and_collect("page views") as results:
        for page, views, visitors in results:  # every click gives new counts of its page; the last ones stay
            pages[page] = views, visitors
        epochs = results.get_job_client()._master.progress.epochs  # the engine's own numbers
    show(pages, epochs)


if __name__ == "__main__":
    main()
