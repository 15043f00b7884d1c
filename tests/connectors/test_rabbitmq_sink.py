"""RMQSink with a real server: what it publishes, and what happens when the server is hurt."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest
from tests.waiting import wait_until

from flintstream.common import SerializationSchema, SimpleStringSchema
from flintstream.datastream.connectors.rabbitmq import RMQConnectionConfig, RMQSink
from flintstream.runtime.faults import UserCodeError
from flintstream.testing import OneInputOperatorHarness

from .queues import Queues
from .rabbitmq import RabbitMqServer

pytestmark = pytest.mark.timeout(900)  # The server may have to be downloaded first.


@pytest.fixture
def queues(rabbitmq: RabbitMqServer) -> Iterator[Queues]:
    """The server's queues; those of a test end with it."""
    queues = Queues(rabbitmq)
    yield queues
    queues.close()


def harness(
    config: RMQConnectionConfig, queue: str = "out", schema: SerializationSchema | None = None, retry_ms: int = 120_000
) -> OneInputOperatorHarness:
    sink = RMQSink(config, queue, schema or SimpleStringSchema(), retry_ms)
    operator = pickle.loads(pickle.dumps(sink.create_operator(None)))
    return OneInputOperatorHarness(operator, name="to the queue")


def test_messages_of_a_block_are_in_the_queue_before_the_next_block(rabbitmq: RabbitMqServer, queues: Queues) -> None:
    with harness(rabbitmq.config) as sinking:
        sinking.process_elements(["a", "é"])
        assert queues.take("out") == ["a", "é"]
        numbers = [str(number) for number in range(12_000)]
        sinking.process_elements(numbers)
        assert queues.length("out") == 12_000
    assert queues.take("out", 3) == ["0", "1", "2"]


def test_messages_and_the_queue_survive_a_restart_of_the_server_on_the_way(
    rabbitmq: RabbitMqServer, queues: Queues
) -> None:
    with harness(rabbitmq.config) as sinking:
        sinking.process_elements(["a", "b"])
        rabbitmq.stop(crash=True)
        with ThreadPoolExecutor(1) as pool:
            publishing = pool.submit(sinking.process_elements, ["c", "d"])
            assert wait([publishing], 0.2).not_done  # There is no server.
            rabbitmq.start()
            publishing.result(120)
    assert queues.take("out") == ["a", "b", "c", "d"]


def test_a_queue_that_exists_is_taken_as_it_is(rabbitmq: RabbitMqServer, queues: Queues) -> None:
    queues.declare("out", durable=False, auto_delete=True)
    with harness(rabbitmq.config) as sinking:
        sinking.process_element("a")
    assert queues.take("out") == ["a"]


def test_a_queue_that_was_deleted_is_made_again(rabbitmq: RabbitMqServer, queues: Queues) -> None:
    with harness(rabbitmq.config) as sinking:
        queues.delete("out")
        sinking.process_elements(["a", "b", "c"])
    assert set(queues.take("out")) == {"a", "b", "c"}


def test_by_a_uri(rabbitmq: RabbitMqServer, queues: Queues) -> None:
    uri = f"amqp://guest:guest@127.0.0.1:{rabbitmq.port}/%2F"
    with harness(RMQConnectionConfig.Builder().set_uri(uri).set_requested_heartbeat(30).build()) as sinking:
        sinking.process_element("a")
    assert queues.take("out") == ["a"]


class EvenNumbers(SerializationSchema):
    """Leaves out odd numbers; opened before the first record."""

    def open(self) -> None:
        self.unit = " kg"

    def serialize(self, element: Any) -> bytes | None:
        return None if element % 2 else f"{element}{self.unit}".encode()


def test_a_schema_is_opened_and_may_leave_records_out(rabbitmq: RabbitMqServer, queues: Queues) -> None:
    with harness(rabbitmq.config, schema=EvenNumbers()) as sinking:
        sinking.process_elements([1, 2, 3, 4])
        with pytest.raises(UserCodeError, match=r"(?s)Operator 'to the queue'.*Record at fault: 'five'"):
            sinking.process_elements([4, "five", 6])
    assert queues.take("out") == ["2 kg", "4 kg"]


def test_wrong_credentials_are_told_at_the_start(rabbitmq: RabbitMqServer) -> None:
    with pytest.raises(UserCodeError, match=r"ProbableAuthenticationError") as caught:
        harness(rabbitmq.builder.set_password("mistaken").build()).open()
    assert "mistaken" not in str(caught.value)
    with pytest.raises(UserCodeError, match=r"vhost nowhere not found"):
        harness(rabbitmq.builder.set_virtual_host("nowhere").build()).open()


def test_a_server_that_does_not_answer_fails_the_job_after_its_timeout(
    rabbitmq: RabbitMqServer, queues: Queues
) -> None:
    config = rabbitmq.builder.set_connection_timeout(1000).set_automatic_recovery(False).build()
    queues.declare("out")
    sinking = wait_until(lambda: _opened(config), what="a connection within a second")
    try:
        with rabbitmq.paused(), pytest.raises(UserCodeError, match=r"no answer to the messages published within 1 sec"):
            sinking.process_element("a")
    finally:
        sinking.close()
    assert set(queues.take("out")) <= {"a"}


def _opened(config: RMQConnectionConfig) -> OneInputOperatorHarness | None:
    sinking = harness(config)
    try:
        sinking.open()
    except UserCodeError:
        return None
    return sinking


def test_a_sink_that_has_nothing_to_publish_answers_heartbeats(rabbitmq: RabbitMqServer, queues: Queues) -> None:
    with harness(rabbitmq.builder.set_requested_heartbeat(1).build(), retry_ms=0) as sinking:
        sinking.process_element("a")
        time.sleep(3.0)  # The server gives up a silent client after two seconds.
        sinking.process_element("b")
    assert queues.take("out") == ["a", "b"]
