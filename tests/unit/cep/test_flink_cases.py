"""Patterns and inputs made at random, and what Flink gave for them: the same matches and time-outs in the same order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.cep.flink_cases import CASES, Event, larger_first, pattern, shown, strategy

from flintstream.cep import MalformedPatternException, PatternProcessFunction, TimedOutPartialMatchHandler
from flintstream.cep.compiler import compile_pattern
from flintstream.common.output_tag import OutputTag
from flintstream.runtime.cep.operator import BUFFER_TABLE, NFA_TABLE, WAITING_TABLE, CepOperator
from flintstream.runtime.cep.spec import CepSpec
from flintstream.testing import OneInputOperatorHarness, UserCodeError

LATE, TIMED_OUT = OutputTag("late"), OutputTag("timed out")


class Record(PatternProcessFunction, TimedOutPartialMatchHandler):
    """Keeps what comes, in order: matches and time-outs of one key share a list."""

    def __init__(self, seen: list[Any]) -> None:
        self._seen = seen

    def process_match(self, match: Any, ctx: Any) -> None:
        self._seen.append(["m", shown(match), ctx.timestamp()])

    def process_timed_out_match(self, match: Any, ctx: Any) -> None:
        self._seen.append(["t", shown(match), ctx.timestamp()])


class Run:
    """A case in a harness, which may be restored from a checkpoint in the middle."""

    def __init__(self, case: dict[str, Any], state_backend: str) -> None:
        self.case = case
        self.seen: list[Any] = []
        self.late: list[int] = []
        self._backend = state_backend
        self._now = 0
        self._harness = self._make()
        self._harness.open()

    def _make(self) -> OneInputOperatorHarness:
        case = self.case
        automaton = compile_pattern(pattern(case["pattern"], strategy(case["skip"])))
        compare = larger_first if "comparator" in case else None
        event_time = "processing" not in case
        operator = CepOperator(CepSpec(automaton, Record(self.seen), True, event_time, compare, LATE.tag_id))
        options: Any = {"processing_time": self._now, "state_backend": self._backend}
        return OneInputOperatorHarness(operator, lambda event: 0, **options)

    def to_the_end(self, restore_at: int | None = None) -> None:
        numbers: Iterator[int] = iter(range(len(self.case["input"])))
        watermark = None
        for position, (kind, time, *event) in enumerate(self.case["input"]):
            if position == restore_at:
                self._restore(watermark)
            if kind == "e":
                found = Event(next(numbers), *event)
                self._harness.process_element(found, *([] if "processing" in self.case else [time]))
            elif kind == "w":
                watermark = time
                self._harness.process_watermark(time)
            else:
                self._now = time
                self._harness.set_processing_time(time)
        self.late += [event.number for event in self._harness.side_output(LATE)]

    def _restore(self, watermark: int | None) -> None:
        snapshot = self._harness.snapshot()
        self.late += [event.number for event in self._harness.side_output(LATE)]
        self._harness.close()
        self._harness = self._make()
        self._harness.restore(snapshot)
        self._harness.open()
        if watermark is not None:
            self._harness.process_watermark(watermark)

    def check_state(self) -> None:
        """Every stored event and node is one that a partial match refers to, as often as it is counted."""
        matches = self._harness.keyed_state(NFA_TABLE)
        buffers = self._harness.keyed_state(BUFFER_TABLE)
        assert set(matches) == set(buffers)
        for key, entry in matches.items():
            buffer = dict(buffers[key])
            counts = dict.fromkeys(buffer, 0)
            for partial in (*entry.partial, *entry.completed):
                counts[partial[2]] += 1
            for stored in buffer.values():
                if len(stored) == 4:
                    counts[stored[1]] += 1
                    if stored[2]:
                        counts[stored[2]] += 1
            assert counts == {each: stored[-1] for each, stored in buffer.items()}
            assert all(counts.values())
        if self.case["input"][-1] == ["w", 2**63 - 1]:
            assert not self._harness.keyed_state(WAITING_TABLE)

    def close(self) -> None:
        self._harness.close()


@pytest.mark.parametrize("state_backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("part", range(8))
def test_flink_gave_the_same(part: int, state_backend: str) -> None:
    # A database for each case is slow to open, so RocksDB gets a share of them.
    cases = [case for case in CASES if "refused" not in case][part :: 8 if state_backend == "hashmap" else 64]
    for number, case in enumerate(cases):
        for restore_at in (None, number % len(case["input"])):
            run = Run(case, state_backend)
            try:
                if "error" in case:
                    with pytest.raises(UserCodeError, match=case["error"]):
                        run.to_the_end(restore_at)
                    continue
                run.to_the_end(restore_at)
                assert (run.seen, run.late) == (case["out"], case["late"]), case
                run.check_state()
            finally:
                run.close()


@pytest.mark.parametrize("case", [case for case in CASES if "refused" in case], ids=lambda case: case["refused"][:30])
def test_flink_refused_the_same(case: dict[str, Any]) -> None:
    with pytest.raises(MalformedPatternException, match=case["refused"]):
        compile_pattern(pattern(case["pattern"], strategy(case["skip"])))
