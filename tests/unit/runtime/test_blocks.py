"""Blocks: encoding, decoding, and the cutting of a channel's elements into blocks."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.runtime.batch import NO_TIMESTAMP, Batch
from flintstream.runtime.block import (
    MAX_BLOCK_BYTES,
    BlockAssembler,
    ChannelBuffer,
    EndOfInput,
    Idleness,
    Watermark,
    decode_block,
    encode_block,
    fragments_of,
)
from flintstream.runtime.faults import UserCodeError


def elements(blocks: list[bytes]) -> list[Any]:
    """Records (value, timestamp, key) and control elements of all blocks, in order."""
    found: list[Any] = []
    for data in blocks:
        batch, controls = decode_block(data)
        records = [
            (
                value,
                None if batch.timestamps is None else batch.timestamps[index],
                None if batch.keys is None else batch.keys[index],
            )
            for index, value in enumerate(batch.values)
        ]
        start = 0
        for place, element in controls or []:
            found += records[start:place]
            found.append(element)
            start = place
        found += records[start:]
    return found


def put_together(received: list[bytes]) -> list[Any]:
    """The blocks that a channel's receiver sees."""
    assembler = BlockAssembler()
    return [block for data in received if (block := assembler.add(0, data)) is not None]


def values_of(blocks: list[bytes]) -> list[Any]:
    return [value for data in blocks for value in decode_block(data)[0].values]


class TestEncoding:
    def test_columns_and_controls_come_back(self) -> None:
        batch = Batch(["a", None], [5, NO_TIMESTAMP], [1, (2, "k")])
        controls = [(0, Idleness(False)), (1, Watermark(7)), (2, EndOfInput())]
        decoded, placed = decode_block(encode_block(batch, controls))
        assert (decoded.values, decoded.timestamps, decoded.keys) == (
            batch.values,
            batch.timestamps,
            batch.keys,
        )
        assert placed == controls
        assert [type(element) for _, element in placed or []] == [Idleness, Watermark, EndOfInput]

    def test_what_is_absent_stays_absent(self) -> None:
        decoded, placed = decode_block(encode_block(Batch([1]), []))
        assert (decoded.timestamps, decoded.keys, placed) == (None, None, None)

    def test_a_memoryview_is_decoded_as_it_is(self) -> None:
        data = b"head" + encode_block(Batch([1, 2]))
        assert decode_block(memoryview(data)[4:])[0].values == [1, 2]

    @pytest.mark.parametrize(
        "between",
        [(2, "text"), "text", [1, [2]], None, 1 << 70, lambda: 3],
        ids=["pair", "text", "list", "none", "large", "local"],
    )
    def test_numbers_at_both_ends_say_nothing_of_what_is_between(self, between: Any) -> None:
        batch, _ = decode_block(encode_block(Batch([1, between, 2.5], None, [1, between, 2])))
        if callable(between):
            assert batch.values[1]() == batch.keys[1]() == 3  # type: ignore[index]
        else:
            assert batch.values == [1, between, 2.5]
            assert batch.keys == [1, between, 2]

    def test_an_object_that_contains_itself_between_numbers(self) -> None:
        loop: list[Any] = []
        loop.append(loop)
        values = decode_block(encode_block(Batch([1, loop, 2])))[0].values
        assert values[1][0] is values[1]

    def test_instances_of_local_classes(self) -> None:
        class Local:
            def __init__(self, number: int) -> None:
                self.number = number

        decoded, _ = decode_block(encode_block(Batch([Local(1), Local(2)])))
        assert [value.number for value in decoded.values] == [1, 2]
        assert all(type(value) is Local for value in decoded.values), "one class on both sides of a process"

    def test_local_functions(self) -> None:
        decoded, _ = decode_block(encode_block(Batch([lambda x: x + 1])))
        assert decoded.values[0](1) == 2

    def test_what_nothing_can_pickle_is_an_error(self) -> None:
        with pytest.raises(TypeError, match="lock"):
            encode_block(Batch([threading.Lock()]))


