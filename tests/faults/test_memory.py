"""An operator that multiplies its input: neither a deadlock, nor the output in memory."""

from __future__ import annotations

import os
import threading

import psutil
from tests.faults.helpers import descendants, is_python_worker, is_slot, numbers

from flintstream.common import Configuration
from flintstream.datastream import StreamExecutionEnvironment

LONG = bool(os.environ.get("FLINT_LONG_TESTS"))
RECORDS = 40_000  # what two source subtasks read in their first epoch
RECORD_BYTES = 2_500 if LONG else 500
FACTOR = 10
MOST_BYTES = 260e6
"""Of a slot or a worker, whatever the size of the epoch; a Spark worker takes 100 MB before its first record."""


class Watch(threading.Thread):
    """Looks at the resident size of all slots and Spark's Python workers, again and again."""

    def __init__(self):
        super().__init__(daemon=True)
        self.over = threading.Event()
        self.most: dict[str, int] = {}

    def run(self):
        while not self.over.wait(0.05):
            for process in descendants(os.getpid()):
                kind = "slot" if is_slot(process) else "worker" if is_python_worker(process) else None
                if kind is not None:
                    try:
                        size = process.memory_info().rss
                    except psutil.Error:
                        continue
                    self.most[kind] = max(self.most.get(kind, 0), size)


def test_an_epoch_that_becomes_ten_times_as_large_flows_through_without_being_held(spark):
    configuration = Configuration()
    configuration.set_string("flint.epoch.target-duration", "60 s")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    size = RECORD_BYTES
    fill = os.urandom(size)
    records = numbers(env, 1, RECORDS).map(lambda n: fill[n % 7 :] + bytes(n % 7)).rebalance()
    many = records.flat_map(lambda record: (record[i:] + record[:i] for i in range(FACTOR)))
    # All of it to one slot.
    total = many.key_by(lambda record: 0).map(len).key_by(lambda n: 0).reduce(lambda a, b: a + b)
    totals = total.filter(lambda n: n == RECORDS * FACTOR * size)
    watch = Watch()
    watch.start()
    try:
        with totals.execute_and_collect() as results:
            assert list(results) == [RECORDS * FACTOR * size]
    finally:
        watch.over.set()
        watch.join()
    print({kind: size // 10**6 for kind, size in watch.most.items()}, "MB")
    assert set(watch.most) == {"slot", "worker"}
    assert max(watch.most.values()) < MOST_BYTES
