"""What all sides of `latency` share: the records, and how long they took.

No imports of Flintstream: other interpreters load this too.
"""

from __future__ import annotations

import itertools
import math
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bench.timing import MeasurementError

RATE = 2_000
KEYS = 100

Sent = tuple[int, float]
"""A key, and when the record was made."""
Arrived = tuple[float, float]
"""When a record arrived, and how many milliseconds it took."""


@dataclass(frozen=True)
class Latencies:
    """How long the records of a run took, in milliseconds."""

    median: float
    most_of_99: float
    """99 of 100 records took less."""

    @classmethod
    def of(cls, arrived: Iterable[Arrived], warm_up: float) -> Latencies:
        """Leaves out what arrives in the first seconds, `warm_up` many from the first arrival on."""
        arrivals = list(arrived)
        first = min((at for at, _ in arrivals), default=0.0)
        taken = sorted(milliseconds for at, milliseconds in arrivals if at >= first + warm_up)
        if not taken:
            raise MeasurementError(f"none of {len(arrivals)} records arrived after the first {warm_up:g} seconds")
        return cls(taken[len(taken) // 2], taken[len(taken) * 99 // 100])


def steady() -> Iterator[Sent]:
    """Yields RATE records a second without end, each when it is due."""
    started = time.time()
    for number in itertools.count():
        early = started + number / RATE - time.time()
        if early > 0:
            time.sleep(early)
        yield number % KEYS, time.time()


def age(record: Sent) -> Arrived:
    """Compares the time at which a record was made with the clock."""
    now = time.time()
    return now, (now - record[1]) * 1000


def parsed(line: str) -> Sent:
    """Returns the record of a line of a `LineServer`."""
    key, made = line.split()
    return int(key), float(made)


class LineServer:
    """Sends the records of `steady`, a line each, to the first client that connects."""

    def __init__(self) -> None:
        self._end = math.inf
        self._socket = socket.create_server(("localhost", 0))
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def end_after(self, seconds: float) -> None:
        """Lets the server send for so many seconds from now on, and then close the connection."""
        self._end = time.time() + seconds

    def join(self) -> None:
        """Waits until all records are sent."""
        self._thread.join()

    def _serve(self) -> None:
        with self._socket, self._socket.accept()[0] as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for key, made in steady():
                if made >= self._end:
                    break
                client.sendall(b"%d %.6f\n" % (key, made))
