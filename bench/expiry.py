"""expiry: a million expired keys that are never seen again leave RocksDB: how soon, at which cost, and the disk."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.report import Result, Row
from flintstream.common import Types
from flintstream.common.time import Time
from flintstream.datastream.state import StateTtlConfig, ValueStateDescriptor
from flintstream.runtime.state.rocksdb.backend import RocksDBKeyedStateBackend

EXPIRED, EXPIRED_QUICK = 1_000_000, 100_000
HOT = BLOCK = 8192
STRETCH = 50
TTL_MS = 60_000
LEAST_OF_UNCLEANED = 0.93


class Side:
    """A backend with keys that have expired, and others in use."""

    def __init__(self, directory: Path, expired: int, cleans: bool) -> None:
        self.now = 0
        self.seconds = self.worked = 0.0
        """The seconds that blocks have taken, and those of them that the processor was at work."""
        self.backend = RocksDBKeyedStateBackend("bench", 128, lambda: self.now, None, str(directory))
        builder = StateTtlConfig.new_builder(Time.milliseconds(TTL_MS)).disable_cleanup_in_background()
        if cleans:
            builder.cleanup_in_rocksdb_compact_filter(1000)
        descriptor = ValueStateDescriptor("last", Types.STRING())
        descriptor.enable_time_to_live(builder.build())
        self._state = self.backend.value_state(descriptor)
        for start in range(HOT, HOT + expired, BLOCK):
            self.process(list(range(start, min(start + BLOCK, HOT + expired))))
        # In RocksDB only, as long as it has been quiet about them.
        self.backend.table("last").evict(1.0)
        self.checkpoint()
        self.now = TTL_MS

    def process(self, keys: list[int]) -> None:
        """A block of records, each of which reads and updates the state of its key."""
        backend, state = self.backend, self._state
        started, worked = time.perf_counter(), time.thread_time()
        backend.touch(keys)
        for key in keys:
            backend.current_key = key
            before = state.value()
            state.update(f"{key:>40}" if before is None else before)
        self.seconds += time.perf_counter() - started
        self.worked += time.thread_time() - worked

    def checkpoint(self) -> None:
        """Flushes all to files, as a checkpoint does."""
        with tempfile.TemporaryDirectory(dir=os.path.dirname(self.backend.database)) as directory:
            self.backend.checkpoint(os.path.join(directory, "chk"))

    @property
    def entries(self) -> int:
        """The entries in RocksDB."""
        return len(self.backend.table("last"))

    @property
    def megabytes(self) -> float:
        """The files of RocksDB with entries."""
        files = [entry for entry in os.scandir(self.backend.database) if entry.name.endswith(".sst")]
        return sum(entry.stat().st_size for entry in files) / 1e6

    def is_clean(self) -> bool:
        """Whether the round has ended."""
        return all(rounds.due_in() > 0 for rounds in self.backend._cleanup._rounds)


def run(quick: bool) -> Result:
    """Blocks of other keys, in turn on a backend that cleans up and one that does not; then an idle one."""
    expired = EXPIRED_QUICK if quick else EXPIRED
    with tempfile.TemporaryDirectory(prefix="flint-expiry-") as temporary:
        directory = Path(temporary)
        cleaning, resting = (Side(directory / name, expired, name == "cleaning") for name in ("cleaning", "resting"))
        before = cleaning.megabytes
        blocks = _compare(cleaning, resting)
        if cleaning.entries != HOT or resting.entries != HOT + expired:
            raise AssertionError(f"{cleaning.entries} and {resting.entries} entries are left")
        records = blocks * BLOCK
        with_it, without = records / cleaning.worked, records / resting.worked
        after = _after_compaction(cleaning)
        idle = Side(directory / "idle", expired, True)
        seconds, busy = _idle(idle)
        for side in (cleaning, resting, idle):
            side.backend.close()
    rows = [
        Row("blocks of other keys, without cleaning up", without),
        Row("while expired entries are removed", with_it, ratio=with_it / without, least_ratio=LEAST_OF_UNCLEANED),
        Row(f"until {expired:,} entries are gone, in a busy slot", cleaning.seconds, "s"),
        Row("in an idle slot", seconds, "s", note=f"{busy:.1f} s of them busy"),
        Row("files before", before, "MB"),
        Row("files after the next checkpoint", after, "MB", most=before / 10),
    ]
    return Result("expiry", f"{expired:,} expired keys that are never seen again, in RocksDB", rows)


def _compare(cleaning: Side, resting: Side) -> int:
    """Blocks of hot keys, some on each side in turn, until the one side is clean; the number of blocks."""
    hot = [number * 7919 % HOT for number in range(BLOCK)]
    for side in (cleaning, resting):
        side.backend._cleanup._not_before = time.monotonic() + 3600
        side.process(hot)
        side.seconds = side.worked = 0.0
        side.backend._cleanup._not_before = 0.0
    blocks = 0
    while not cleaning.is_clean():
        # The cleanup has its share of the time that passes, so each side has some to itself.
        for side in (cleaning, resting):
            for _ in range(STRETCH):
                side.process(hot)
        blocks += STRETCH
    return blocks


def _after_compaction(side: Side) -> float:
    """The size of the files, once RocksDB has compacted those with tombstones in the background."""
    side.checkpoint()
    deadline = time.monotonic() + 60
    size = side.megabytes
    while time.monotonic() < deadline and (size > 5 or size != side.megabytes):
        size = side.megabytes
        time.sleep(0.5)
    return size


def _idle(side: Any) -> tuple[float, float]:
    """As a slot without work: the seconds until all is removed, and those of them that it has worked."""
    started, worked = time.monotonic(), time.thread_time()
    while not side.is_clean():
        time.sleep(max(0.0, side.backend.cleanup_due() - time.monotonic()))
        side.backend.clean_up(idle=True)
    seconds, busy = time.monotonic() - started, time.thread_time() - worked
    if side.entries:
        raise AssertionError(f"{side.entries} entries are left")
    return seconds, busy
