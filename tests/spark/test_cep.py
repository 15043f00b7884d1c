"""Patterns on local Spark: matches, time-outs and late events of many keys, whatever the epochs."""

from __future__ import annotations

import pytest

from flintstream.cep import CEP, Pattern
from flintstream.common import Duration, Types, WatermarkStrategy
from flintstream.datastream import OutputTag, RuntimeExecutionMode

BY_TIME = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(50)).with_timestamp_assigner(
    lambda value, _: value[1]
)
COUNT, KEYS = 20_000, 40
UNFINISHED = OutputTag("unfinished")


def letter(number: int) -> str:
    """Of every hundred rounds of a key: begins at the first, goes on at the third; every other one comes too late."""
    turn = number // KEYS
    return {0: "a", 3: "b" if turn // 100 % 2 else "x", 60: "b"}.get(turn % 100, "x")


@pytest.mark.parametrize("mode", [RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.BATCH])
def test_a_pattern(env, mode):
    env.set_runtime_mode(mode)
    events = (
        env.from_sequence(0, COUNT - 1)
        .map(lambda number: (f"k{number % KEYS}", number + 1, letter(number)))
        .assign_timestamps_and_watermarks(BY_TIME)
        .key_by(lambda value: value[0], Types.STRING())
    )
    pattern = Pattern.begin("a").where(lambda event: event[2] == "a").followed_by("b").where(lambda e: e[2] == "b")
    matches = CEP.pattern(events, pattern.within(Duration.of_millis(50 * KEYS))).select(
        UNFINISHED,
        lambda match, end: ("unfinished", match["a"][0][1], end),
        lambda match: ("match", match["a"][0][1], match["b"][0][1]),
    )
    with matches.union(matches.get_side_output(UNFINISHED)).execute_and_collect() as results:
        found = list(results)

    expected = []
    for number in range(COUNT):
        if letter(number) == "a":
            late = number + 3 * KEYS if letter(number + 3 * KEYS) == "b" else None
            begin = number + 1
            expected.append(("unfinished", begin, begin + 50 * KEYS) if late is None else ("match", begin, late + 1))
    assert sorted(found) == sorted(expected)
    assert {kind for kind, *_ in found} == {"match", "unfinished"}
