"""Joins on local Spark: both streams meet in the same subtasks, whatever the epochs."""

from __future__ import annotations

import pytest

from flintstream.common import Duration, Time, Types, WatermarkStrategy
from flintstream.datastream import CoGroupFunction, ProcessJoinFunction, RuntimeExecutionMode
from flintstream.datastream.window import TumblingEventTimeWindows

BY_TIME = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(50)).with_timestamp_assigner(
    lambda value, _: value[1]
)
COUNT = 2000


class Pairs(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        yield "interval", left[1], right[1], ctx.get_timestamp()


class Lonely(CoGroupFunction):
    def co_group(self, first, second):
        if not second:
            yield from (("lonely", value[1], -1, -1) for value in first)


def key(number: int) -> str:
    return f"k{number % 40}"


@pytest.mark.parametrize("mode", [RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.BATCH])
def test_joins(env, mode):
    env.set_runtime_mode(mode)
    # The second stream has half of the records, with the same keys at the same times.
    left, right = (
        env.from_sequence(0, count - 1)
        .map(lambda number, step=step: (key(number * step), number * step), Types.TUPLE([Types.STRING(), Types.LONG()]))
        .assign_timestamps_and_watermarks(BY_TIME)
        for count, step in ((COUNT, 1), (COUNT // 2, 2))
    )

    def first(value):
        return value[0]

    windows = TumblingEventTimeWindows.of(Time.milliseconds(100))
    in_windows = left.join(right).where(first).equal_to(first).window(windows)
    lonely = left.co_group(right).where(first).equal_to(first).window(windows)
    near = left.key_by(first).interval_join(right.key_by(first)).between(-40, 40).upper_bound_exclusive()
    results = (
        in_windows.apply(lambda one, two: ("window", one[1], two[1], -1))
        .union(lonely.apply(Lonely()), near.process(Pairs()))
        .execute_and_collect()
    )
    with results:
        found = list(results)

    lefts, rights = range(COUNT), range(0, COUNT, 2)
    pairs = [(one, two) for one in lefts for two in rights if key(one) == key(two)]
    assert sorted(found) == sorted(
        [
            *(("window", one, two, -1) for one, two in pairs if one // 100 == two // 100),
            *(("interval", one, two, max(one, two)) for one, two in pairs if one - 40 <= two < one + 40),
            *(("lonely", one, -1, -1) for one in lefts if one % 2),
        ]
    )
