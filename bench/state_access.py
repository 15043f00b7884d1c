"""state_access: what one call of a keyed state costs, in the slot and nothing around it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from bench.functions import KEYS, MANY_KEYS, STRIDE
from bench.report import Result, Row
from flintstream.common import Time, Types
from flintstream.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from flintstream.runtime.services import system_clock
from flintstream.runtime.state.heap import HeapKeyedStateBackend

MOST_MICROSECONDS = 0.3
CALLS = 200_000


def run(quick: bool) -> Result:
    """Reads and writes over keys in no order; the cost of the loop itself is taken off."""
    rows = []
    for keys in (KEYS, MANY_KEYS):
        backend = HeapKeyedStateBackend("bench", 128, system_clock)
        value = backend.value_state(ValueStateDescriptor("value", Types.LONG()))
        for key in range(keys):
            backend.current_key = key
            value.update(key)
        order = [number * STRIDE % keys for number in range(CALLS)]
        repeat = 3 if quick else 15
        empty = _micros(backend, order, lambda: None, repeat)
        for what, call in (("value()", value.value), ("update(1)", partial(value.update, 1))):
            cost = _micros(backend, order, call, repeat) - empty
            rows.append(Row(f"ValueState.{what}, {keys:,} keys", cost, "µs", most=MOST_MICROSECONDS))
        if keys == KEYS:
            rows += _other_states(backend, order, empty, repeat)
    return Result("state_access", "One call of a keyed state on the heap", rows)


def _other_states(backend: HeapKeyedStateBackend, order: list[int], empty: float, repeat: int) -> list[Row]:
    entries = backend.map_state(MapStateDescriptor("map", Types.LONG(), Types.LONG()))
    elements = backend.list_state(ListStateDescriptor("list", Types.LONG()))
    expiring = ValueStateDescriptor("expiring", Types.LONG())
    expiring.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
    living = backend.value_state(expiring)
    for key in range(KEYS):
        backend.current_key = key
        entries.put(1, 1)
        elements.add(1)
        living.update(1)
    calls: tuple[tuple[str, Callable[[], Any]], ...] = (
        ("MapState.get(1)", lambda: entries.get(1)),
        ("MapState.put(1, 1)", lambda: entries.put(1, 1)),
        ("ListState.get()", elements.get),
        ("ValueState.value() with a time to live", living.value),
    )
    return [Row(f"{what}, {KEYS:,} keys", _micros(backend, order, call, repeat) - empty, "µs") for what, call in calls]


def _micros(backend: HeapKeyedStateBackend, order: list[int], call: Callable[[], Any], repeat: int) -> float:
    """The median of the time a key, over runs of the same loop."""
    times = []
    for _ in range(repeat):
        started = time.perf_counter()
        for key in order:
            backend.current_key = key
            call()
        times.append(time.perf_counter() - started)
    return statistics.median(times) / len(order) * 1e6
