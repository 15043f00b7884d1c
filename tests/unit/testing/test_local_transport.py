"""LocalTransport: what goes from slot to slot, and in which order. The slots write down what they are fed."""

from __future__ import annotations

from typing import Any

import pytest

from flintstream.runtime.slot.protocol import Hello
from flintstream.testing.local_transport import LocalTransport

JOB = "0" * 32


class Recorder:
    """A slot that sends what it is told to at each level."""

    def __init__(self, number: int, sends: dict[int, list[tuple[Any, ...]]]) -> None:
        self.number = number
        self.sends = sends
        self.log: list[Any] = []

    def enter(self, hello: Hello, outlet: Any) -> Recorder:
        assert hello == Hello(JOB, 0, 5, hello.level, self.number)
        self.level, self.outlet = hello.level, outlet
        return self

    def receive(self, vertex: int, input_index: int, channel: int, block: bytes) -> None:
        self.log.append((vertex, input_index, channel, block))

    def mark_all(self) -> None:
        self.log.append(f"end of level {self.level}")
        for block in self.sends.get(self.level, []):
            self.outlet(*block)


def transport(*sends: dict[int, list[tuple[Any, ...]]], levels: int = 3) -> tuple[LocalTransport, list[Recorder]]:
    slots: Any = [Recorder(number, each) for number, each in enumerate(sends)]
    return LocalTransport(JOB, [frozenset({level}) for level in range(levels)], slots), slots


def test_the_channels_of_a_receiver_take_turns_and_each_stays_in_order():
    first = [(1, 1, 0, 10, number, b"first") for number in range(2)]
    second = [(1, 1, 0, 11, number, b"second") for number in range(2)]
    through, (_, receiver) = transport({0: first}, {0: second}, levels=2)
    through.run(5)
    assert receiver.log == [
        "end of level 0",
        (1, 0, 10, b"first"),
        (1, 0, 11, b"second"),
        (1, 0, 10, b"first"),
        (1, 0, 11, b"second"),
        "end of level 1",
    ]
    assert [block.block for block in through.sent] == [b"first"] * 2 + [b"second"] * 2


def test_a_block_for_a_later_level_waits_for_it():
    through, (slot,) = transport(
        {0: [(0, 2, 1, 10, 0, b"far"), (0, 1, 0, 20, 0, b"near")], 1: [(0, 2, 0, 30, 0, b"too")]}
    )
    through.run(5)
    assert slot.log == [
        "end of level 0",
        (1, 0, 20, b"near"),
        "end of level 1",
        (2, 0, 30, b"too"),
        (2, 1, 10, b"far"),
        "end of level 2",
    ]


def test_one_that_was_cancelled_runs_no_epoch():
    through, (slot,) = transport({})
    through.cancel()
    with pytest.raises(RuntimeError, match="epoch 5 was cancelled"):
        through.run(5)
    assert slot.log == []
