"""Connections: those who do not know the key are bounded in time and number, and keep nobody out."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from flintstream.runtime.slot import handshake
from flintstream.runtime.slot.connections import Address, hang_up, keep_alive, limit, notice_silence
from flintstream.runtime.slot.handshake import ConnectionListener, Credentials, connect

LONG = 30.0
CREDENTIALS = Credentials(b"k" * 32)


class Listening:
    """A listener with its thread, and what it has let in."""

    def __init__(self, address: Address, credentials: Credentials = CREDENTIALS, **limits: Any) -> None:
        self.taken: SimpleQueue[Connection] = SimpleQueue()
        self.listener = ConnectionListener(address, credentials, self.taken.put, **limits)
        self.address = self.listener.address
        self.thread = threading.Thread(target=self.listener.serve, daemon=True)
        self.thread.start()

    def silent(self) -> socket.socket:
        """Somebody who connects and says nothing."""
        peer = socket.socket(socket.AF_UNIX if isinstance(self.address, str) else socket.AF_INET)
        peer.settimeout(LONG)
        peer.connect(self.address)
        return peer

    @property
    def waiting(self) -> int:
        return self.listener._reception.waiting


@pytest.fixture(params=["unix", "tcp"])
def listen(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Listening]]:
    started: list[Listening] = []

    def start(**limits: Any) -> Listening:
        started.append(Listening(str(tmp_path / "s") if request.param == "unix" else ("127.0.0.1", 0), **limits))
        return started[-1]

    yield start
    for each in started:
        each.listener.close()
        each.thread.join(LONG)
        assert not each.thread.is_alive()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def greetings() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "greeting"]


def hung_up(peer: socket.socket) -> bool:
    """Reads to the end; fails if it does not come."""
    with suppress(ConnectionResetError):
        while peer.recv(1000):
            pass
    return True


def test_whoever_knows_the_key_is_let_in(listen):
    listening = listen()
    with connect(listening.address, CREDENTIALS) as connection, listening.taken.get(timeout=LONG) as other:
        connection.send({"a": 1})
        assert other.recv() == {"a": 1}
        other.send({"b": 2})
        assert connection.recv() == {"b": 2}


def test_whoever_does_not_is_refused(listen):
    listening = listen()
    with pytest.raises(AuthenticationError):
        connect(listening.address, Credentials(b"g" * 32))
    assert listening.taken.empty()


def test_whoever_says_nothing_is_hung_up_on_and_leaves_no_thread_and_no_descriptor(listen):
    listening = listen(handshake_seconds=0.2)
    connect(listening.address, CREDENTIALS).close()
    listening.taken.get(timeout=LONG).close()
    until(lambda: not greetings())
    descriptors = len(os.listdir("/proc/self/fd"))
    peers = [listening.silent() for _ in range(20)]
    assert all(map(hung_up, peers))
    for peer in peers:
        peer.close()
    until(lambda: not greetings() and len(os.listdir("/proc/self/fd")) <= descriptors)
    connect(listening.address, CREDENTIALS).close()


def test_a_peer_that_speaks_too_slowly_is_hung_up_on_too(listen):
    """The time is that of the whole handshake, and not of each byte."""
    listening = listen(handshake_seconds=0.3)
    with listening.silent() as peer:
        deadline = time.monotonic() + LONG
        with pytest.raises(OSError):
            while True:
                assert time.monotonic() < deadline
                peer.sendall(b"\0")
                time.sleep(0.02)


def test_many_who_say_nothing_are_bounded_and_keep_nobody_out(listen):
    listening = listen(handshake_seconds=1000.0, most_waiting=8)
    peers = [listening.silent() for _ in range(8)]
    until(lambda: listening.waiting == 8)
    for _ in range(20):
        peers += [listening.silent() for _ in range(4)]
        assert listening.waiting <= 8 and len(greetings()) <= 9
        with connect(listening.address, CREDENTIALS), listening.taken.get(timeout=LONG):
            pass
    until(lambda: listening.waiting <= 8)
    assert all(map(hung_up, peers[:40])), "the oldest make room"
    for peer in peers:
        peer.close()


def test_a_listener_that_cannot_accept_for_want_of_descriptors_goes_on_later(listen, monkeypatch):
    listening = listen()
    failures = iter([OSError(24, "Too many open files")] * 3)
    accept = socket.socket.accept

    def fail(self: socket.socket) -> Any:
        error = next(failures, None)
        if error is not None:
            raise error
        return accept(self)

    monkeypatch.setattr(socket.socket, "accept", fail)
    connect(listening.address, CREDENTIALS).close()
    assert next(failures, None) is None


def test_a_listener_that_is_closed_hangs_up_on_those_in_a_handshake(listen):
    listening = listen()
    with listening.silent() as peer:
        until(lambda: listening.waiting == 1)
        listening.listener.close()
        assert hung_up(peer)
    with pytest.raises(OSError):
        connect(listening.address, CREDENTIALS)


def test_a_listener_can_be_closed_before_it_serves(tmp_path):
    listener = ConnectionListener(str(tmp_path / "s"), CREDENTIALS, lambda connection: None)
    listener.close()
    listener.serve()


def test_connecting_to_somebody_who_never_answers_ends(tmp_path):
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "s"))
        silent.listen()
        with pytest.raises(TimeoutError, match=r"s did not answer within 0\.2 s"):
            connect(str(tmp_path / "s"), CREDENTIALS, 0.2)


def test_whoever_is_hung_up_on_in_a_handshake_tries_again(listen, monkeypatch):
    listening = listen()
    answered = handshake.answer_challenge
    hangups = iter([EOFError(), ConnectionResetError()])

    def answer(connection: Connection, key: bytes) -> None:
        error = next(hangups, None) if threading.current_thread() is threading.main_thread() else None
        if error is not None:
            raise error
        answered(connection, key)

    monkeypatch.setattr(handshake, "answer_challenge", answer)
    connect(listening.address, CREDENTIALS).close()
    assert next(hangups, None) is None


def test_whoever_is_always_hung_up_on_is_told(tmp_path):
    with socket.socket(socket.AF_UNIX) as rude:
        rude.bind(str(tmp_path / "s"))
        rude.listen()

        def hang_up_on_all() -> None:
            with suppress(OSError):
                while True:
                    rude.accept()[0].close()

        threading.Thread(target=hang_up_on_all, daemon=True).start()
        with pytest.raises(ConnectionError, match="hung up in the handshake, 5 times"):
            connect(str(tmp_path / "s"), CREDENTIALS)
        rude.shutdown(socket.SHUT_RDWR)


def test_hanging_up_ends_the_waiting_of_another_thread(listen):
    listening = listen()
    connection = connect(listening.address, CREDENTIALS)
    other = listening.taken.get(timeout=LONG)
    ended = threading.Event()

    def wait() -> None:
        with suppress(EOFError, OSError):
            other.recv()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    hang_up(connection)
    assert ended.wait(LONG)
    hang_up(connection)


def test_the_default_timeout_of_a_program_is_not_that_of_its_connections(listen):
    """Python makes the descriptors of sockets with a timeout non-blocking."""
    listening = listen()
    socket.setdefaulttimeout(0.5)
    try:
        with connect(listening.address, CREDENTIALS) as near, listening.taken.get(timeout=LONG) as far:
            notice_silence(near)
            limit(far, LONG, socket.SO_SNDTIMEO)
            assert far.next_frame() is None
            assert os.get_blocking(near.fileno()) and os.get_blocking(far.fileno())
    finally:
        socket.setdefaulttimeout(None)


def test_a_machine_that_is_silent_for_less_than_a_minute_is_not_given_up():
    """One that has gone is noticed within the minute and a half that the guide promises."""
    with socket.socket() as peer:
        keep_alive(peer)
        assert peer.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        idle, interval, count = (
            peer.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        )
        assert 60 <= idle + interval * count < 90


def test_credentials_do_not_show_their_secrets():
    assert repr(Credentials(b"secret", "certificate", "key")) == "Credentials(encrypted=True)"
    assert Credentials(b"secret", "certificate", "key").for_tasks == Credentials(b"secret", "certificate")
