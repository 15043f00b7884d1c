"""The programs with windows: their results beside those of a plain loop over the same records."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from flintstream.testing import OneInputOperatorHarness

ROOT = Path(__file__).parents[2]
Run = Callable[..., list[str]]


class Expected:
    """The day of a shop, counted by a plain loop: which records are in time follows from the watermarks before them."""

    def __init__(self, shop: ModuleType, records: int) -> None:
        hour, five_minutes = shop.HOUR, 5 * shop.MINUTE
        self.views: Counter[int] = Counter()
        self.late = 0
        self.visitors: dict[int, set[int]] = defaultdict(set)
        self.items: dict[int, Counter[str]] = defaultdict(Counter)
        panes: dict[int, Counter[str]] = defaultdict(Counter)
        day = shop.ShopDay(records)
        watermark, due = -1, 0
        for record in map(day.map, range(records)):
            start = record.time - record.time % hour
            in_time = start + hour - 1 > watermark
            if in_time:
                self.visitors[start].add(record.visitor)
            if record.kind == "view":
                self.views[start] += in_time
                self.late += not in_time
                first = record.time - record.time % five_minutes + five_minutes
                if first - 1 > watermark:
                    panes[first][record.item] += 1
                else:
                    for end in range(first, first + hour, five_minutes):
                        if end - 1 > watermark:
                            self.items[end][record.item] += 1
            if record.time >= due:
                due = record.time + five_minutes
                watermark = max(watermark, record.time - shop.MINUTE - 1)
        for first, items in panes.items():  # in time for all windows from here on
            for end in range(first, first + hour, five_minutes):
                self.items[end].update(items)

    def hottest(self, end: int, most: int) -> list[tuple[str, int]]:
        return sorted(self.items[end].items(), key=lambda item: (-item[1], item[0]))[:most]


@pytest.fixture
def shop(beside_the_examples: None) -> ModuleType:
    return import_module("_user_behaviour")


@pytest.fixture
def distinct(beside_the_examples: None) -> ModuleType:
    return import_module("_distinct")


# --- the generated day ---


def test_the_day_is_the_same_each_time_and_out_of_order(shop: ModuleType) -> None:
    day = list(map(shop.ShopDay(10_000).map, range(10_000)))
    assert day == list(map(shop.ShopDay(10_000).map, range(10_000)))
    assert day[5000] == (0, "green teapot", "view", 59703765)
    assert all(0 <= record.time < shop.DAY for record in day)
    times = [record.time for record in day]
    assert times != sorted(times)
    assert Counter(record.kind for record in day).most_common(1)[0][0] == "view"
    by_hour = Counter(record.time // shop.HOUR for record in day)
    assert max(by_hour, key=by_hour.__getitem__) == 20
    assert sum(latest - time > shop.MINUTE for latest, time in running_maximum(times)) > 5


def running_maximum(times: list[int]) -> Iterator[tuple[int, int]]:
    latest = 0
    for time in times:
        latest = max(latest, time)
        yield latest, time


# --- page views ---


def test_page_views(run: Run, shop: ModuleType) -> None:
    expected = Expected(shop, 50_000)
    *hours, late = run("page_views")
    assert hours == [
        f"{shop.clock(start)} - {shop.clock(start + shop.HOUR)} {views:6,} views"
        for start, views in sorted(expected.views.items())
    ]
    assert late == f"{expected.late} views came too late for their hour"
    assert hours[20] == "20:00 - 21:00  3,992 views"
    assert late == "69 views came too late for their hour"


# --- unique visitors ---


def test_unique_visitors(run: Run, shop: ModuleType, distinct: ModuleType) -> None:
    expected = Expected(shop, 50_000)
    lines = run("unique_visitors")
    assert len(lines) == 24
    bounds = {"Bloom filter": 0.02, "HyperLogLog": 3 * distinct.HyperLogLog().error}
    for line, (start, visitors) in zip(lines, sorted(expected.visitors.items())):
        time, columns = line.split(None, 1)
        counts = {name: int(count.replace(",", "")) for name, count in re.findall(r"(\w[\w ]*?) +([\d,]+)", columns)}
        assert (time, counts.pop("exact")) == (shop.clock(start), len(visitors))
        assert counts.keys() == bounds.keys()
        for way, count in counts.items():
            assert count == pytest.approx(len(visitors), rel=bounds[way], abs=3)


WAYS = ["ExactSet", "BloomFilter", "HyperLogLog"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("count", [0, 1, 10, 1000, 10_000])
def test_counting_distinct_values(distinct: ModuleType, way: str, count: int) -> None:
    seen = getattr(distinct, way)()
    for _ in range(2):  # the second time changes nothing
        for value in range(count):
            seen.add(value)
    error = {"ExactSet": 0.0, "BloomFilter": 0.02, "HyperLogLog": 3 * distinct.HyperLogLog().error}[way]
    assert seen.count() == pytest.approx(count, rel=error)


@pytest.mark.parametrize("way", WAYS)
def test_merging_is_as_adding(distinct: ModuleType, way: str) -> None:
    left, right, both = (getattr(distinct, way)() for _ in range(3))
    for value in range(3000):
        (left if value % 3 else right).add(value)
        if value % 5 == 0:
            left.add(value)
        both.add(value)
    left.merge(right)
    assert vars(left) == vars(both)
    assert left.count() == both.count()


def test_a_bloom_filter_forgets_nothing_and_errs_rarely(distinct: ModuleType) -> None:
    seen = distinct.BloomFilter()
    for value in range(5000):
        seen.add(value)
    assert all(value in seen for value in range(5000))
    assert sum(value in seen for value in range(5000, 15_000)) < 200


# --- hot items ---


def test_hot_items(run: Run, shop: ModuleType) -> None:
    expected = Expected(shop, 50_000)
    lines = run("hot_items")
    describe = import_module("hot_items").describe
    assert lines == [describe((end, expected.hottest(end, 3))) for end in sorted(expected.items)]
    assert len(lines) == 24 * 12 + 11
    assert lines[11] == "00:00 - 01:00  red shoes 226, blue shoes 57, green shoes 47"


def test_the_ranking_waits_for_the_watermark(beside_the_examples: None) -> None:
    rank = import_module("hot_items").Rank(2)
    with OneInputOperatorHarness(rank, key_selector=lambda count: count[0]) as harness:
        for count in [(1000, "tea", 3), (2000, "tea", 9), (1000, "cake", 5), (1000, "soup", 5), (1000, "rice", 1)]:
            harness.process_element(count, count[0] - 1)
        harness.process_watermark(999)
        assert harness.output == []
        harness.process_watermark(1000)
        assert harness.output == [(1000, [("cake", 5), ("soup", 5)])]
        assert harness.keyed_state("counts").keys() == {2000}


# --- words by the clock ---


def test_windowed_word_count(run: Run, beside_the_examples: None) -> None:
    lines = run("windowed_word_count")
    found = [re.fullmatch(r"until (\d\d:\d\d:\d[02468]): (\w+) (\d+)", line) for line in lines]
    assert all(found)
    windows = [match.group(1, 2) for match in found if match]
    assert len(windows) == len(set(windows))
    counts: Counter[str] = Counter()
    for match in found:
        assert match
        counts[match[2]] += int(match[3])
    assert counts == Counter(import_module("windowed_word_count").POEM.split())


def test_windowed_word_count_by_a_clock_of_the_test(beside_the_examples: None, env_without_spark: Any) -> None:
    program = import_module("windowed_word_count")
    counts = program.windowed_word_count(env_without_spark.from_collection([""]))
    operator = counts._transformation.operator
    harness = OneInputOperatorHarness(operator, key_selector=lambda pair: pair[0], processing_time=10_500)
    with harness:
        harness.process_elements([("to", 1), ("be", 1), ("to", 1)])
        harness.set_processing_time(11_999)
        assert harness.output == []
        harness.set_processing_time(12_000)
        harness.process_element(("to", 1))
        assert sorted(harness.output) == [(12_000, "be", 1), (12_000, "to", 2)]
        harness.set_processing_time(14_000)
        assert harness.output[2:] == [(14_000, "to", 1)]


@pytest.fixture
def env_without_spark() -> Any:
    from flintstream.datastream import StreamExecutionEnvironment

    return StreamExecutionEnvironment.get_execution_environment()


def test_windowed_word_count_says_how_to_call_it(run: Run) -> None:
    with pytest.raises(SystemExit, match="usage"):
        run("windowed_word_count", "localhost")


# --- the demonstration ---


def expected_results(expected: Expected, shop: ModuleType, distinct: ModuleType) -> Iterator[tuple[str, int, Any]]:
    """What the job should give, without a job."""
    for start, views in expected.views.items():
        visitors = expected.visitors[start]
        sketch = distinct.HyperLogLog()
        for visitor in visitors:
            sketch.add(visitor)
        yield "views", start, views
        yield "visitors", start, [len(visitors), sketch.count()]
    for end in expected.items:
        yield "hottest", end, expected.hottest(end, 5)
    for _ in range(expected.late):
        yield "late", 0, None


def test_the_demonstration(run: Run, shop: ModuleType, distinct: ModuleType) -> None:
    program = import_module("live_dashboard")
    dashboard = program.Dashboard()
    for result in expected_results(Expected(shop, 20_000), shop, distinct):
        dashboard.take(*result)
    dashboard.progress = Progress()
    first, *lines = run("live_dashboard", 20_000)
    assert first == "A day in a shop, 20,000 records. Spark starts first, which takes a few seconds."
    expected = [*dashboard.new_lines(), "", *dashboard.summary()]
    assert len(expected) == 24 + 1 + 5
    assert [line for line in lines if not CHANGING.search(line)] == [
        line for line in expected if not CHANGING.search(line)
    ]
    assert sum(map(bool, map(CHANGING.search, lines))) == 1


CHANGING = re.compile(r"records in [\d.]+ s: [\d,]+ a second")


class Progress:
    """The numbers of a job that was none."""

    class Epoch(NamedTuple):
        seconds: float
        records: int

    epochs = [Epoch(1.0, 1000)]
    records_in = 1000


def test_the_readme_shows_what_the_demonstration_prints(shop: ModuleType, distinct: ModuleType) -> None:
    program = import_module("live_dashboard")
    dashboard = program.Dashboard()
    for result in expected_results(Expected(shop, program.RECORDS), shop, distinct):
        dashboard.take(*result)
    dashboard.progress = Progress()
    printed = [
        f"A day in a shop, {program.RECORDS:,} records. Spark starts first, which takes a few seconds.",
        *dashboard.new_lines(),
        "",
        *dashboard.summary(),
    ]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"<!-- demo -->\n```text\n(.*?)```", readme, re.S)
    assert shown
    promised = [line for line in shown[1].splitlines() if line != "..." and not CHANGING.search(line)]
    assert len(promised) > 8
    assert [line for line in promised if line not in printed] == []
    assert [line for line in printed if line in promised] == promised


def test_the_table_of_a_terminal(beside_the_examples: None) -> None:
    from io import StringIO

    from rich.console import Console

    program = import_module("live_dashboard")
    dashboard = program.Dashboard()
    hour = program.HOUR
    for result in [
        ("views", 0, 1200),
        ("visitors", 0, [300, 303]),
        ("hottest", hour - 300_000, [("red lamp", 7)]),
        ("hottest", hour, [("blue shoes", 40), ("red lamp", 10)]),
        ("late", 5, None),
        ("views", hour, 99),
    ]:
        dashboard.take(*result)
    console = Console(file=StringIO(), width=80)
    console.print(dashboard)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert re.search(r"00:00\s+1,200\s+\S+\s+300\s+303", shown)
    assert "Hottest 00:00 - 01:00" in shown
    assert re.search(r"blue shoes\s+40", shown)
    assert "waiting for the first records" in shown
    assert "99" not in shown  # That hour is not complete.
