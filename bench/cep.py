"""cep: `a next b within 10 s` over 10,000 keys, of whose events one in fifty begins a match; and `a b+ c` with many b."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from bench.functions import (
    KEYS,
    MANY_KEYS,
    PATTERN_MILLIS,
    STRIDE,
    Event,
    is_a,
    is_b,
    moment_of,
    to_event,
    to_event_of_many,
    user_of,
)
from bench.jobs import environment
from bench.peers import run_peer
from bench.report import Result, Row
from bench.timing import MeasurementError, Timing, slope
from flintstream.cep import CEP, AfterMatchSkipStrategy, Pattern, PatternProcessFunction
from flintstream.cep.compiler import compile_pattern
from flintstream.common import Duration, WatermarkStrategy
from flintstream.datastream.connectors.number_seq import NumberSequenceSource
from flintstream.runtime.batch import CHUNK, Batch
from flintstream.runtime.cep.operator import BUFFER_TABLE, CepOperator
from flintstream.runtime.cep.spec import CepSpec
from flintstream.testing import OneInputOperatorHarness

LEAST_OF_BARE = 0.10
MOST_TIMES_FEW_KEYS = 2.0
MOST_TIMES_HALF = 5.0
"""What a loop of twice as many events may cost: each meets twice as many partial matches, so four times, and some noise."""


def run(quick: bool) -> Result:
    """The whole job beside the bare loop, then the operator alone."""
    sizes = (500_000, 2_000_000) if quick else (2_000_000, 8_000_000)
    timings: dict[str, list[Timing]] = {"flintstream": [], "bare": []}
    run_job(sizes[0] // 2)  # Starts Spark, and is not counted.
    for _ in range(1 if quick else 3):
        timings["flintstream"] += [run_job(size) for size in sizes]
        timings["bare"] += run_peer("bare", sizes, 1, "--work", "pattern", "--processes", "2")
    ours, bare = slope(timings["flintstream"]), slope(timings["bare"])
    few, many = (_micros_per_event(to, quick) for to in (to_event, to_event_of_many))
    rows = [
        Row("Flintstream, a next b within 10 s", ours),
        Row("bare loop with dicts, 2 processes", bare, ratio=ours / bare, least_ratio=LEAST_OF_BARE),
        Row("Flink's CEP in PyFlink", None, note="not run: PyFlink has no CEP, and its conditions are Java"),
        Row("the operator alone, 10,000 keys", few, "µs"),
        Row("the operator alone, 1,000,000 keys", many, "µs"),
        Row("cost of many keys against few", many / few, "times", most=MOST_TIMES_FEW_KEYS),
        *_loops(),
        Row("an event with 1,000 partial matches of its key open", _crowded(), "µs"),
    ]
    details = {side: [(timing.records, timing.seconds) for timing in runs] for side, runs in timings.items()}
    title = "Patterns: a next b within 10 s, 10,000 keys, one event in fifty begins a match, parallelism 2"
    return Result("cep", title, rows, details)


def a_next_b() -> Pattern[Any]:
    """The pattern of the job."""
    pattern = Pattern.begin("a").where(is_a).next("b").where(is_b)
    return pattern.within(Duration.of_millis(PATTERN_MILLIS))


def run_job(records: int) -> Timing:
    """The whole job; each match of some keys must be found once."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(_time)
    numbers = environment().from_source(NumberSequenceSource(0, records - 1), strategy, "numbers")
    matches = CEP.pattern(numbers.map(to_event).key_by(user_of), a_next_b()).flat_select(_of_some_keys)
    started = time.perf_counter()
    with matches.execute_and_collect("cep") as iterator:
        found = sorted(iterator)
    seconds = time.perf_counter() - started
    if found != sorted(_expected(records)):
        raise MeasurementError(f"{len(found)} matches were found, not {len(list(_expected(records)))}")
    return Timing(records, seconds)


def _time(number: int, _: int) -> int:
    return moment_of(number)


