"""CassandraSink: its settings, and what the plan says of its query."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.connectors.cassandra import (
    CassandraCommitter,
    CassandraSink,
    ClusterBuilder,
    ConsistencyLevel,
    MapperOptions,
)
from flintstream.graph.guarantees import guarantees_text
from flintstream.runtime.faults import UserCodeError
from flintstream.testing import OneInputOperatorHarness

INSERT = "INSERT INTO shop.counts (word, n) VALUES (?, ?)"


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment()


def builder(env: StreamExecutionEnvironment, query: str = INSERT) -> Any:
    return CassandraSink.add_sink(env.from_collection([("a", 1)])).set_query(query).set_host("127.0.0.1", 1)


def test_the_sink_is_an_operator_of_the_stream(env: StreamExecutionEnvironment) -> None:
    builder(env).build().name("to the table").uid("table").set_parallelism(1).disable_chaining().slot_sharing_group("g")
    assert "Sink: to the table" in env.get_execution_plan()


@pytest.mark.parametrize(
    ("query", "told"),
    [
        (INSERT, "exactly once (in effect, if a replay computes the same: the query is an upsert)"),
        ("INSERT INTO shop.log (id, word) VALUES (now(), ?)", "at least once"),
        ("UPDATE shop.totals SET n = n + ? WHERE word = ?", "at least once"),
    ],
)
def test_the_plan_says_what_is_guaranteed(env: StreamExecutionEnvironment, query: str, told: str) -> None:
    builder(env, query).build().name("to the table")
    assert told in guarantees_text(env.generate_stream_graph(), True)


def test_settings_are_refused_with_what_is_wrong(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection([("a", 1)])
    for call, message in (
        (lambda: CassandraSink.add_sink(stream).set_host("x").build(), "no query is given: call set_query"),
        (lambda: CassandraSink.add_sink(stream).set_query(INSERT).build(), "no host is given: call set_host"),
        (lambda: builder(env).set_host("x", 70_000), "port must be at most 65535"),
        (lambda: builder(env).set_max_concurrent_requests(0), "max_concurrent_requests must be at least 1"),
        (lambda: builder(env).set_retry_timeout(-1), "timeout_ms must be at least 0"),
        (
            lambda: CassandraCommitter.default_checkpoint_committer(ClusterBuilder(), "a; DROP"),
            "key_space must be the name of a keyspace",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    for call, message in (
        (lambda: CassandraSink.add_sink("stream"), "input must be a DataStream"),  # type: ignore[arg-type]
        (lambda: builder(env).set_cluster_builder("x"), "must be a ClusterBuilder"),
        (lambda: builder(env).set_failure_handler(print), "must be a CassandraFailureHandler"),
        (lambda: builder(env).set_mapper_options({}), "must be MapperOptions"),
        (lambda: builder(env).enable_write_ahead_log("x"), "must be a CassandraCommitter"),
        (lambda: ClusterBuilder().with_consistency_level(1), "must be a ConsistencyLevel"),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError, match=message):
            call()


def test_mapper_options_are_accepted_as_in_pyflink(env: StreamExecutionEnvironment) -> None:
    options = MapperOptions().ttl(1800).timestamp(3600).consistency_level(ConsistencyLevel.ANY).tracing(True)
    builder(env).set_mapper_options(options.save_null_fields(True).if_not_exists(False)).build()


def test_a_missing_driver_is_told(env: StreamExecutionEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    builder(env).build().name("to the table")
    (node,) = (node for node in env.generate_stream_graph().nodes.values() if "to the table" in node.name)
    monkeypatch.setitem(sys.modules, "cassandra.cluster", None)
    with pytest.raises(UserCodeError, match=r"pip install 'flintstream\[cassandra\]'"):
        OneInputOperatorHarness(node.operator, name="to the table").open()
