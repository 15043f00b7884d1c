"""Asynchronous functions on local Spark."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.waiting import ENOUGH_SECONDS, wait_until

from flintstream.common import Time, Types
from flintstream.datastream import AsyncDataStream, AsyncFunction, RuntimeExecutionMode
from flintstream.jobmaster.errors import JobExecutionError


def collect(stream):
    with stream.execute_and_collect() as results:
        return list(results)


class LookUp(AsyncFunction):
    """Takes the longer, the smaller a number is within its ten; counts what it has been asked."""

    async def open(self, runtime_context):
        self.loop = asyncio.get_running_loop()
        self.asked = runtime_context.get_int_counter("asked")

    async def async_invoke(self, value):
        assert asyncio.get_running_loop() is self.loop
        await asyncio.sleep((10 - value % 10) / 2000)
        self.asked.add(1)
        return [value]


def test_ordered_results_in_the_middle_of_a_chain(env):
    env.set_parallelism(1)
    numbers = env.from_sequence(0, 399).map(lambda n: n)
    looked_up = AsyncDataStream.ordered_wait(numbers, LookUp(), Time.seconds(10), 50)
    assert collect(looked_up.map(lambda n: n + 1)) == list(range(1, 401))


def test_in_batch_mode_behind_a_key_with_a_count_behind(env):
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    keyed = env.from_collection(list(range(200)), Types.INT()).key_by(lambda n: n % 7)
    looked_up = AsyncDataStream.unordered_wait(keyed, LookUp(), Time.seconds(10), 50, Types.INT())
    counts = looked_up.map(lambda n: (n % 7, 1)).key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
    assert dict(collect(counts)) == {key: len(range(key, 200, 7)) for key in range(7)}


def test_a_failure_names_operator_and_record(env):
    class Fails(AsyncFunction):
        async def async_invoke(self, value):
            await asyncio.sleep(0)
            if value == 5:
                raise LookupError("no such number")
            await asyncio.sleep(3600)

    stream = AsyncDataStream.unordered_wait(env.from_sequence(1, 9), Fails(), Time.seconds(0)).name("look up")
    with pytest.raises(JobExecutionError, match="Operator 'look up'") as caught:
        collect(stream)
    assert "Record at fault: 5" in str(caught.value)
    assert "LookupError: no such number" in str(caught.value)
    assert "async_calls.py" not in str(caught.value)


def test_a_job_that_waits_can_be_cancelled(env, tmp_path):
    asked = tmp_path / "asked"

    class Never(AsyncFunction):
        async def async_invoke(self, value):
            asked.touch()
            await asyncio.sleep(3600)

    AsyncDataStream.ordered_wait(env.from_sequence(1, 9), Never(), Time.seconds(0)).print()
    client = env.execute_async()
    wait_until(asked.exists, what="the first request")
    started = time.perf_counter()
    client.cancel().result()
    with pytest.raises(Exception, match="was cancelled"):
        client.get_job_execution_result().result()
    assert client.get_job_status().result().name == "CANCELED"
    assert time.perf_counter() - started < ENOUGH_SECONDS, "no request would ever be answered"
