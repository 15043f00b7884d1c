"""ElasticsearchSink: its settings, and the actions that records become."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any

import pytest

from flintstream.common import Row, Types
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.connectors.base import DeliveryGuarantee
from flintstream.datastream.connectors.elasticsearch import (
    Elasticsearch6SinkBuilder,
    Elasticsearch7SinkBuilder,
    ElasticsearchEmitter,
    FlushBackoffType,
)
from flintstream.graph.guarantees import guarantees_text
from flintstream.runtime.faults import UserCodeError
from flintstream.testing import OneInputOperatorHarness


def builder() -> Elasticsearch7SinkBuilder:
    return Elasticsearch7SinkBuilder().set_hosts("localhost:9200").set_emitter(ElasticsearchEmitter.static_index("a"))


def lines(emitter: ElasticsearchEmitter, record: Any) -> list[Any]:
    return [json.loads(line) for line in emitter.action(record).body.splitlines()]


# --- actions ---


def test_without_a_key_a_record_is_indexed() -> None:
    assert lines(ElasticsearchEmitter.static_index("a"), {"x": 1}) == [{"index": {"_index": "a"}}, {"x": 1}]


def test_with_a_key_a_record_is_upserted() -> None:
    header, update = lines(ElasticsearchEmitter.dynamic_index("day", "id", "sale"), {"day": "monday", "id": 7, "x": 1})
    assert header == {"update": {"_index": "monday", "_type": "sale", "_id": "7", "retry_on_conflict": 5}}
    assert update == {"doc": {"day": "monday", "id": 7, "x": 1}, "doc_as_upsert": True}


def test_values_that_json_lacks() -> None:
    record = Row(
        day=datetime.date(2024, 5, 17),
        time=datetime.datetime(2024, 5, 17, 12, 30),
        price=Decimal("2.50"),
        count=Decimal(3),
        raw=b"\x00\xff",
        inner=Row(x=1),
        text="é\n",
    )
    _, document = lines(ElasticsearchEmitter.static_index("a"), record)
    assert document == {
        "day": "2024-05-17",
        "time": "2024-05-17T12:30:00",
        "price": 2.5,
        "count": 3,
        "raw": "AP8=",
        "inner": {"x": 1},
        "text": "é\n",
    }


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"x": 1}, "the key_field 'id' is missing; the record has 'x'"),
        ({"id": None}, "the key_field 'id' is empty"),
        ({"id": 1, "x": float("nan")}, "Out of range float values"),
        ({"id": 1, "x": object}, "cannot be encoded as JSON"),
        ((1, 2), "a record must be a dict or a Row with field names, got a tuple"),
    ],
)
def test_a_record_that_is_no_document_is_named(record: Any, message: str) -> None:
    sink = builder().set_emitter(ElasticsearchEmitter.static_index("a", "id")).build()
    with (
        OneInputOperatorHarness(sink.create_operator(None)) as harness,
        pytest.raises(UserCodeError, match=message) as caught,
    ):
        harness.process_element(record)
        harness.end_input()
    assert "Record at fault: " in str(caught.value)


# --- settings ---


def test_hosts_are_refused_with_what_is_wrong() -> None:
    for host, message in (
        ("ftp://x", "is not a host such as 'localhost:9200'"),
        ("localhost:abc", "the port of 'localhost:abc' must be a number"),
        ("http://x/path", "call set_connection_path_prefix"),
        ("http://me:secret@x", "call set_connection_username"),
    ):
        with pytest.raises(ValueError, match=message) as caught:
            builder().set_hosts(host)
        assert "secret" not in str(caught.value)
    with pytest.raises(ValueError, match="at least one host"):
        builder().set_hosts([])
    with pytest.raises(TypeError, match="a host must be a string"):
        builder().set_hosts([9200])  # type: ignore[list-item]


def test_settings_are_refused_with_what_is_wrong() -> None:
    for call, message in (
        (lambda: builder().set_bulk_flush_max_actions(0), "num_max_actions must be at least 1, got 0"),
        (lambda: builder().set_bulk_flush_max_size_mb(200), "max_size_mb must be at most 95, got 200"),
        (lambda: builder().set_bulk_flush_interval(-2), "interval_millis must be at least 0, got -2"),
        (lambda: builder().set_connection_timeout(0), "timeout must be at least 1"),
        (lambda: builder().set_bulk_flush_backoff_strategy(FlushBackoffType.NONE, 1, 1), "NONE is the default"),
        (lambda: builder().set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE), "AT_LEAST_ONCE with a key_field"),
        (lambda: builder().set_connection_password("x").build(), "needs set_connection_username"),
        (lambda: builder().set_ssl_ca_file("x.pem").build(), "has no effect without a host such as 'https://"),
        (lambda: Elasticsearch7SinkBuilder().set_hosts("x").build(), "no emitter is given: call set_emitter"),
        (lambda: Elasticsearch6SinkBuilder().build(), "Elasticsearch6SinkBuilder: no hosts are given: call set_hosts"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(ValueError, match="static_index: index must be a non-empty string"):
        ElasticsearchEmitter.static_index("")
    with pytest.raises(TypeError, match="must be an ElasticsearchEmitter"):
        builder().set_emitter(lambda record: record)  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError, match="get_http_host_class"):
        builder().get_http_host_class()


def test_a_file_of_certificates_that_is_not_there_is_named() -> None:
    sink = builder().set_hosts("https://localhost:9200").set_ssl_ca_file("/nowhere/ca.pem").build()
    with pytest.raises(UserCodeError, match="set_ssl_ca_file: '/nowhere/ca.pem' cannot be read"):
        OneInputOperatorHarness(sink.create_operator(None)).open()


def guarantee(settings: Elasticsearch7SinkBuilder) -> str:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(1000)
    env.from_collection([{"id": 1}], Types.MAP(Types.STRING(), Types.INT())).sink_to(settings.build())
    return guarantees_text(env.generate_stream_graph(), True)


def test_the_plan_says_what_is_guaranteed() -> None:
    keyed = builder().set_emitter(ElasticsearchEmitter.static_index("a", "id"))
    assert "documents are upserted by 'id'" in guarantee(keyed)
    assert "upserted" not in guarantee(builder())
    assert "at least once" in guarantee(builder().set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE))
