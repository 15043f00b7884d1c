"""Watermarks of channels, inputs and splits: the minimum rule, idleness, never backwards."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flintstream.runtime.batch import MAX_WATERMARK, MIN_WATERMARK
from flintstream.runtime.time.valve import CombinedWatermark, InputWatermarks, WatermarkValve

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
    assert valve.advance("a", 30) == 30, "b is behind what was let through: it must catch up before it counts"
    assert valve.advance("b", 25) is None
    assert valve.advance("b", 30) is None
    assert valve.advance("a", 40) is None, "now b holds it again"
    assert valve.advance("b", 35) == 35


def test_watermarks_of_an_idle_channel_are_ignored() -> None:
    valve = WatermarkValve(["a", "b"])
    valve.advance("a", 10)
    assert valve.set_idle("b", True) == 10
    assert valve.advance("b", 5) is None
    assert valve.advance("b", 50) is None
    assert valve.advance("a", 60) == 60


def test_the_end_of_one_channel_is_not_the_end_of_idle_ones() -> None:
    valve = WatermarkValve(["a", "b"])
    valve.advance("b", 3)
    valve.set_idle("b", True)
    assert valve.advance("a", MAX_WATERMARK) is None
    assert valve.set_idle("b", False) == 3
    assert valve.advance("b", 7) == 7
    assert valve.end("b") == MAX_WATERMARK


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


def test_a_part_added_later_holds_the_watermark_where_it_is() -> None:
    combined = CombinedWatermark()
    combined.add("a")
    assert combined.advance("a", 10) == 10
    combined.add("b")
    assert combined.advance("a", 20) is None
    assert combined.watermark == 10
    assert combined.advance("b", 15) == 15


def test_adding_a_known_part_changes_nothing() -> None:
    combined = CombinedWatermark(["a"])
    combined.advance("a", 10)
    combined.add("a")
    assert combined.advance("a", 11) == 11


def test_a_removed_part_leaves_no_trace() -> None:
    combined = CombinedWatermark(["a", "b"])
    combined.advance("a", 10)
    assert combined.remove("b") == 10
    assert combined.remove("a") is None
    assert combined.watermark == 10
    combined.add("c")
    assert combined.advance("c", 12) == 12


def test_a_split_that_was_idle_counts_again_at_once() -> None:
    combined = CombinedWatermark(["a", "b"])
    combined.advance("a", 10)
    assert combined.set_idle("b", True) == 10
    assert combined.set_idle("b", False) is None
    assert combined.advance("a", 20) is None
    assert combined.advance("b", 15) == 15


def test_when_all_splits_are_idle_the_watermark_stays() -> None:
    combined = CombinedWatermark(["a", "b"])
    combined.advance("a", 10)
    combined.advance("b", 5)
    combined.set_idle("a", True)
    assert combined.set_idle("b", True) is None
    assert combined.all_idle and combined.watermark == 5


def test_two_inputs_follow_the_slower_one() -> None:
    inputs = InputWatermarks([[0, 1], [2]])
    assert inputs.advance(0, 0, 10) is None
    assert inputs.advance(1, 2, 4) is None
    assert inputs.advance(0, 1, 6) == 4
    assert inputs.advance(1, 2, 9) == 6
    assert inputs.end(1, 2) is None, "the other input is still at 6"
    assert inputs.advance(0, 1, 20) == 10
    assert inputs.end(0, 0) == 20
    assert inputs.end(0, 1) == MAX_WATERMARK


def test_an_idle_input_does_not_hold_the_other_back() -> None:
    inputs = InputWatermarks([[0], [1]])
    inputs.advance(0, 0, 10)
    assert inputs.set_idle(1, 1, True) == 10
    assert not inputs.idle
    assert inputs.set_idle(0, 0, True) is None
    assert inputs.idle
    inputs.set_idle(0, 0, False)
    assert not inputs.idle
    assert inputs.end(0, 0) is None, "an idle input has not ended"
    assert inputs.idle
    assert inputs.end(1, 1) == MAX_WATERMARK


STEP = st.one_of(
    st.tuples(st.just("advance"), st.integers(0, CHANNELS - 1), st.integers(-20, 20)),
    st.tuples(st.just("idle"), st.integers(0, CHANNELS - 1), st.booleans()),
    st.tuples(st.just("end"), st.integers(0, CHANNELS - 1), st.none()),
)


@given(st.lists(STEP, max_size=60))
def test_any_interleaving_follows_the_minimum_rule(steps: list[tuple[str, int, int | bool | None]]) -> None:
    valve = WatermarkValve(range(CHANNELS))
    channels = [_Channel() for _ in range(CHANNELS)]
    combined = MIN_WATERMARK
    for kind, index, argument in steps:
        channel = channels[index]
        flushed = MIN_WATERMARK
        if kind == "advance":
            told = valve.advance(index, argument)  # type: ignore[arg-type]
            if not (channel.idle or channel.ended):
                channel.mark = max(channel.mark, argument)  # type: ignore[type-var,assignment]
                channel.behind = channel.behind and channel.mark < combined
        elif kind == "idle":
            told = valve.set_idle(index, bool(argument))
            if not channel.ended and channel.idle != bool(argument):
                channel.idle = bool(argument)
                channel.behind = not argument and channel.mark < combined
                left = [each for each in channels if not each.ended]
                if channel.idle and all(each.idle for each in left) and channel.mark == combined:
                    flushed = max(each.mark for each in left)
        else:
            told = valve.end(index)
            channel.ended, channel.idle, channel.behind = True, False, False
        counting = [each.mark for each in channels if not (each.ended or each.idle or each.behind)]
        least = MAX_WATERMARK if all(each.ended for each in channels) else min(counting, default=MIN_WATERMARK)
        least = max(least, flushed)
        assert told == (least if least > combined else None)
        combined = max(combined, least)
        assert valve.watermark == combined


class _Channel:
    """What a slow reading of the rule remembers of a channel."""

    def __init__(self) -> None:
        self.mark = MIN_WATERMARK
        self.idle = self.behind = self.ended = False


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
