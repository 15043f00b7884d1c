"""What sinks put aside for the driver: a reader sees each record once, whatever fails."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from flintstream.jobmaster import deliveries as module
from flintstream.jobmaster.deliveries import Deliveries
from flintstream.jobmaster.progress import Progress
from flintstream.runtime.operators.sinks import PRINT_SPOOL
from flintstream.runtime.slot.messages import FetchPages, Message, ReleaseSpool
from flintstream.runtime.slot.protocol import EpochReport

SPOOL = "collected"


class Slots:
    """Slots with pages in a spool; the first page comes along with the report if it is small, others two at a time."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, Message[Any]]] = []
        self.pages: list[list[bytes]] = []

    def call(self, slot: int, message: Message[Any]) -> Any:
        self.calls.append((slot, message))
        return self.pages[slot][message.first : message.first + 2] if isinstance(message, FetchPages) else None

    def reports(self, spool: str, *slots: list[list[Any]], along: bool = True) -> list[EpochReport]:
        self.pages = [[pickle.dumps(page) for page in pages] for pages in slots]
        return [
            EpochReport(
                frozenset(),
                [],
                {spool: len(pages)} if pages else {},
                {spool: pages[:1]} if pages and along else {},
                None,
                {},
                0,
            )
            for pages in self.pages
        ]


def deliveries(held_back: bool) -> Deliveries:
    return Deliveries(Progress("test", False), held_back, lambda: False)


def test_without_checkpoints_records_come_at_once_from_all_slots_and_pages():
    slots, made = Slots(), deliveries(held_back=False)
    made.take(1, slots.reports(SPOOL, [[1, 2]], [[3], [4]], []), slots, set())
    assert slots.calls == [(1, FetchPages(SPOOL, 1)), (1, ReleaseSpool(SPOOL))]
    made.end(None)
    assert list(made.collector(SPOOL)) == [1, 2, 3, 4]


def test_a_first_page_that_was_too_large_to_come_along_is_fetched():
    slots, made = Slots(), deliveries(held_back=False)
    made.take(1, slots.reports(SPOOL, [[1, 2]], along=False), slots, set())
    assert slots.calls == [(0, FetchPages(SPOOL, 0)), (0, ReleaseSpool(SPOOL))]
    made.end(None)
    assert list(made.collector(SPOOL)) == [1, 2]


def test_many_pages_are_fetched_with_few_calls():
    slots, made = Slots(), deliveries(held_back=False)
    made.take(1, slots.reports(SPOOL, [[n] for n in range(6)]), slots, set())
    assert slots.calls == [*((0, FetchPages(SPOOL, first)) for first in (1, 3, 5)), (0, ReleaseSpool(SPOOL))]
    made.end(None)
    assert list(made.collector(SPOOL)) == list(range(6))


def test_what_others_take_is_passed_over():
    slots, made = Slots(), deliveries(held_back=False)
    made.take(1, slots.reports(SPOOL, [[1]]), slots, {SPOOL})
    made.end(None)
    assert list(made.collector(SPOOL)) == []
    assert slots.calls == []


def test_with_checkpoints_records_wait_for_the_one_that_contains_them():
    slots, made = Slots(), deliveries(held_back=True)
    for epoch in (1, 2, 3):
        made.take(epoch, slots.reports(SPOOL, [[epoch]]), slots, set())
    assert made.collector(SPOOL).waiting == 0
    made.deliver_up_to(2)
    assert made.collector(SPOOL).waiting == 2
    made.deliver_up_to(2)
    # The attempt fails, and the third epoch comes again.
    made.forget()
    made.take(1, slots.reports(SPOOL, [[3]]), slots, set())
    made.deliver_up_to(1)
    made.end(None)
    assert list(made.collector(SPOOL)) == [1, 2, 3]


def test_much_that_waits_asks_for_a_checkpoint(monkeypatch):
    monkeypatch.setattr(module, "_MOST_HELD_BYTES", 1000)
    slots, made = Slots(), deliveries(held_back=True)
    made.take(1, slots.reports(SPOOL, [["x" * 600]]), slots, set())
    assert not made.hold_much
    made.take(2, slots.reports(SPOOL, [["x" * 600]]), slots, set())
    assert made.hold_much
    made.deliver_up_to(1)
    assert not made.hold_much


def test_printed_lines_wait_for_nothing(capsys):
    slots, made = Slots(), deliveries(held_back=True)
    made.take(1, slots.reports(PRINT_SPOOL, [["1> a", "1> b"]]), slots, set())
    assert capsys.readouterr().out == "1> a\n1> b\n"


def test_the_reason_of_a_failure_comes_behind_the_records():
    slots, made = Slots(), deliveries(held_back=False)
    made.take(1, slots.reports(SPOOL, [[1]]), slots, set())
    made.end(RuntimeError("the job has failed"))
    records = iter(made.collector(SPOOL))
    assert next(records) == 1
    with pytest.raises(RuntimeError, match="the job has failed"):
        next(records)


def test_a_slow_reader_holds_the_job_up_but_not_its_end():
    made = deliveries(held_back=False)
    collector = made.collector(SPOOL)
    for number in range(256):
        collector.put(pickle.dumps([number]), lambda: False)
    asked: list[bool] = []
    collector.put(pickle.dumps(["too much"]), lambda: asked.append(True) or True)
    assert asked == [True], "there was no room, and the job was about to end"
    made.end(None)
    assert list(collector) == list(range(256))
    collector.put(pickle.dumps(["room again"]), lambda: True)
    assert collector.waiting == 2
