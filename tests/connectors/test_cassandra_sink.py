"""CassandraSink with a real server: what it writes, and what happens when the server refuses or is away."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest

from flintstream.common import Duration, Row
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.connectors.cassandra import (
    CassandraCommitter,
    CassandraFailureHandler,
    CassandraSink,
    ClusterBuilder,
    ConsistencyLevel,
)
from flintstream.runtime.faults import UserCodeError
from flintstream.testing import OneInputOperatorHarness

from .cassandra import CassandraServer

pytestmark = pytest.mark.timeout(900)  # The server may have to be downloaded first.

INSERT = "INSERT INTO tests.counts (word, n) VALUES (?, ?)"


@pytest.fixture
def server(cassandra: CassandraServer) -> Iterator[CassandraServer]:
    """The server, with an empty table."""
    cassandra.execute("CREATE TABLE IF NOT EXISTS tests.counts (word text PRIMARY KEY, n int)")
    yield cassandra
    cassandra.execute("TRUNCATE tests.counts")


def harness(
    cluster: ClusterBuilder, query: str = INSERT, configure: Any = lambda builder: builder
) -> OneInputOperatorHarness:
    """Has the operator of the sink that a program would get."""
    env = StreamExecutionEnvironment.get_execution_environment()
    builder = CassandraSink.add_sink(env.from_collection([("a", 1)])).set_query(query).set_cluster_builder(cluster)
    configure(builder).build().name("to the table")
    (node,) = (node for node in env.generate_stream_graph().nodes.values() if "to the table" in node.name)
    return OneInputOperatorHarness(pickle.loads(pickle.dumps(node.operator)), name="to the table")


def counts(server: CassandraServer) -> dict[str, Any]:
    return {row.word: row.n for row in server.execute("SELECT word, n FROM tests.counts")}


def test_rows_are_upserted(server: CassandraServer) -> None:
    cluster = server.builder.with_consistency_level(ConsistencyLevel.QUORUM)
    with harness(cluster) as sinking:
        sinking.process_elements([("a", 1), Row("b", 2), ("a", 3), ["é", 4]])
        assert counts(server) == {"a": 3, "b": 2, "é": 4}


@pytest.mark.parametrize("most", [1, 128])
def test_the_last_of_many_writes_of_a_row_wins(server: CassandraServer, most: int) -> None:
    limited = lambda builder: builder.set_max_concurrent_requests(most, Duration.of_seconds(60))  # noqa: E731
    with harness(server.builder, configure=limited) as sinking:
        sinking.process_elements([(f"w{n % 7}", n) for n in range(700)])
    assert counts(server) == {f"w{n % 7}": n for n in range(693, 700)}


def test_fields_that_are_none_delete_or_keep_a_value(server: CassandraServer) -> None:
    with harness(server.builder) as sinking:
        sinking.process_elements([("a", 1), ("b", 2), ("a", None)])
    with harness(server.builder, configure=lambda builder: builder.enable_ignore_null_fields()) as sinking:
        sinking.process_element(("b", None))
    assert counts(server) == {"a": None, "b": 2}


def test_a_refused_row_is_told_with_its_record(server: CassandraServer) -> None:
    with harness(server.builder) as sinking, pytest.raises(UserCodeError) as caught:
        sinking.process_elements([("a", 1), ("", 2), ("c", 3)])  # The server refuses an empty key.
    told = str(caught.value)
    assert "Operator 'to the table' (subtask 1) failed: " in told
    assert f"CassandraError: Cassandra 127.0.0.1, port {server.port}: InvalidRequest: " in told
    assert "Key may not be empty" in told
    assert f"Query: {INSERT}" in told
    assert "Record at fault: ('', 2)" in told


def test_a_value_that_does_not_fit_is_told_with_its_record(server: CassandraServer) -> None:
    with harness(server.builder) as sinking, pytest.raises(UserCodeError, match="Record at fault: \\('b', 'many'\\)"):
        sinking.process_elements([("a", 1), ("b", "many"), ("c", 3)])
    assert counts(server)["a"] == 1
    with (
        harness(server.builder) as sinking,
        pytest.raises(UserCodeError, match="has 2 placeholders, but the record has 3"),
    ):
        sinking.process_element(("a", 1, 2))


class Lenient(CassandraFailureHandler):
    def on_failure(self, failure: Exception) -> None:
        if "Key may not be empty" not in str(failure):
            raise failure


def test_a_failure_handler_drops_records(server: CassandraServer) -> None:
    with harness(server.builder, configure=lambda builder: builder.set_failure_handler(Lenient())) as sinking:
        sinking.process_elements([("a", 1), ("", 2), ("c", 3), ("", 4), ("e", 5)])
        assert counts(server) == {"a": 1, "c": 3, "e": 5}
        with pytest.raises(UserCodeError, match="Record at fault"):
            sinking.process_element(("f", "many"))


def test_a_wrong_query_a_wrong_password_and_a_wrong_port_are_told_at_once(server: CassandraServer) -> None:
    with pytest.raises(UserCodeError, match=r"(?s)Query: INSERT INTO tests.nowhere"):
        harness(server.builder, "INSERT INTO tests.nowhere (a) VALUES (?)").open()
    with pytest.raises(UserCodeError, match="AuthenticationFailed") as caught:
        harness(server.builder.with_credentials("flint", "mistaken")).open()
    assert "mistaken" not in str(caught.value)
    with pytest.raises(UserCodeError, match=r"Cassandra 127.0.0.1, port 1: .*refused"):
        harness(server.builder.with_port(1)).open()


def test_an_encrypted_connection(server: CassandraServer) -> None:
    with pytest.raises(UserCodeError, match="CERTIFICATE_VERIFY_FAILED"):
        harness(server.builder.with_ssl()).open()
    with harness(server.builder.with_ssl(str(server.authority))) as sinking:
        sinking.process_element(("safe", 1))
    assert counts(server) == {"safe": 1}


def test_a_write_ahead_log_writes_when_a_checkpoint_is_complete(server: CassandraServer) -> None:
    logged = lambda builder: builder.enable_write_ahead_log(  # noqa: E731
        CassandraCommitter.default_checkpoint_committer(server.builder, "tests")
    )
    with harness(server.builder, configure=logged) as sinking:
        sinking.process_elements([("a", 1), ("b", 2)])
        checkpoint = sinking.snapshot(1)
        assert counts(server) == {}
        sinking.notify_checkpoint_complete(1)
        assert counts(server) == {"a": 1, "b": 2}
    server.execute("UPDATE tests.counts SET n = 7 WHERE word = 'a'")
    restarted = harness(server.builder, configure=logged)
    restarted.restore(checkpoint)  # It still holds the rows, which are not written again.
    with restarted:
        assert counts(server) == {"a": 7, "b": 2}


def test_a_server_that_is_killed_and_comes_back_gets_everything(server: CassandraServer) -> None:
    patient = lambda builder: builder.set_retry_timeout(120_000)  # noqa: E731
    impatient = lambda builder: builder.set_retry_timeout(0)  # noqa: E731
    with harness(server.builder.with_timeout(5000), configure=patient) as sinking:
        sinking.process_elements([(f"w{n}", n) for n in range(100)])
        with harness(server.builder.with_timeout(5000), configure=impatient) as giving_up:
            server.stop()
            with pytest.raises(UserCodeError, match=r"Retried for 0 seconds \(set_retry_timeout\)"):
                giving_up.process_element(("a", 1))
        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(sinking.process_elements, [(f"w{n}", n) for n in range(100, 200)])
            assert wait([writing], 0.2).not_done
            server.start()
            writing.result(180)
    assert counts(server) == {f"w{n}": n for n in range(200)}
