"""Queries while slots are killed: each is answered, by the next attempt if need be, and with what was restored."""

from __future__ import annotations

import os
import signal
import threading
import time

from tests.processes import slot_pids
from tests.waiting import ENOUGH_SECONDS, wait_until

from flintstream.common import Configuration, JobStatus, RestartStrategies, Types, WatermarkStrategy
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from flintstream.datastream.state import ValueStateDescriptor
from flintstream.queryable_state import QueryableStateClient, UnknownKeyOrNamespaceException

KEYS = 4


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        descriptor = ValueStateDescriptor("count", Types.LONG())
        descriptor.set_queryable("counts")
        self.count = runtime_context.get_state(descriptor)

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)


def test_queries_are_answered_through_a_killed_slot(spark, tmp_path):
    configuration = Configuration()
    configuration.set_string("queryable-state.enable", "true")
    configuration.set_string("queryable-state.proxy.ports", "0")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    env.enable_checkpointing(200)
    env.get_checkpoint_config().set_checkpoint_storage_dir((tmp_path / "checkpoints").as_uri())
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(10, 100))
    numbers = DataGeneratorSource(lambda index: index, None, RateLimiterStrategy.per_second(200), Types.LONG())
    stream = env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers")
    stream.key_by(lambda n: n % KEYS).process(Count()).name("count")
    job = env.execute_async("counted")
    client = QueryableStateClient(*job.get_queryable_state_address(), timeout=ENOUGH_SECONDS)

    def count(key):
        try:
            return client.get_kv_state(job.get_job_id(), "counts", key).result(2 * ENOUGH_SECONDS).value()
        except UnknownKeyOrNamespaceException:
            return 0

    answers: list[tuple[float, list[int]]] = []
    """When all keys were asked for, and their counts."""
    failures: list[BaseException] = []
    ended = threading.Event()

    def ask_all_the_time():
        try:
            while not ended.is_set():
                began = time.monotonic()
                answers.append((began, [count(key) for key in range(KEYS)]))
        except BaseException as error:
            failures.append(error)

    def checkpointed():
        """Waits until a checkpoint has begun and is complete that has all that was counted; returns the counts."""
        counted = [count(key) for key in range(KEYS)]
        known = newest()
        # One that was under way already may have begun before.
        wait_until(lambda: newest() >= known + 2, what="a checkpoint with these counts")
        return counted

    def newest():
        latest = job.master.checkpoints.store.latest
        return 0 if latest is None else latest.checkpoint_id

    asking = threading.Thread(target=ask_all_the_time, daemon=True)
    try:
        wait_until(lambda: all(count(key) for key in range(KEYS)), what="a count of every key")
        asking.start()
        least: list[tuple[float, list[int]]] = []
        for restarts in (1, 2):
            counted = checkpointed()
            least.append((time.monotonic(), counted))
            os.kill(slot_pids(job)[restarts % 2], signal.SIGKILL)
            wait_until(lambda n=restarts: job.master.restarts >= n, what="the restart")
            wait_until(lambda: job.get_job_status().result() is JobStatus.RUNNING, what="the next attempt")
            before = len(answers)
            wait_until(lambda n=before: len(answers) > n + 2, what="answers of the next attempt")
        last = answers[-1][1]
        wait_until(lambda: min(new > old for new, old in zip(answers[-1][1], last)), what="records of the last attempt")
    finally:
        ended.set()
        asking.join(3 * ENOUGH_SECONDS)
        client.shutdown_and_wait()
        job.cancel().result(ENOUGH_SECONDS)
    assert not failures
    assert not asking.is_alive()
    # Nothing that a checkpoint has is ever unknown or smaller again, whichever attempt answers.
    for moment, counted in least:
        for began, found in answers:
            assert began < moment or all(new >= old for new, old in zip(found, counted))
