"""ElasticsearchSink with real servers: what it writes, and what happens when they refuse, are overloaded or away."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import wait_until

from flintstream.common import Row
from flintstream.datastream.connectors.elasticsearch import (
    Elasticsearch6SinkBuilder,
    Elasticsearch7SinkBuilder,
    ElasticsearchEmitter,
    FlushBackoffType,
)
from flintstream.runtime.faults import UserCodeError
from flintstream.testing import OneInputOperatorHarness

from .certificates import write_certificates
from .http_proxy import HttpProxy, proxied
from .search_servers import ElasticsearchServer, OpenSearchServer

pytestmark = pytest.mark.timeout(900)  # The server may have to be downloaded first.

PATIENT = (FlushBackoffType.CONSTANT, 1000, 100)
EMITTER = ElasticsearchEmitter.static_index("orders", "id")


@pytest.fixture
def server(elasticsearch: ElasticsearchServer) -> Iterator[ElasticsearchServer]:
    """The server, empty."""
    yield elasticsearch
    elasticsearch.request("DELETE", "_all")


def builder(*hosts: str) -> Elasticsearch7SinkBuilder:
    return Elasticsearch7SinkBuilder().set_hosts(list(hosts)).set_emitter(EMITTER).set_connection_timeout(60_000)


def harness(settings: Any, **options: Any) -> OneInputOperatorHarness:
    operator = pickle.loads(pickle.dumps(settings.build().create_operator(None)))
    return OneInputOperatorHarness(operator, name="to the index", **options)


def write(settings: Any, records: list[Any]) -> None:
    with harness(settings) as sinking:
        sinking.process_elements(records)
        sinking.end_input()


def values(server: ElasticsearchServer, index: str = "orders") -> dict[str, Any]:
    return {document["_id"]: document["n"] for document in server.documents(index)}


# --- documents ---


def test_a_document_is_updated_by_its_key(server: ElasticsearchServer) -> None:
    write(builder(server.url), [{"id": 1, "n": 1}, {"id": 2, "n": 2, "more": "é"}, Row(id=1, n=3), {"id": 2, "n": 4}])
    found = sorted(server.documents("orders"), key=lambda document: document["_id"])
    assert found == [{"_id": "1", "id": 1, "n": 3}, {"_id": "2", "id": 2, "n": 4, "more": "é"}]
    write(builder(server.url), [{"id": 1, "n": 3}])
    assert values(server) == {"1": 3, "2": 4}


def test_without_a_key_each_record_is_a_document_in_the_index_that_it_names(server: ElasticsearchServer) -> None:
    emitter = ElasticsearchEmitter.dynamic_index("day")
    write(
        builder(server.url).set_emitter(emitter),
        [{"day": "monday", "n": n % 2} for n in range(4)] + [{"day": "friday", "n": 9}],
    )
    assert sorted(values(server, "monday").values()) == [0, 0, 1, 1]
    assert list(values(server, "friday").values()) == [9]


def test_types_of_documents_for_elasticsearch_6(server: ElasticsearchServer) -> None:
    settings = Elasticsearch6SinkBuilder().set_hosts(server.url)
    write(settings.set_emitter(ElasticsearchEmitter.static_index("orders", "id")), [{"id": 1, "n": 1}])
    write(settings.set_emitter(ElasticsearchEmitter.static_index("sales", None, "sale")), [{"n": 2}])
    assert list(server.request("GET", "sales/_mapping?include_type_name=true")["sales"]["mappings"]) == ["sale"]
    assert values(server) == {"1": 1}


def test_opensearch(opensearch: OpenSearchServer) -> None:
    write(builder(opensearch.url), [{"id": 1, "n": 1}, {"id": 2, "n": 2}, {"id": 1, "n": 3}])
    assert values(opensearch) == {"1": 3, "2": 2}
    with pytest.raises(UserCodeError, match=r"index 'orders', document '3': 400 mapper_parsing_exception: "):
        write(builder(opensearch.url), [{"id": 3, "n": "many"}])
    opensearch.request("PUT", "orders/_settings", {"index.blocks.read_only_allow_delete": True})
    with pytest.raises(UserCodeError, match=r"document '4': 429 cluster_block_exception: "):
        write(builder(opensearch.url), [{"id": 4, "n": 4}])


# --- when it writes ---


def test_bulk_requests_by_count_by_size_by_time_and_at_checkpoints(server: ElasticsearchServer) -> None:
    with proxied(server.url) as (proxy, port):
        address = f"127.0.0.1:{port}"
        with harness(builder(address).set_bulk_flush_max_actions(2)) as sinking:
            sinking.process_elements([{"id": n, "n": n} for n in range(5)])
            assert sizes(proxy) == [2, 2]
            sinking.snapshot(1)
            assert sizes(proxy) == [2, 2, 1]
            sinking.process_element({"id": 5, "n": 5})
            sinking.end_input()
            assert sizes(proxy) == [2, 2, 1, 1]
        proxy.bodies.clear()
        with harness(builder(address).set_bulk_flush_max_size_mb(1)) as sinking:
            sinking.process_elements([{"id": n, "n": n, "text": "x" * 400_000} for n in range(5)])
            assert sizes(proxy) == [2, 2]
            sinking.end_input()
        proxy.bodies.clear()
        with harness(builder(address).set_bulk_flush_interval(500), processing_time=0) as sinking:
            sinking.process_element({"id": 6, "n": 6})
            assert sizes(proxy) == []
            sinking.set_processing_time(499)
            assert sizes(proxy) == []
            sinking.set_processing_time(500)
            assert sizes(proxy) == [1]
    assert len(values(server)) == 7


def sizes(proxy: HttpProxy) -> list[int]:
    """How many actions the requests had."""
    return [body.count(b"\n") // 2 for body in proxy.bodies]


# --- what is refused ---


def test_a_rejected_document_is_told_with_its_record(server: ElasticsearchServer) -> None:
    patient = builder(server.url).set_bulk_flush_backoff_strategy(*PATIENT)
    with pytest.raises(UserCodeError) as caught:
        write(patient, [{"id": 1, "n": 1}, {"id": 2, "n": "many"}, {"id": 3, "n": 3}])
    told = str(caught.value)
    assert "Operator 'to the index' (subtask 1) failed: " in told
    assert f"ElasticsearchError: {server.url}: " in told
    assert "index 'orders', document '2': 400 mapper_parsing_exception: failed to parse field [n]" in told
    assert "caused by illegal_argument_exception" in told
    assert "Record at fault: {'id': 2, 'n': 'many'}" in told
    assert values(server) == {"1": 1, "3": 3}  # A bulk request is no transaction.


def test_passwords_and_a_path_prefix(server: ElasticsearchServer) -> None:
    with proxied(server.url, "/search", "flint", "it's a secret") as (_, port):
        settings = builder(f"127.0.0.1:{port}").set_connection_path_prefix("search").set_connection_username("flint")
        write(settings.set_connection_password("it's a secret"), [{"id": 1, "n": 1}])
        with pytest.raises(UserCodeError, match="HTTP status 401: security_exception: who are you") as caught:
            write(settings.set_connection_password("mistaken"), [{"id": 2, "n": 2}])
    assert "mistaken" not in str(caught.value)
    assert values(server) == {"1": 1}


def test_an_encrypted_connection(server: ElasticsearchServer, tmp_path: Path) -> None:
    authority, certificate = tmp_path / "authority.pem", tmp_path / "server.pem"
    write_certificates(authority, certificate)
    with proxied(server.url, certificate=certificate) as (_, port):
        settings = builder(f"https://localhost:{port}").set_bulk_flush_backoff_strategy(*PATIENT)
        with pytest.raises(UserCodeError, match="CERTIFICATE_VERIFY_FAILED"):
            write(settings, [{"id": 1, "n": 1}])
        write(settings.set_ssl_ca_file(str(authority)), [{"id": 2, "n": 2}])
    assert values(server) == {"2": 2}


# --- faults ---


def test_an_index_that_takes_nothing_for_a_while_is_waited_for(server: ElasticsearchServer) -> None:
    """A server whose disk is full answers 429 for some documents, and writes the others."""
    server.request("PUT", "orders", {"settings": {"index.blocks.read_only_allow_delete": True}})
    emitter = ElasticsearchEmitter.dynamic_index("index", "id")
    records = [{"index": index, "id": 1, "n": n} for n, index in enumerate(["orders", "sales", "orders"])]
    with pytest.raises(
        UserCodeError, match=r"(?s)429 cluster_block_exception.*2 of 3 actions.*Not retried: call set_bulk"
    ):
        write(builder(server.url).set_emitter(emitter), records)
    settings = builder(server.url).set_emitter(emitter).set_bulk_flush_backoff_strategy(*PATIENT)
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write, settings, records)
        assert wait([writing], 0.3).not_done
        server.request("PUT", "orders/_settings", {"index.blocks.read_only_allow_delete": None})
        writing.result(120)
    assert values(server) == {"1": 2}
    assert values(server, "sales") == {"1": 1}


def test_a_rejected_update_never_overtakes_a_later_one(server: ElasticsearchServer) -> None:
    """Of three updates of a document, the server first executes only the last one."""
    answers: list[bytes] = []

    def first_two_rejected(body: bytes) -> tuple[int, bytes] | None:
        if answers:
            return None
        lines = body.splitlines(keepends=True)
        server_says(server, b"".join(lines[4:]))
        rejected = {
            "update": {"status": 429, "error": {"type": "es_rejected_execution_exception", "reason": "queue full"}}
        }
        answers.append(
            json.dumps({"errors": True, "items": [rejected, rejected, {"update": {"status": 200}}]}).encode()
        )
        return 200, answers[0]

    with proxied(server.url, meddle=first_two_rejected) as (proxy, port):
        settings = builder(f"127.0.0.1:{port}").set_bulk_flush_backoff_strategy(FlushBackoffType.EXPONENTIAL, 3, 1)
        write(settings, [{"id": 1, "n": 1}, {"id": 1, "n": 2}, {"id": 1, "n": 3}])
        assert sizes(proxy) == [3, 3]
    assert values(server) == {"1": 3}


def server_says(server: ElasticsearchServer, body: bytes) -> None:
    with proxied(server.url) as (proxy, _):
        assert proxy.answer("/_bulk", None, body)[0] == 200


def test_an_overloaded_server_is_asked_again_a_limited_number_of_times(server: ElasticsearchServer) -> None:
    with proxied(server.url, meddle=lambda body: (503, b"too busy")) as (proxy, port):
        settings = builder(f"127.0.0.1:{port}").set_bulk_flush_backoff_strategy(FlushBackoffType.CONSTANT, 2, 1)
        with pytest.raises(UserCodeError, match=r"(?s)HTTP status 503: 'too busy'.*Retried 2 times"):
            write(settings, [{"id": 1, "n": 1}])
        assert sizes(proxy) == [1, 1, 1]


def test_the_next_host_is_used_where_one_is_away(server: ElasticsearchServer) -> None:
    with proxied(server.url) as (_, gone):
        pass
    write(builder(f"127.0.0.1:{gone}", server.url), [{"id": 1, "n": 1}])
    assert values(server) == {"1": 1}
    with pytest.raises(
        UserCodeError, match=rf"(?s)http://127.0.0.1:{gone}: ConnectionRefusedError.*Not retried"
    ) as caught:
        write(builder(f"127.0.0.1:{gone}"), [{"id": 1, "n": 1}])
    assert "Record at fault" not in str(caught.value)


def test_a_server_that_does_not_answer_is_given_up_after_its_timeout(server: ElasticsearchServer) -> None:
    refused = pytest.raises(UserCodeError, match=r"TimeoutError: ")
    with server.paused(), refused:
        write(builder(server.url).set_socket_timeout(200), [{"id": 1, "n": 1}])
    wait_until(lambda: server.request("GET", "_cluster/health"), what="the server")


def test_a_server_that_is_killed_and_comes_back_gets_everything(server: ElasticsearchServer) -> None:
    with harness(builder(server.url).set_bulk_flush_backoff_strategy(*PATIENT)) as sinking:
        sinking.process_elements([{"id": n, "n": n} for n in range(100)])
        sinking.snapshot(1)
        server.stop(crash=True)
        sinking.process_elements([{"id": n, "n": n} for n in range(100, 200)])
        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(sinking.snapshot, 2)
            assert wait([writing], 0.2).not_done
            server.start()
            writing.result(120)
    assert values(server) == {str(n): n for n in range(200)}
