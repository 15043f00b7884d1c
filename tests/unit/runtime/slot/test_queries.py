"""Queries in a slot: answered at safe points, for a bounded time, whatever a value does."""

from __future__ import annotations

import pickle
import threading
import time
from typing import Any

import pytest
from tests.waiting import ENOUGH_SECONDS

from flintstream.common import Types
from flintstream.common.queryable_state import UnknownKeyOrNamespaceException, UnknownKvStateLocation
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.state import ValueStateDescriptor
from flintstream.runtime.batch import Batch
from flintstream.runtime.block import encode_block
from flintstream.runtime.context import JobInfo
from flintstream.runtime.deployment import OperatorDeployment, VertexDeployment
from flintstream.runtime.operators.base import Operator
from flintstream.runtime.services import SlotServices
from flintstream.runtime.slot import queries as module
from flintstream.runtime.slot.messages import Reply
from flintstream.runtime.slot.queries import StateQueries
from flintstream.runtime.slot.task import Task
from flintstream.testing import LocalJob


class Keep(KeyedProcessFunction):
    def open(self, runtime_context):
        descriptor = ValueStateDescriptor("last", Types.PICKLED_BYTE_ARRAY())
        descriptor.set_queryable("last")
        self.last = runtime_context.get_state(descriptor)

    def process_element(self, value, ctx):
        self.last.update(value[1])


@pytest.fixture
def job():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    records = [("number", 1), ("function", len), ("large", b"x" * 100), ("generator", None)]
    env.from_collection(records).key_by(lambda record: record[0]).process(Keep())
    job = LocalJob(env.generate_stream_graph())
    job.open()
    while not job.run_epoch():
        pass
    yield job
    job.close()


def answer(job: LocalJob, key: Any, form: str = "pickled") -> Any:
    [found] = job.queries.states.answers([("last", key)], form)
    return found


def test_a_value_in_both_forms(job):
    assert pickle.loads(answer(job, "number").value) == 1
    assert answer(job, "number", "json").value == "1"
    assert job.query_state("last", "number").value() == 1


def test_unknown_names_and_keys(job):
    with pytest.raises(UnknownKvStateLocation, match=r"no queryable state 'nix'; there are: 'last'"):
        job.query_state("nix", "number")
    with pytest.raises(UnknownKeyOrNamespaceException, match="'last' has no entry for the key 'nix'"):
        job.query_state("last", "nix")


def test_a_value_that_is_too_large_is_refused(job, monkeypatch):
    monkeypatch.setattr(module, "LARGEST_VALUE", 50)
    found = answer(job, "large")
    assert found.status == "failed"
    assert "more than 50 cannot be queried" in found.value
    assert answer(job, "number").status == "ok"


def test_a_value_that_cannot_be_written_fails_its_query_only(job, monkeypatch):
    def fail(value):
        raise RuntimeError("cannot be pickled")

    monkeypatch.setattr(module, "dumps", fail)
    found = answer(job, "number")
    assert (found.status, "cannot be pickled" in found.value) == ("failed", True)


def test_a_closed_slot_has_no_state_any_more(job):
    for slot in job.slots:
        slot.queries.close()
    assert answer(job, "number").status == "not-available"


def test_a_key_of_another_subtask_is_refused(job):
    told = []
    slot = next(slot for slot in job.slots if slot.queries._backends)
    ((operator_id, subtask), backend) = next(iter(slot.queries._backends.items()))
    slot.queries._tell = told.append
    foreign = next(n for n in range(1000) if module.key_group(n, 128) not in backend.key_groups)
    slot.queries.add(1, [(operator_id, subtask, "last", foreign, "pickled")])
    slot.queries.answer()
    [[(status, _, why)]] = [reply.result for reply in told]
    assert (status, "does not own the key group" in why) == ("failed", True)


def test_the_rest_waits_for_the_next_safe_point(monkeypatch):
    told: list[Reply] = []
    queries = StateQueries(told.append)
    monkeypatch.setattr(module, "STEP_SECONDS", 0.0)
    for number in range(3):
        queries.add(number, [("op", 0, "q", 1, "pickled")])
    queries.answer()
    assert [reply.number for reply in told] == [0]
    assert queries.waiting
    queries.answer()
    queries.answer()
    assert [reply.number for reply in told] == [0, 1, 2]
    assert not queries.waiting


def test_a_driver_that_has_hung_up_fails_no_function():
    def tell(message):
        raise BrokenPipeError

    queries = StateQueries(tell)
    queries.add(1, [])
    queries.answer()
    assert not queries.waiting


class Slow(Operator):
    """Takes its time for each record."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.batches: list[int] = []
        self.values: list[Any] = []

    def process(self, batch: Batch) -> None:
        self.batches.append(len(batch))
        self.values.extend(batch.values)
        time.sleep(self.seconds * len(batch))


def slow_task(operator: Operator, services: SlotServices, queryable: bool = True) -> Task:
    deployed = OperatorDeployment(0, "0" * 32, "slow", operator, None, {}, [])
    vertex = VertexDeployment(0, "slow", 1, 1, 128, [deployed], [], [[[0]]], [0])
    job = JobInfo("0" * 32, "test", queryable_state=queryable)
    return Task(vertex, 0, job, services, lambda *row: None)


def test_a_long_block_has_a_safe_point_every_few_milliseconds():
    services = SlotServices()
    points: list[int] = []
    services.step_seconds = 0.01
    operator = Slow(0.002)
    services.safe_point = lambda: points.append(len(operator.values))
    task = slow_task(operator, services)
    task.receive(0, 0, encode_block(Batch(list(range(200))), None))
    assert operator.values == list(range(200))
    # Five records fit; a machine that is busy makes it fewer.
    assert max(operator.batches) <= 8
    assert len(points) == len(operator.batches)


def test_a_block_is_not_divided_where_queries_are_disabled():
    operator = Slow(0.0)
    task = slow_task(operator, SlotServices(), queryable=False)
    task.receive(0, 0, encode_block(Batch(list(range(200))), None))
    assert operator.batches == [200]


def test_a_query_is_answered_in_the_middle_of_a_block():
    told: list[Reply] = []
    answered = threading.Event()
    queries = StateQueries(lambda reply: (told.append(reply), answered.set()))
    services = SlotServices()
    services.safe_point = queries.answer
    services.step_seconds = 0.01
    asked = threading.Event()

    class Waits(Slow):
        def process(self, batch):
            super().process(batch)
            if not asked.is_set():
                queries.add(7, [("op", 0, "q", 1, "pickled")])
                asked.set()
            elif not answered.is_set():
                raise AssertionError("the query was not answered between two slices")

    task = slow_task(Waits(0.0), services)
    task.receive(0, 0, encode_block(Batch(list(range(100))), None))
    assert answered.wait(ENOUGH_SECONDS)
    assert [reply.number for reply in told] == [7]
