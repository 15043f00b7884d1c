"""Snapshots of operators: what is restored and not asked for is not lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from flintstream.common import Time, Types
from flintstream.datastream import KeyedProcessFunction
from flintstream.datastream.state import ListStateDescriptor, StateTtlConfig, ValueStateDescriptor
from flintstream.testing import OneInputOperatorHarness

pytestmark = pytest.mark.usefixtures("state_backend")

COUNT = ValueStateDescriptor("count", Types.LONG())
SEEN = ListStateDescriptor("seen", Types.STRING())
SEEN.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())


class Both(KeyedProcessFunction):
    """Counts the records of a key and keeps them."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(COUNT)
        self.seen = runtime_context.get_list_state(SEEN)

    def process_element(self, value: str, ctx: Any) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        self.seen.add(value)
        yield self.count.value(), list(self.seen)


class Neither(KeyedProcessFunction):
    """Asks for no state."""

    def process_element(self, value: str, ctx: Any) -> Iterator[Any]:
        yield value


def first(value: str) -> str:
    return value[0]


def test_state_that_nobody_asks_for_is_kept_for_later() -> None:
    with OneInputOperatorHarness(Both(), first) as harness:
        harness.process_elements(["a1", "b1", "a2"])
        taken = harness.snapshot()
    between = OneInputOperatorHarness(Neither(), first)
    between.restore(taken)
    with between:
        between.process_element("a3")
        taken = between.snapshot()
    after = OneInputOperatorHarness(Both(), first)
    after.restore(taken)
    with after:
        after.process_elements(["a4", "b2"])
        assert after.output == [(3, ["a1", "a2", "a4"]), (2, ["b1", "b2"])]


def test_a_restored_table_of_the_engine_is_written_once() -> None:
    with OneInputOperatorHarness(lambda left, right: left + right, first, kind="reduce") as harness:
        harness.process_elements(["a1", "a2"])
        taken = harness.snapshot()
    after = OneInputOperatorHarness(lambda left, right: left + right, first, kind="reduce")
    after.restore(taken)
    with after:
        state = after.operator.context.keyed_state
        assert state is not None
        names = [info.name for info, _ in state.entries()]
        assert len(names) == len(set(names)) == 1
        after.process_element("a3")
        assert after.output == ["a1a2a3"]
