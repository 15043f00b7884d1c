"""TLS between the sides of a job: nobody on the way reads along, or takes the other side's place."""

from __future__ import annotations

import os
import pickle
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue

import pytest
from tests.forwarder import Forwarder

from flintstream.runtime.slot.connections import JobConnection, received
from flintstream.runtime.slot.handshake import ConnectionListener, Credentials, connect
from flintstream.runtime.slot.tls import TlsConnection
from flintstream.spark.encryption import new_credentials

MARK = b"nobody should read this"
LONG = 30.0


@pytest.fixture(scope="module")
def credentials() -> Credentials:
    return new_credentials(encrypted=True)


class Listening:
    def __init__(self, credentials: Credentials, seconds: float = LONG) -> None:
        self.taken: SimpleQueue[Connection] = SimpleQueue()
        self.listener = ConnectionListener(("127.0.0.1", 0), credentials, self.taken.put, seconds)
        self.thread = threading.Thread(target=self.listener.serve, daemon=True)
        self.thread.start()
        assert not isinstance(self.listener.address, str)
        self.forwarder = Forwarder(self.listener.address)

    def close(self) -> None:
        self.listener.close()
        self.thread.join(LONG)
        self.forwarder.close()


@pytest.fixture
def listening(credentials: Credentials) -> Iterator[Listening]:
    listening = Listening(credentials)
    yield listening
    listening.close()


@pytest.fixture
def pair(listening: Listening, credentials: Credentials) -> Iterator[tuple[Connection, Connection]]:
    with connect(listening.forwarder.address, credentials.for_tasks) as near, listening.taken.get(timeout=LONG) as far:
        yield near, far


def exchange(near: Connection, far: Connection) -> None:
    near.send({"mark": MARK})
    assert far.recv() == {"mark": MARK}
    far.send_bytes(MARK * 100)
    assert near.recv_bytes() == MARK * 100


def test_nobody_on_the_way_reads_along(pair, listening):
    exchange(*pair)
    assert len(listening.forwarder.seen) > 2000
    assert MARK not in listening.forwarder.seen


def test_without_a_certificate_they_would():
    """The forwarder can see: the test above could fail."""
    plain = new_credentials()
    listening = Listening(plain)
    with connect(listening.forwarder.address, plain) as near, listening.taken.get(timeout=LONG) as far:
        exchange(near, far)
    assert MARK in listening.forwarder.seen
    listening.close()


def test_large_messages_go_both_ways_at_once(pair):
    near, far = pair
    block = os.urandom(5_000_001)
    got: dict[str, bytes] = {}
    threads = [
        threading.Thread(target=near.send_bytes, args=(block,)),
        threading.Thread(target=far.send_bytes, args=(block[::-1],)),
        threading.Thread(target=lambda: got.update(near=near.recv_bytes())),
        threading.Thread(target=lambda: got.update(far=far.recv_bytes())),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert got == {"near": block[::-1], "far": block}


def test_a_thread_that_waits_for_a_message_keeps_nobody_from_sending(pair):
    near, far = pair
    answers: SimpleQueue[object] = SimpleQueue()
    threading.Thread(target=lambda: answers.put(near.recv()), daemon=True).start()
    near.send("question")
    assert far.recv() == "question"
    far.send("answer")
    assert answers.get(timeout=LONG) == "answer"


def test_messages_that_came_together_are_all_found(pair):
    """Waiting for the descriptor finds only what has not been read from it."""
    near, far = pair
    for number in range(200):
        near.send(number)
    found = []
    while len(found) < 200:
        assert wait([far], LONG)
        found += received(far)
    assert found == list(range(200))


def test_a_message_that_came_with_another_is_found_by_a_look_too(pair):
    near, far = pair
    assert not far.poll()
    near._send(struct.pack("!i5si6s", 5, b"first", 6, b"second"))  # Two messages in one piece.
    assert far.poll(LONG) and far.recv_bytes() == b"first"
    assert far.poll(LONG) and far.recv_bytes() == b"second"
    assert not far.poll()


def test_a_frame_of_which_half_has_come_is_not_waited_for(pair, listening):
    near, far = pair
    assert far.next_frame() is None and not far.in_mid_frame
    for size in (10, 100_000):
        frame = os.urandom(size)
        listening.forwarder.passing.clear()
        near.send_bytes(frame)
        assert wait([far], LONG)
        assert far.next_frame() is None and far.in_mid_frame
        listening.forwarder.passing.set()
        assert frame_of(far) == frame
        assert not far.in_mid_frame


def frame_of(connection: JobConnection) -> bytes:
    while (frame := connection.next_frame()) is None:
        assert wait([connection], LONG)
    return frame


def test_the_end_is_noticed_between_two_frames_and_within_one(pair, listening):
    near, far = pair
    near.send_bytes(b"one")
    assert frame_of(far) == b"one"
    listening.forwarder.passing.clear()
    near.send_bytes(b"two")
    assert wait([far], LONG) and far.next_frame() is None
    near.close()
    listening.forwarder.close()
    listening.forwarder.passing.set()
    assert frame_of(far) == b"two"
    with pytest.raises(EOFError):
        frame_of(far)


def test_a_peer_that_hangs_up_is_noticed(pair):
    near, far = pair
    near.close()
    with pytest.raises((EOFError, OSError)):
        far.recv()


def test_another_certificate_is_refused_although_the_key_is_right(listening, credentials):
    """Somebody on the way who shows a certificate of their own."""
    other = replace(new_credentials(encrypted=True), authkey=credentials.authkey)
    with pytest.raises(ssl.SSLCertVerificationError):
        connect(listening.forwarder.address, other.for_tasks)
    assert listening.taken.empty()


def test_another_key_is_refused_although_the_certificate_is_right(listening, credentials):
    from multiprocessing import AuthenticationError

    with pytest.raises(AuthenticationError):
        connect(listening.forwarder.address, replace(credentials.for_tasks, authkey=b"guessed"))
    assert listening.taken.empty()


def test_whoever_does_not_encrypt_is_refused(credentials):
    listening = Listening(credentials, seconds=0.2)
    with pytest.raises(ConnectionError, match="hung up in the handshake"):
        connect(listening.listener.address, Credentials(credentials.authkey))
    assert listening.taken.empty()
    listening.close()


def test_old_versions_of_the_protocol_are_refused(listening, credentials):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(cadata=credentials.certificate)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection(listening.listener.address, LONG) as plain, pytest.raises((ssl.SSLError, OSError)):
        context.wrap_socket(plain)


def test_a_unix_socket_needs_no_encryption(tmp_path, credentials):
    taken: SimpleQueue[Connection] = SimpleQueue()
    listener = ConnectionListener(str(tmp_path / "s"), credentials, taken.put)
    thread = threading.Thread(target=listener.serve, daemon=True)
    thread.start()
    with connect(str(tmp_path / "s"), credentials) as near, taken.get(timeout=LONG) as far:
        assert not isinstance(near, TlsConnection) and not isinstance(far, TlsConnection)
    listener.close()
    thread.join(LONG)


def test_credentials_travel_to_slots(credentials):
    assert pickle.loads(pickle.dumps(credentials)) == credentials
    assert credentials.for_tasks.private_key is None
