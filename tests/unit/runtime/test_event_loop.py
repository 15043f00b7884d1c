"""The asyncio loop that the asynchronous operators of a slot share."""

from __future__ import annotations

import asyncio
import threading

import pytest

from flintstream.runtime.services import SlotServices


def test_it_runs_while_somebody_holds_it() -> None:
    shared = SlotServices().event_loop
    assert not shared.alive
    first = shared.acquire()
    assert shared.acquire() is first
    shared.release()
    assert shared.alive
    shared.release()
    assert not shared.alive
    assert first.is_closed()
    assert "event loop" not in [thread.name for thread in threading.enumerate()]


def test_it_can_be_started_again() -> None:
    shared = SlotServices().event_loop
    for _ in range(2):
        shared.acquire()
        assert shared.run(lambda: asyncio.sleep(0, "done")) == "done"
        shared.release()


def test_exceptions_come_back() -> None:
    async def fail() -> None:
        raise KeyError("a")

    shared = SlotServices().event_loop
    shared.acquire()
    try:
        with pytest.raises(KeyError, match="a"):
            shared.run(fail)
        with pytest.raises(TimeoutError, match="has not answered for 0.01 seconds"):
            shared.run(lambda: asyncio.sleep(60), 0.01)
    finally:
        shared.release()


def test_what_still_runs_is_cancelled_at_the_end() -> None:
    shared = SlotServices().event_loop
    loop = shared.acquire()
    waiting = asyncio.run_coroutine_threadsafe(asyncio.sleep(60), loop)
    shared.run(lambda: asyncio.sleep(0))
    shared.release()
    assert waiting.cancelled()


def test_one_that_has_ended_says_so() -> None:
    with pytest.raises(RuntimeError, match="the event loop has ended"):
        SlotServices().event_loop.run(lambda: asyncio.sleep(0))