class TestChannelBuffer:
    def test_nothing_in_nothing_out(self) -> None:
        blocks: list[bytes] = []
        buffer = ChannelBuffer(blocks.append, keyed=False)
        buffer.flush()
        assert blocks == []

    def test_records_stay_in_order_and_are_cut(self) -> None:
        blocks: list[bytes] = []
        buffer = ChannelBuffer(blocks.append, keyed=False)
        for start in range(0, 100_000, 1000):
            buffer.extend(Batch(list(range(start, start + 1000))))
        buffer.flush()
        assert values_of(blocks) == list(range(100_000))
        assert 5 < len(blocks) < 50
        assert buffer.records == 100_000

    def test_blocks_stay_below_the_limit(self) -> None:
        blocks: list[bytes] = []
        buffer = ChannelBuffer(blocks.append, keyed=False)
        # 4000 small records make the buffer expect small ones; then they are 1 kB each.
        values: list[Any] = [*range(20_000), *(f"{i:01000d}" for i in range(9000))]
        for start in range(0, len(values), 3000):
            buffer.extend(Batch(values[start : start + 3000]))
        buffer.flush()
        assert values_of(blocks) == values
        assert max(map(len, blocks)) <= MAX_BLOCK_BYTES

    def test_later_blocks_are_near_half_the_limit(self) -> None:
        blocks: list[bytes] = []
        buffer = ChannelBuffer(blocks.append, keyed=False)
        for i in range(8000):
            buffer.extend(Batch([f"{i:0500d}"]))
        assert 400_000 < len(blocks[-1]) < 600_000

    def test_a_single_huge_record_goes_alone(self) -> None:
        blocks: list[bytes] = []
        buffer = ChannelBuffer(blocks.append, keyed=False)
        huge = b"x" * (2 * MAX_BLOCK_BYTES)
        buffer.extend(Batch([1, 2, huge, 3]))
        buffer.control(Watermark(9))
        buffer.flush()
        whole = put_together(blocks)
        assert values_of(whole) == [1, 2, huge, 3]
        over = [data for data in whole if len(data) > MAX_BLOCK_BYTES]
        assert [len(decode_block(data)[0]) for data in over] == [1]
        assert elements(whole)[-1] == Watermark(9)

    def test_a_huge_record_travels_in_fragments(self) -> None:
        blocks: list[bytes] = []
        buffer = ChannelBuffer(blocks.append, keyed=False)
        buffer.extend(Batch([b"x" * (5 * MAX_BLOCK_BYTES)]))
        buffer.flush()
        assert len(blocks) == 6
        assert max(map(len, blocks)) == MAX_BLOCK_BYTES + 1

    @pytest.mark.parametrize("size", [1, 10, MAX_BLOCK_BYTES, MAX_BLOCK_BYTES + 1, 2 * MAX_BLOCK_BYTES])
    def test_fragments_make_the_block_again(self, size: int) -> None:
        block = b"\x80" + bytes(size - 1)
        assert put_together(list(fragments_of(block))) == [block]

    def test_fragments_of_several_channels_may_mix(self) -> None:
        blocks = {channel: encode_block(Batch([bytes([channel]) * (3 * MAX_BLOCK_BYTES)])) for channel in range(3)}
        assembler = BlockAssembler()
        whole = {}
        for channel, part in sorted(
            ((c, p) for c, block in blocks.items() for p in enumerate(fragments_of(block))), key=lambda e: e[1][0]
        ):
            found = assembler.add(channel, memoryview(part[1]))
            if found is not None:
                whole[channel] = found
        assert whole == blocks

    def test_small_records_after_a_huge_one_share_blocks_again(self) -> None:
        blocks: list[bytes] = []
        buffer = ChannelBuffer(blocks.append, keyed=False)
        buffer.extend(Batch([b"x" * (2 * MAX_BLOCK_BYTES)]))
        buffer.flush()
        del blocks[:]
        for i in range(20_000):
            buffer.extend(Batch([i]))
        buffer.flush()
        assert len(blocks) < 40

    def test_controls_keep_their_places_when_a_block_is_halved(self) -> None:
        blocks: list[bytes] = []
        buffer = ChannelBuffer(blocks.append, keyed=False)
        expected: list[Any] = []
        for i in range(8):
            buffer.control(Watermark(i))
            buffer.values.append(value := bytes([i]) * 300_000)
            expected += [Watermark(i), (value, None, None)]
        buffer.control(EndOfInput())
        buffer.flush()
        assert len(blocks) > 2
        assert elements(blocks) == [*expected, EndOfInput()]

    def test_controls_without_records_make_a_block(self) -> None:
        blocks: list[bytes] = []
        buffer = ChannelBuffer(blocks.append, keyed=True)
        buffer.control(Watermark(1))
        buffer.flush()
        buffer.flush()
        assert [elements([data]) for data in blocks] == [[Watermark(1)]]

    def test_a_block_never_mixes_records_with_and_without_timestamps(self) -> None:
        blocks: list[bytes] = []
        buffer = ChannelBuffer(blocks.append, keyed=False)
        buffer.extend(Batch([1]))
        buffer.control(Watermark(3))
        buffer.extend(Batch([2], [10]))
        buffer.extend(Batch([3]))
        buffer.flush()
        assert elements(blocks) == [(1, None, None), Watermark(3), (2, 10, None), (3, None, None)]
        assert len(blocks) == 3

    @pytest.mark.parametrize("timestamp", [2**63, -(2**70)])
    def test_a_timestamp_beyond_64_bits_is_named_with_its_record(self, timestamp: int) -> None:
        buffer = ChannelBuffer([].append, keyed=False)
        buffer.place = ("assign", 1)
        buffer.extend(Batch(["early", "odd", "late"], [1, timestamp, 2]))
        with pytest.raises(UserCodeError) as raised:
            buffer.flush()
        fault = raised.value.fault
        assert (fault.operator, fault.subtask, fault.record) == ("assign", 1, "'odd'")
        assert f"the record has the timestamp {timestamp}" in fault.summary and "64 bits" in fault.summary

    @given(
        st.lists(
            st.one_of(
                st.lists(st.tuples(st.binary(max_size=3), st.integers(0, 9)), max_size=30).map(lambda r: ("timed", r)),
                st.lists(st.binary(max_size=3), max_size=30).map(lambda r: ("plain", r)),
                st.integers(0, 9).map(lambda t: ("mark", t)),
                st.just(("flush", None)),
            ),
            max_size=30,
        ),
        st.integers(1, 20),
    )
    def test_whatever_the_cutting_the_elements_are_the_same(self, steps: list[Any], limit: int) -> None:
        blocks: list[bytes] = []
        buffer = ChannelBuffer(blocks.append, keyed=True)
        buffer._limit = limit
        expected: list[Any] = []
        for kind, content in steps:
            if kind == "timed":
                values, times = [v for v, _ in content], [t for _, t in content]
                buffer.extend(Batch(values, times, values))
                expected += [(v, t, v) for v, t in content]
            elif kind == "plain":
                buffer.extend(Batch(content, None, content))
                expected += [(v, None, v) for v in content]
            elif kind == "mark":
                buffer.control(Watermark(content))
                expected.append(Watermark(content))
            else:
                buffer.flush()
        buffer.flush()
        assert elements(blocks) == expected


def test_a_record_keeps_what_it_holds_twice_whatever_the_others_are() -> None:
    """Records at the ends of a block tell nothing about those between them."""
    shared = ["a"]
    values = [1, {"one": shared, "two": shared}, 2]
    batch, _ = decode_block(encode_block(Batch(values)))
    assert batch.values == values
    assert batch.values[1]["one"] is batch.values[1]["two"]
