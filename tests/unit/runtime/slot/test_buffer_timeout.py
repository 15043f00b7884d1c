"""When a pipelined slot sends what its tasks have written: each operator's buffer timeout, and that of the job."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from flintstream.datastream import DataStream, OutputTag, StreamExecutionEnvironment
from flintstream.datastream.functions import ProcessFunction

from .counting import environment
from .deployed import LONG, Deployed


def middle(env: StreamExecutionEnvironment, name: str) -> DataStream[int]:
    """An operator between two exchanges, so that a test can feed it and see what it writes."""
    return env.from_sequence(1, 2).rebalance().map(lambda n: n).name(name)


def receiver(stream: DataStream[int], name: str) -> None:
    stream.rebalance().map(lambda n: n).name(name)


def test_an_operator_with_0_sends_each_batch_at_once_and_one_without_waits_for_the_job_s_timeout() -> None:
    env = environment(2)
    receiver(middle(env, "Urgent").set_buffer_timeout(0), "A")
    receiver(middle(env, "Patient"), "B")
    deployed = Deployed(env, LONG / 1000)
    assert deployed.feed("Patient") == []
    assert deployed.feed("Urgent") == ["A"]
    assert deployed.feed("Urgent") == ["A"]
    patience = deployed.pipeline.patience()
    assert patience is not None
    assert patience > LONG / 1000 - 600


def test_an_operator_s_timeout_is_shorter_than_the_job_s() -> None:
    env = environment(2)
    receiver(middle(env, "Urgent").set_buffer_timeout(30), "A")
    deployed = Deployed(env, LONG / 1000)
    started = time.monotonic()
    assert (deployed.feed("Urgent") or deployed.wait()) == ["A"]
    assert time.monotonic() - started >= 0.03


def test_an_operator_s_timeout_is_longer_than_the_job_s() -> None:
    env = environment(2)
    receiver(middle(env, "Patient").set_buffer_timeout(LONG), "A")
    receiver(middle(env, "Plain"), "B")
    deployed = Deployed(env, 0.0)
    assert deployed.feed("Patient") == []
    assert deployed.feed("Plain") == ["B"]
    assert deployed.feed("Patient") == []


@pytest.mark.parametrize("job_timeout", [0.0, LONG / 1000, None])
def test_minus_1_stands_for_the_job_s_timeout(job_timeout: float | None) -> None:
    env = environment(2)
    receiver(middle(env, "Reset").set_buffer_timeout(1).set_buffer_timeout(-1), "A")
    deployed = Deployed(env, job_timeout)
    assert deployed.feed("Reset") == (["A"] if job_timeout == 0 else [])


def test_without_a_timeout_blocks_wait_for_the_barrier_but_not_those_of_an_operator_that_has_one() -> None:
    env = environment(2)
    receiver(middle(env, "Urgent").set_buffer_timeout(5), "A")
    receiver(middle(env, "Plain"), "B")
    deployed = Deployed(env, None)
    deployed.feed("Plain")
    assert (deployed.feed("Urgent") or deployed.wait()) == ["A"]
    while (patience := deployed.pipeline.patience()) is not None:
        time.sleep(patience)
        assert deployed.work() == []
    assert deployed.pass_barrier("Plain") == ["B"]


class Both(ProcessFunction):
    """Emits each record, and to a side output, too."""

    side = OutputTag("side")

    def process_element(self, value, ctx):
        yield value
        yield self.side, value


def chain_of_two(env: StreamExecutionEnvironment, first: int | None, second: int | None) -> None:
    """Two chained operators that both write to other tasks."""
    head = middle(env, "First")
    tail = head.map(lambda n: n).name("Second")
    for stream, timeout in ((head, first), (tail, second)):
        if timeout is not None:
            stream.set_buffer_timeout(timeout)
    receiver(head, "A")
    receiver(tail, "B")


@pytest.mark.parametrize(
    ("first", "second", "sent"), [(0, None, ["A"]), (None, 0, ["B"]), (0, 0, ["A", "B"]), (None, None, [])]
)
def test_in_a_chain_the_operator_that_writes_to_an_edge_decides(
    first: int | None, second: int | None, sent: list[str]
) -> None:
    env = environment(2)
    chain_of_two(env, first, second)
    deployed = Deployed(env, LONG / 1000)
    assert sorted(deployed.feed("First -> Second")) == sent


def test_a_side_output_is_sent_with_the_timeout_of_its_operator() -> None:
    env = environment(2)
    stream = env.from_sequence(1, 2).rebalance().process(Both()).name("Both").set_buffer_timeout(0)
    receiver(stream, "A")
    receiver(stream.get_side_output(Both.side), "B")
    assert sorted(Deployed(env, LONG / 1000).feed("Both")) == ["A", "B"]


@pytest.mark.parametrize(
    "exchange",
    [lambda s: s.rebalance(), lambda s: s.broadcast(), lambda s: s.shuffle(), lambda s: s.key_by(lambda n: n)],
    ids=["rebalance", "broadcast", "shuffle", "key_by"],
)
def test_every_partitioner(exchange: Callable[[DataStream[int]], DataStream[int]]) -> None:
    env = environment(2)
    exchange(middle(env, "Urgent").set_buffer_timeout(0)).map(lambda n: n).name("A")
    deployed = Deployed(env, LONG / 1000)
    sent: list[str] = []
    while not sent:  # By chance, all records may be for the slot itself.
        sent = deployed.feed("Urgent")
    assert set(sent) == {"A"}
