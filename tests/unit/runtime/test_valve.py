"""WatermarkValve: the minimum rule, idleness, never backwards."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flintstream.runtime.batch import MAX_WATERMARK, MIN_WATERMARK
from flintstream.runtime.time.valve import WatermarkValve

CHANNELS = 3


def test_the_first_watermark_waits_for_every_channel() -> None:
    valve = WatermarkValve(["a", "b"])
    assert valve.watermark == MIN_WATERMARK
    assert valve.advance("a", 10) is None
    assert valve.advance("b", 3) == 3
    assert valve.advance("b", 20) == 10
    assert valve.advance("a", 10) is None


def test_an_older_watermark_of_a_channel_is_ignored() -> None:
    valve = WatermarkValve(["a"])
    assert valve.advance("a", 10) == 10
    assert valve.advance("a", 5) is None
    assert valve.advance("a", 11) == 11


def test_negative_timestamps() -> None:
    valve = WatermarkValve(["a", "b"])
    valve.advance("a", -100)
    assert valve.advance("b", -200) == -200


def test_an_idle_channel_is_left_out_and_taken_in_again() -> None:
    valve = WatermarkValve(["a", "b"])
    valve.advance("a", 10)
    assert valve.set_idle("b", True) == 10
    assert not valve.all_idle
    assert valve.advance("a", 20) == 20
    assert valve.set_idle("b", False) is None, "not backwards to what b had"
    assert valve.watermark == 20
    assert valve.advance("a", 30) is None, "b holds it again"
    assert valve.advance("b", 25) == 25


def test_when_all_are_idle_the_greatest_counts() -> None:
    valve = WatermarkValve(["a", "b"])
    valve.advance("a", 10)
    valve.advance("b", 5)
    assert valve.set_idle("a", True) is None
    assert valve.set_idle("b", True) == 10
    assert valve.all_idle


def test_an_ended_channel_holds_nothing_back() -> None:
    valve = WatermarkValve(["a", "b"])
    valve.advance("b", 5)
    assert valve.end("a") == 5
    assert valve.end("b") == MAX_WATERMARK


def test_all_idle_leaves_ended_channels_out() -> None:
    valve = WatermarkValve(["a", "b"])
    valve.end("a")
    assert not valve.all_idle
    valve.set_idle("b", True)
    assert valve.all_idle


def test_a_channel_added_later_holds_the_watermark_where_it_is() -> None:
    valve = WatermarkValve()
    valve.add("a")
    assert valve.advance("a", 10) == 10
    valve.add("b")
    assert valve.advance("a", 20) is None
    assert valve.watermark == 10
    assert valve.advance("b", 15) == 15


def test_adding_a_known_channel_changes_nothing() -> None:
    valve = WatermarkValve(["a"])
    valve.advance("a", 10)
    valve.add("a")
    assert valve.advance("a", 11) == 11


def test_a_removed_channel_leaves_no_trace() -> None:
    valve = WatermarkValve(["a", "b"])
    valve.advance("a", 10)
    assert valve.remove("b") == 10
    assert valve.remove("a") is None
    assert valve.watermark == 10
    valve.add("c")
    assert valve.advance("c", 12) == 12


STEP = st.one_of(
    st.tuples(st.just("advance"), st.integers(0, CHANNELS - 1), st.integers(-20, 20)),
    st.tuples(st.just("idle"), st.integers(0, CHANNELS - 1), st.booleans()),
    st.tuples(st.just("end"), st.integers(0, CHANNELS - 1), st.none()),
)


@given(st.lists(STEP, max_size=60))
def test_any_interleaving_follows_the_minimum_rule(steps: list[tuple[str, int, int | bool | None]]) -> None:
    valve = WatermarkValve(range(CHANNELS))
    marks = [MIN_WATERMARK] * CHANNELS
    idle = [False] * CHANNELS
    combined = MIN_WATERMARK
    for kind, channel, argument in steps:
        if kind == "advance":
            assert argument is not None
            marks[channel] = max(marks[channel], argument)
            told = valve.advance(channel, argument)
        elif kind == "idle":
            idle[channel] = bool(argument)
            told = valve.set_idle(channel, bool(argument))
        else:
            marks[channel] = MAX_WATERMARK
            told = valve.end(channel)
        active = [mark for mark, out in zip(marks, idle, strict=True) if not out]
        least = min(active) if active else max(marks)
        assert told == (least if least > combined else None)
        combined = max(combined, least)
        assert valve.watermark == combined


@given(st.lists(st.tuples(st.integers(0, CHANNELS - 1), st.integers(-20, 20)), max_size=40), st.randoms())
def test_the_order_between_channels_does_not_matter_in_the_end(steps: list[tuple[int, int]], random: object) -> None:
    def last(order: list[tuple[int, int]]) -> int:
        valve = WatermarkValve(range(CHANNELS))
        told = [valve.advance(*step) for step in order]
        emitted = [mark for mark in told if mark is not None]
        assert emitted == sorted(set(emitted)), "only forwards"
        return valve.watermark

    shuffled = list(steps)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert last(steps) == last(shuffled)