def _of_some_keys(match: dict[str, list[Event]]) -> list[tuple[int, int]]:
    """One key of a thousand: collecting all matches would be a part of what is measured."""
    begin, end = match["a"][0], match["b"][0]
    return [(begin[2], end[2])] if begin[0] % 1000 == 0 else []


def _expected(records: int) -> Iterator[tuple[int, int]]:
    inverse = pow(STRIDE, -1, KEYS)
    for key in range(0, KEYS, 1000):
        events = [to_event(number) for number in range(key * inverse % KEYS, records, KEYS)]
        for begin, end in pairwise(events):
            if is_a(begin) and is_b(end):
                yield begin[2], end[2]


# --- the operator alone ---


class Count(PatternProcessFunction[Any, Any]):
    """Counts matches, and gives nothing."""

    def __init__(self) -> None:
        self.matches = 0

    def process_match(self, match: dict[str, list[Any]], ctx: Any) -> None:
        self.matches += 1


def _harness(pattern: Pattern[Any], count: Count) -> OneInputOperatorHarness:
    return OneInputOperatorHarness(CepOperator(CepSpec(compile_pattern(pattern), count, False, True)), user_of)


def _micros_per_event(to: Callable[[int], Event], quick: bool) -> float:
    """What an event costs once all keys have been seen."""
    seen, measured = MANY_KEYS, 200_000 if quick else 1_000_000
    with _harness(a_next_b(), Count()) as harness:
        seconds = 0.0
        for start in range(0, seen + measured, CHUNK):
            events = [to(number) for number in range(start, start + CHUNK)]
            batch = Batch(events, [moment_of(number) for _, _, number in events], [event[0] for event in events])
            began = time.process_time()
            harness.process_batch(batch)
            harness.process_watermark(moment_of(start + CHUNK) - 1)
            seconds += (time.process_time() - began) if start >= seen else 0
    return seconds / measured * 1e6


def _loops() -> list[Row]:
    """`a b+ c`, relaxed, in one key."""
    rows = []
    for name, skip in (
        ("skip_past_last_event", AfterMatchSkipStrategy.skip_past_last_event()),
        ("no_skip", AfterMatchSkipStrategy.no_skip()),
    ):
        half, _, _ = _loop(skip, 100)
        whole, matches, entries = _loop(skip, 200)
        what = f"a b+ c with 200 b, {name}"
        rows += [
            Row(what, whole * 1000, "ms", note=f"matches: {matches}; {entries} entries stored before the c"),
            Row(f"{what}, against 100 b", whole / half, "times", most=MOST_TIMES_HALF),
        ]
    return rows


def _loop(skip: AfterMatchSkipStrategy, length: int) -> tuple[float, int, int]:
    """Returns the seconds, the number of matches, and the largest number of stored events and nodes."""
    times = []
    for _ in range(5):
        count = Count()
        pattern = Pattern.begin("a", skip).where(_kind(0)).followed_by("b").where(_kind(1)).one_or_more()
        with _harness(pattern.followed_by("c").where(_kind(2)), count) as harness:
            began = time.process_time()
            for number in range(length + 1):
                harness.process_element((0, min(number, 1), number), number + 1)
            harness.process_watermark(length + 1)
            seconds = time.process_time() - began
            entries = len(harness.keyed_state(BUFFER_TABLE)[0])
            began = time.process_time()
            harness.process_element((0, 2, 0), length + 2)
            harness.process_watermark(length + 2)
            times.append(seconds + time.process_time() - began)
    return min(times), count.matches, entries


def _crowded() -> float:
    """What an event costs that a thousand partial matches of its key ignore."""
    events = 1_000
    with _harness(Pattern.begin("a").where(_kind(0)).followed_by("b").where(_kind(1)), Count()) as harness:
        harness.process_batch(Batch([(0, 0, 0)] * 1000, [1] * 1000, [0] * 1000))
        harness.process_watermark(1)
        harness.process_batch(Batch([(0, 2, 0)] * events, [2] * events, [0] * events))
        began = time.process_time()
        harness.process_watermark(2)
        return (time.process_time() - began) / events * 1e6


def _kind(kind: int) -> Callable[[Event], bool]:
    return lambda event: event[1] == kind
