"""The thread that works on a storage: what hangs there holds up nobody."""

from __future__ import annotations

import threading

from flintstream.runtime.checkpoint.writer import StorageWriter

ENOUGH_SECONDS = 60.0


def test_one_thing_is_done_after_the_other_and_no_thread_is_left():
    writer, done = StorageWriter("storage under test"), list[int]()
    for number in range(100):
        writer.submit(done.append, number)
    assert StorageWriter.wait_idle([writer], ENOUGH_SECONDS)
    assert done == list(range(100))
    for thread in threading.enumerate():
        if thread.name == "storage under test":
            thread.join(ENOUGH_SECONDS)
            assert not thread.is_alive()
    assert writer.submit(lambda: "again").result(ENOUGH_SECONDS) == "again"


def test_a_failure_is_told_to_whoever_waits_and_the_next_thing_is_done():
    writer = StorageWriter("storage")
    failed = writer.submit(lambda: 1 / 0)
    assert writer.submit(lambda: 2).result(ENOUGH_SECONDS) == 2
    assert isinstance(failed.exception(0), ZeroDivisionError)


def test_what_hangs_is_abandoned_and_what_waits_behind_it_is_dropped():
    writer, may_go_on, begun = StorageWriter("storage"), threading.Event(), threading.Event()
    hanging = writer.submit(lambda: (begun.set(), may_go_on.wait(ENOUGH_SECONDS)))
    behind = writer.submit(lambda: "never")
    assert begun.wait(ENOUGH_SECONDS)
    assert not StorageWriter.wait_idle([writer], 0.01)
    writer.abandon()
    assert behind.cancelled()
    assert writer.submit(lambda: "on another thread").result(ENOUGH_SECONDS) == "on another thread"
    may_go_on.set()
    hanging.result(ENOUGH_SECONDS)


def test_abandoning_a_storage_that_answers_at_this_very_moment_does_not_wait():
    for _ in range(300):
        writer, may_go_on = StorageWriter("storage"), threading.Event()
        writer.submit(may_go_on.wait, ENOUGH_SECONDS)
        writer.submit(lambda: None)
        ended = threading.Thread(target=writer.abandon, daemon=True)
        threading.Thread(target=may_go_on.set, daemon=True).start()
        ended.start()
        ended.join(ENOUGH_SECONDS)
        assert not ended.is_alive()
