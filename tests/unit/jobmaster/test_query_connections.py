"""The connections for queries: the driver's side, and that of a slot, which reads them at safe points only."""

from __future__ import annotations

import os
import selectors
import tempfile
import threading
import time

import pytest
from tests.waiting import ENOUGH_SECONDS, wait_until

from flintstream.jobmaster.query_connections import QueryConnections
from flintstream.runtime.slot import connections as connections_module
from flintstream.runtime.slot.handshake import ConnectionListener, Credentials, SlotAccess
from flintstream.runtime.slot.messages import QueryStates
from flintstream.runtime.slot.protocol import AskStates
from flintstream.runtime.slot.queries import StateQueries
from flintstream.spark.slots import SlotError

LARGE = QueryStates((("op", 0, "counts", "x" * (32 << 20), "pickled"),))
"""More than the buffers of a connection hold."""
QUERY = QueryStates((("op", 0, "counts", 1, "pickled"),))


class PlayedSlot:
    """A slot whose safe points the test chooses."""

    def __init__(self, address):
        self.queries = StateQueries(lambda reply: None)
        self.connections = []
        self.selector = selectors.DefaultSelector()
        self.listener = ConnectionListener(address, Credentials(b"key"), self.take)
        threading.Thread(target=self.listener.serve, daemon=True).start()

    def take(self, connection):
        assert connection.recv() == AskStates(3)
        self.connections.append(connection)
        self.queries.connect(connection, self.selector)

    def answer(self):
        self.queries.look()
        self.queries.answer()


@pytest.fixture
def slots():
    with tempfile.TemporaryDirectory(prefix="fq-") as directory:
        slots = [PlayedSlot(os.path.join(directory, str(number))) for number in range(2)]
        yield slots
        for slot in slots:
            slot.listener.close()
            slot.selector.close()
            for connection in slot.connections:
                connection.close()


@pytest.fixture
def connections(slots):
    access = SlotAccess(tuple(slot.listener.address for slot in slots), Credentials(b"key"), ENOUGH_SECONDS)
    connections = QueryConnections(access, 3)
    wait_until(lambda: all(slot.connections for slot in slots), what="the connections")
    yield connections
    connections.close()


def test_a_query_is_read_and_answered_at_the_next_safe_point(slots, connections):
    asked = [connections.send(slot, QUERY) for slot in (1, 1, 0)]
    assert not any(future.done() for future in asked)

    def answered():
        slots[1].answer()
        return asked[0].done() and asked[1].done()

    wait_until(answered, what="the answers of a slot")
    assert asked[0].result()[0][0] == "not-available"  # It has no operators.
    assert not asked[2].done()


def test_a_slot_that_has_ended_fails_its_queries_and_no_others(slots, connections):
    lost, other = connections.send(0, QUERY), connections.send(1, QUERY)
    slots[0].listener.close()
    slots[0].connections.pop().close()
    with pytest.raises(SlotError, match="slot 0"):
        lost.result(ENOUGH_SECONDS)
    with pytest.raises(SlotError, match="slot 0"):
        connections.send(0, QUERY).result(ENOUGH_SECONDS)
    wait_until(lambda: slots[1].answer() or other.done(), what="the answer of the other slot")
    assert other.exception() is None


def test_a_slot_that_sends_what_cannot_be_read_is_lost_and_no_other(slots, connections):
    lost, other = connections.send(0, QUERY), connections.send(1, QUERY)
    slots[0].connections[0].send_bytes(b"\x80\x05garbage")
    with pytest.raises(SlotError, match="slot 0 has sent what cannot be read"):
        lost.result(ENOUGH_SECONDS)
    wait_until(lambda: slots[1].answer() or other.done(), what="the answer of the other slot")
    assert other.exception() is None


def test_the_end_of_an_attempt(slots, connections):
    pending = connections.send(0, QUERY)
    connections.close()
    with pytest.raises(SlotError, match="the attempt has ended"):
        pending.result(ENOUGH_SECONDS)
    wait_until(lambda: slots[0].answer() or not slots[0].selector.get_map(), what="the end of the connection")


def test_a_slot_that_does_not_read_for_long_is_asked_all_the_same(monkeypatch):
    monkeypatch.setattr(connections_module, "_SILENCE_MILLISECONDS", 200)
    slot = PlayedSlot(("127.0.0.1", 0))
    connections = QueryConnections(SlotAccess((slot.listener.address,), Credentials(b"key"), ENOUGH_SECONDS), 3)
    try:
        wait_until(lambda: slot.connections, what="the connection")
        asked = connections.send(0, LARGE)
        time.sleep(2)  # Its function is busy.
        wait_until(lambda: slot.answer() or asked.done(), what="the answer")
        assert asked.exception() is None
    finally:
        connections.close()
        slot.listener.close()
        slot.selector.close()
        for connection in slot.connections:
            connection.close()


def test_small_and_large_requests_of_many_threads_keep_apart(slots, connections):
    """Some are sent by the thread that asks, others by that of the outbox."""
    futures = []
    lock = threading.Lock()

    def ask():
        for n in range(50):
            size = 100_000 if n % 10 == 9 else 1
            queries = tuple(("op", 0, "counts", "x" * size, "pickled") for _ in range(n % 3 + 1))
            future = connections.send(n % 2, QueryStates(queries))
            with lock:
                futures.append((len(queries), future))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()

    def answered():
        slots[0].answer()
        slots[1].answer()
        return len(futures) == 200 and all(future.done() for _, future in futures)

    wait_until(answered, what="all answers")
    for thread in threads:
        thread.join(ENOUGH_SECONDS)
    assert all(len(future.result()) == count for count, future in futures)


def test_a_slot_that_ends_with_requests_on_their_way(slots, connections):
    """One was sent at once, one waits in the outbox, and one would block there until the slot reads."""
    lost = [connections.send(0, message) for message in (QUERY, QUERY, LARGE, QUERY)]
    other = connections.send(1, QUERY)
    slots[0].listener.close()
    slots[0].connections.pop().close()
    for future in lost:
        with pytest.raises(SlotError, match="slot 0"):
            future.result(ENOUGH_SECONDS)
    wait_until(lambda: slots[1].answer() or other.done(), what="the answer of the other slot")
    assert len(other.result()) == 1


def test_a_slot_that_ends_within_a_reply(slots, connections):
    lost = connections.send(0, QUERY)
    taken = slots[0].connections.pop()
    os.write(taken.fileno(), b"\0\0\1\0half of a reply")
    slots[0].listener.close()
    taken.close()
    with pytest.raises(SlotError, match="slot 0 has ended"):
        lost.result(ENOUGH_SECONDS)
    assert isinstance(connections.send(0, QUERY).exception(ENOUGH_SECONDS), SlotError)


def test_a_key_that_cannot_be_sent_fails_alone(slots, connections):
    bad = QueryStates((("op", 0, "counts", threading.Lock(), "pickled"),))
    with pytest.raises(SlotError, match="cannot be reached: cannot pickle"):
        connections.send(0, bad).result(ENOUGH_SECONDS)
    good = connections.send(0, QUERY)
    wait_until(lambda: slots[0].answer() or good.done(), what="the answer")
    assert good.exception() is None


def test_where_a_slot_cannot_be_reached_no_connection_is_left_to_the_others(slots):
    nobody = slots[0].listener.address + "-nobody"
    access = SlotAccess((slots[0].listener.address, nobody), Credentials(b"key"), ENOUGH_SECONDS)
    before = threading.active_count()
    with pytest.raises(OSError):
        QueryConnections(access, 3)
    wait_until(lambda: slots[0].connections, what="the connection to the first slot")
    wait_until(lambda: slots[0].answer() or not slots[0].selector.get_map(), what="its end")
    wait_until(lambda: threading.active_count() <= before, what="the end of its threads")
