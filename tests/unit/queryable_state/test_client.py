"""QueryableStateClient against the listener of a driver, whose slots are in this process."""

from __future__ import annotations

import datetime
import http.client
import json
import socket
import ssl
import threading
import time
from concurrent.futures import Future
from concurrent.futures import wait as wait_for_all
from decimal import Decimal
from uuid import UUID

import pytest
from tests.aggregates import Mean
from tests.connectors.certificates import write_certificates
from tests.waiting import ENOUGH_SECONDS

from flintstream.common import Row, Types
from flintstream.common.job_status import JobStatus
from flintstream.common.queryable_state import key_from_json, key_from_text, key_to_json, shown
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReducingState,
    ReducingStateDescriptor,
    ValueState,
    ValueStateDescriptor,
)
from flintstream.jobmaster import state_listener
from flintstream.jobmaster.queryable_settings import QueryableStateSettings
from flintstream.jobmaster.state_listener import StateListener
from flintstream.queryable_state import (
    FlinkJobNotFoundException,
    QueryableStateClient,
    QueryableStateError,
    StateNotAvailableException,
    UnknownKeyOrNamespaceException,
    UnknownKvStateLocation,
    UnsupportedOperationException,
)
from flintstream.queryable_state import client as client_module
from flintstream.runtime.slot import queries as slot_queries
from flintstream.runtime.slot.messages import QueryStates
from flintstream.runtime.slot.protocol import StateQuery
from flintstream.spark.slots import SlotError
from flintstream.testing import LocalJob

JOB = "0" * 32
LONG, ANY = Types.LONG(), Types.PICKLED_BYTE_ARRAY()
DESCRIPTORS = {
    "last": ValueStateDescriptor("last", ANY),
    "all": ListStateDescriptor("all", ANY),
    "by number": MapStateDescriptor("by number", ANY, ANY),
    "largest": ReducingStateDescriptor("largest", max, ANY),
    "mean": AggregatingStateDescriptor("mean", Mean(), ANY),
}


@pytest.fixture(scope="module")
def job():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    pairs = env.from_collection([("tea", 1), ("cake", 2), ("tea", 5)]).key_by(lambda pair: pair[0])
    for name in ("last", "all", "by number", "largest"):
        pairs.as_queryable_state(name, DESCRIPTORS[name])
    env.from_collection([2, 4, 1]).key_by(lambda n: n % 2).as_queryable_state("mean", DESCRIPTORS["mean"])
    dated = env.from_collection([(datetime.date(2024, 1, 31), "late")]).key_by(lambda pair: pair[0])
    dated.as_queryable_state("dated")
    job = LocalJob(env.generate_stream_graph())
    job.open()
    while not job.run_epoch():
        pass
    yield job
    job.close()


@pytest.fixture
def listener(job):
    job.queries.status = JobStatus.RUNNING
    listener = StateListener(QueryableStateSettings(True, ports=(0,)), job.queries.states)
    yield listener
    listener.close()


@pytest.fixture
def client(listener):
    with QueryableStateClient(listener.host, listener.port, timeout=ENOUGH_SECONDS) as client:
        yield client


def get(client, name, key, descriptor=None, job_id=JOB):
    return client.get_kv_state(job_id, name, key, None, descriptor).result(ENOUGH_SECONDS)


# --- states ---


def test_a_value(client):
    state = get(client, "last", "tea", DESCRIPTORS["last"])
    assert isinstance(state, ValueState)
    assert state.value() == ("tea", 5)
    for change in (state.clear, lambda: state.update(1)):
        with pytest.raises(UnsupportedOperationException, match="read-only"):
            change()


def test_a_list(client):
    state = get(client, "all", "tea", DESCRIPTORS["all"])
    assert isinstance(state, ListState)
    assert list(state) == list(state.get()) == [("tea", 1), ("tea", 5)]
    for change in (lambda: state.add(1), lambda: state.add_all([1]), lambda: state.update([1])):
        with pytest.raises(UnsupportedOperationException):
            change()


def test_a_map(client):
    state = get(client, "by number", "tea", DESCRIPTORS["by number"])
    assert isinstance(state, MapState)
    assert (state.get("tea"), state["tea"], state.contains("x"), state.is_empty()) == (5, 5, False, False)
    assert (list(state.items()), list(state), list(state.values())) == ([("tea", 5)], ["tea"], [5])
    for change in (lambda: state.put(1, 2), lambda: state.put_all({}), lambda: state.remove(1)):
        with pytest.raises(UnsupportedOperationException):
            change()


def test_reducing_and_aggregating_states_by_their_results(client):
    largest, mean = get(client, "largest", "tea", DESCRIPTORS["largest"]), get(client, "mean", 0, DESCRIPTORS["mean"])
    assert isinstance(largest, ReducingState)
    assert isinstance(mean, AggregatingState)
    assert (largest.get(), mean.get()) == (("tea", 5), 3.0)
    with pytest.raises(UnsupportedOperationException):
        mean.add(1)


def test_a_descriptor_of_another_kind_is_an_error(client):
    with pytest.raises(QueryableStateError, match="'last' is a value state, and not a list state"):
        get(client, "last", "tea", DESCRIPTORS["all"])
    with pytest.raises(TypeError, match="expected a state descriptor"):
        client.get_kv_state(JOB, "last", "tea", None, "last")


def test_an_answer_of_an_unknown_kind_is_an_error_and_the_client_goes_on(client, monkeypatch):
    def unknown(*_):
        raise KeyError("a kind of tomorrow")

    with monkeypatch.context() as patched:
        patched.setattr(client_module, "state_of", unknown)
        with pytest.raises(KeyError, match="tomorrow"):
            get(client, "last", "tea")
    assert get(client, "last", "tea").value() == ("tea", 5)


def test_keys_of_other_types(client):
    assert get(client, "dated", datetime.date(2024, 1, 31)).value()[1] == "late"
    # As in key_by, equal numbers are one key.
    assert get(client, "mean", 0.0).get() == get(client, "mean", False).get() == 3.0
    state = client.get_kv_state(JOB, "mean", 1, Types.LONG(), DESCRIPTORS["mean"]).result(ENOUGH_SECONDS)
    assert state.get() == 1.0
    with pytest.raises(TypeError, match="a key of type object cannot be sent"):
        client.get_kv_state(JOB, "last", object())
    with pytest.raises(ValueError, match="is too long"):
        client.get_kv_state(JOB, "last", "x" * 20_000)


@pytest.mark.parametrize(
    "key",
    [
        1,
        1 << 80,
        -2.5,
        True,
        "ü",
        b"\0\xff",
        ("a", (1, b"x")),
        ["a", 1],
        Row(1, "a"),
        Row(name="a", age=(1,)),
        Decimal("1.50"),
        UUID(int=7),
        datetime.datetime(2024, 1, 31, 12, 0, 0, 5, datetime.timezone.utc),
        datetime.date(2024, 1, 31),
        datetime.time(1, 2, 3),
        datetime.timedelta(days=-1, microseconds=3),
    ],
    ids=repr,
)
def test_keys_cross_as_json(key):
    crossed = key_from_json(json.loads(json.dumps(key_to_json(key))))
    assert (crossed, type(crossed)) == (key, type(key))


@pytest.mark.parametrize(
    "bad", [None, {}, {"tuple": 1}, {"pickle": "x"}, {"bytes": "xx"}, {"row": [1], "names": []}, [1]]
)
def test_what_is_no_key_is_refused(bad):
    with pytest.raises(ValueError, match="is no key"):
        key_from_json(bad)


def test_keys_in_urls():
    assert [key_from_text(text) for text in ("5", '"5"', "tea", "[1, [2]]", "null", "2.5")] == [
        5,
        "5",
        "tea",
        (1, (2,)),
        "null",
        2.5,
    ]


def test_values_for_people():
    value = [
        Row(name="a", at=datetime.date(2024, 1, 31)),
        (1, b"\1"),
        {1: {2}},
        {"a": Decimal("1.5")},
        JobStatus.RUNNING,
    ]
    assert shown(value) == [{"name": "a", "at": "2024-01-31"}, [1, "01"], [[1, [2]]], {"a": "1.5"}, "RUNNING"]


# --- errors ---


def test_unknown_jobs_names_and_keys(client):
    with pytest.raises(FlinkJobNotFoundException, match="not found"):
        get(client, "last", "tea", job_id="f" * 32)
    with pytest.raises(UnknownKvStateLocation, match="'nix'"):
        get(client, "nix", "tea")
    with pytest.raises(UnknownKeyOrNamespaceException, match="'nix'"):
        get(client, "last", "nix")


def test_a_job_that_has_ended_is_not_found(client, job):
    job.queries.status = JobStatus.FINISHED
    with pytest.raises(FlinkJobNotFoundException, match="is FINISHED"):
        get(client, "last", "tea")


def test_a_query_waits_while_the_job_restarts(client, job):
    job.queries.status = JobStatus.RESTARTING
    asked = client.get_kv_state(JOB, "last", "tea")
    with pytest.raises(TimeoutError):
        asked.result(0.2)
    job.queries.status = JobStatus.RUNNING
    assert asked.result(ENOUGH_SECONDS).value() == ("tea", 5)


def test_a_query_is_given_up_at_its_time_out(listener, job):
    job.queries.status = JobStatus.RESTARTING
    client = QueryableStateClient(listener.host, listener.port, timeout=0.3)
    with client, pytest.raises(StateNotAvailableException, match=r"not available within 0.3 s: job 0+ is RESTARTING"):
        get(client, "last", "tea")


def test_a_slot_that_does_not_answer_is_asked_again(client, job, monkeypatch):
    lost: list[QueryStates] = []
    answers = job.queries.send

    def lose_the_first(slot, message):
        if not lost:
            lost.append(message)
            return Future()
        return answers(slot, message)

    monkeypatch.setattr(job.queries, "send", lose_the_first)
    assert get(client, "last", "tea").value() == ("tea", 5)
    assert lost


def test_nobody_listens(listener):
    listener.close()
    client = QueryableStateClient(listener.host, listener.port)
    with client, pytest.raises(QueryableStateError, match="nobody answers queries of state at 127.0.0.1:"):
        get(client, "last", "tea")


def test_a_host_that_does_not_answer_costs_no_more_than_the_time_out():
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        port = full.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:  # They fill the queue that nobody takes connections from.
            each.setblocking(False)
            each.connect_ex(("127.0.0.1", port))
        client = QueryableStateClient("127.0.0.1", port, timeout=0.5)
        began = time.monotonic()
        with pytest.raises(
            StateNotAvailableException, match=r"not available within 0.5 s: 127.0.0.1:.* has not answered"
        ):
            get(client, "last", "tea")
        assert time.monotonic() - began < 8
        for each in waiting:
            each.close()
        client.shutdown_and_wait()


def test_a_client_that_is_shut_down(listener, job):
    client = QueryableStateClient(listener.host, listener.port, timeout=ENOUGH_SECONDS)
    job.queries.status = JobStatus.RESTARTING
    waiting = client.get_kv_state(JOB, "last", "tea")
    with pytest.raises(TimeoutError):
        waiting.result(0.1)
    client.shutdown_and_wait()
    with pytest.raises(QueryableStateError, match="shut down|not available"):
        waiting.result(ENOUGH_SECONDS)
    with pytest.raises(RuntimeError, match="shut down"):
        client.get_kv_state(JOB, "last", "tea")


@pytest.mark.parametrize("wrong", [{"remote_port": 0}, {"timeout": 0}, {"connections": 0}])
def test_wrong_arguments(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        QueryableStateClient(**{"remote_hostname": "localhost", "remote_port": 9069, **wrong})


# --- many ---


def test_many_queries_travel_in_few_requests(client, job, monkeypatch):
    sizes: list[int] = []
    answers = job.queries.states.answers

    def count(queries, *arguments):
        sizes.append(len(queries))
        return answers(queries, *arguments)

    monkeypatch.setattr(job.queries.states, "answers", count)
    futures = [client.get_kv_state(JOB, "largest", ("tea", "cake")[n % 2]) for n in range(2000)]
    assert [future.result(ENOUGH_SECONDS).get()[1] for future in futures] == [5, 2] * 1000
    assert sum(sizes) == 2000
    assert len(sizes) < 500
    assert max(sizes) <= 256


def test_several_threads_share_a_client(client):
    found = []

    def ask():
        found.extend(get(client, "largest", "tea").get() for _ in range(50))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(ENOUGH_SECONDS)
    assert found == [("tea", 5)] * 200


def test_too_many_queries_in_flight_are_told_to_try_again(client, job, monkeypatch):
    from flintstream.jobmaster import queryable_states

    monkeypatch.setattr(queryable_states, "MOST_IN_FLIGHT", 0)
    [answer] = job.queries.states.answers([("last", "tea")])
    assert (answer.status, "too many queries" in answer.value) == ("not-available", True)


@pytest.fixture
def together(job, monkeypatch):
    """Lets the first request wait, so that the queries behind it share the next one; yields the event that ends that, and
    the queries of each request.
    """
    asked: list[list] = []
    begun, go = threading.Event(), threading.Event()
    answers = job.queries.states.answers

    def hold_the_first(queries, *arguments):
        asked.append(queries)
        if len(asked) == 1:
            begun.set()
            assert go.wait(ENOUGH_SECONDS)
        return answers(queries, *arguments)

    monkeypatch.setattr(job.queries.states, "answers", hold_the_first)
    yield begun, go, asked
    go.set()


def in_one_request(client, together, *queries):
    """Returns the futures of queries that travel together."""
    begun, go, _ = together
    first = client.get_kv_state(JOB, "last", "cake")
    assert begun.wait(ENOUGH_SECONDS)
    futures = [client.get_kv_state(JOB, *query) for query in queries]
    go.set()
    assert first.result(ENOUGH_SECONDS).value() == ("cake", 2)
    return futures


def test_queries_of_one_request_fail_each_for_itself(listener, together):
    # One connection: the queries do not overtake the first request.
    with QueryableStateClient(listener.host, listener.port, timeout=ENOUGH_SECONDS, connections=1) as client:
        queries = [("last", "tea"), ("nix", "tea"), ("last", "nix"), ("last", ("no", "such")), ("all", "tea")]
        of_wrong_kind = ("last", "tea", None, DESCRIPTORS["all"])
        good, no_name, no_key, no_pair, a_list, wrong = in_one_request(client, together, *queries, of_wrong_kind)
        assert good.result(ENOUGH_SECONDS).value() == ("tea", 5)
        assert list(a_list.result(ENOUGH_SECONDS)) == [("tea", 1), ("tea", 5)]
        for failed, error in [
            (no_name, UnknownKvStateLocation),
            (no_key, UnknownKeyOrNamespaceException),
            (no_pair, UnknownKeyOrNamespaceException),
            (wrong, QueryableStateError),
        ]:
            assert type(failed.exception(ENOUGH_SECONDS)) is error
    assert [len(queries) for queries in together[2]] == [1, 6]


@pytest.mark.parametrize("lost", ["silent", "dead"])
def test_only_queries_of_a_slot_that_is_lost_with_them_are_asked_again(listener, job, together, monkeypatch, lost):
    keys = [("tea", "cake")[n % 2] for n in range(10)]
    slots: list[tuple[int, list]] = []
    send = job.queries.send

    def lose(slot, message):
        slots.append((slot, [StateQuery(*fields).key for fields in message.queries]))
        if len(slots) == 2:
            future = Future()
            if lost == "dead":
                future.set_exception(SlotError(f"slot {slot} has ended"))
            return future
        return send(slot, message)

    monkeypatch.setattr(job.queries, "send", lose)
    with QueryableStateClient(listener.host, listener.port, timeout=ENOUGH_SECONDS, connections=1) as client:
        futures = in_one_request(client, together, *(("largest", key) for key in keys), ("mean", 0), ("mean", 1))
        assert [future.result(ENOUGH_SECONDS).get() for future in futures[:10]] == [("tea", 5), ("cake", 2)] * 5
        assert [future.result(ENOUGH_SECONDS).get() for future in futures[10:]] == [3.0, 1.0]
    lost_slot, lost_keys = slots[1]
    again = [(slot, keys) for slot, keys in slots[2:] if slot == lost_slot]
    assert sorted(str(key) for _, keys in again for key in keys) == sorted(map(str, lost_keys))
    # All others are answered by the request that lost these.
    assert sum(len(keys) for _, keys in slots[1:]) == 12 + len(lost_keys)


def test_queries_of_one_request_are_given_up_together(listener, job, together, monkeypatch):
    client = QueryableStateClient(listener.host, listener.port, timeout=1.5, connections=1)
    with client:
        send, silent = job.queries.send, set()
        monkeypatch.setattr(job.queries, "send", lambda *sent: Future() if sent[0] in silent else send(*sent))
        futures = in_one_request(client, together, ("last", "tea"))
        assert futures[0].result(ENOUGH_SECONDS)
        silent.update((0, 1))
        futures = [client.get_kv_state(JOB, "last", "tea"), client.get_kv_state(JOB, "nix", "tea")]
        assert type(futures[1].exception(ENOUGH_SECONDS)) is UnknownKvStateLocation
        with pytest.raises(StateNotAvailableException, match=r"within 1.5 s: the slot has not answered within"):
            futures[0].result(ENOUGH_SECONDS)


# --- HTTP ---


def repeated(listener, heads_and_bodies):
    """Sends requests on one connection; returns the statuses."""
    found = []
    with socket.create_connection((listener.host, listener.port), timeout=ENOUGH_SECONDS) as connection:
        for head, body in heads_and_bodies:
            connection.sendall(head + body)
            response = http.client.HTTPResponse(connection, method="POST")
            response.begin()
            found.append((response.status, json.loads(response.read())))
    return found


def head(length, *headers, job_id=JOB):
    lines = [f"POST /jobs/{job_id}/state HTTP/1.1", "Host: x", *headers, f"Content-Length: {length}", "", ""]
    return "\r\n".join(lines).encode()


def body_of(*keys):
    return json.dumps({"queries": [["last", key] for key in keys]}).encode()


def test_a_head_that_is_repeated(listener):
    bodies = [body_of("tea"), body_of("tea", "cake"), body_of("tea"), b"{"]
    found = repeated(listener, [(head(len(body)), body) for body in bodies])
    assert [status for status, _ in found] == [200, 200, 200, 400]
    assert [len(content["answers"]) for _, content in found[:3]] == [1, 2, 1]


def test_a_head_that_differs_is_checked_again(job):
    listener = StateListener(
        QueryableStateSettings(True, ports=(0,), token="a secret of this test"), job.queries.states
    )
    body = body_of("tea")
    good, bad = "Authorization: Bearer a secret of this test", "Authorization: Bearer a secret of this tesu"
    try:
        for last, status in [
            (head(len(body), good), 200),
            (head(len(body), bad), 401),
            (head(len(body)), 401),
            (head(len(body), good, "Origin: http://evil.example"), 403),
            (head(len(body), good, job_id="f" * 32), 404),
        ]:
            found = repeated(listener, [(head(len(body), good), body)] * 2 + [(last, body)])
            assert [each for each, _ in found] == [200, 200, status]
        # What was refused is refused again, if the connection is still open.
        assert [each for each, _ in repeated(listener, [(head(len(body), bad), body)])] == [401]
    finally:
        listener.close()


def test_what_stood_behind_the_length_is_needed_again(job):
    listener = StateListener(
        QueryableStateSettings(True, ports=(0,), token="a secret of this test"), job.queries.states
    )
    body = body_of("tea")
    plain = head(len(body))
    trusted = plain.removesuffix(b"\r\n") + b"Authorization: Bearer a secret of this test\r\n\r\n"
    try:
        found = repeated(listener, [(trusted, body), (trusted, body), (plain, body)])
        assert [status for status, _ in found] == [200, 200, 401]
    finally:
        listener.close()


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("GET", {"Content-Length": "60"}, 200),
        ("GET", {"Transfer-Encoding": "chunked"}, 200),
        ("POST", {"Content-Length": "2", "Transfer-Encoding": "chunked"}, 400),
        ("POST", {"Content-Length": "5" * 5000}, 413),
        ("POST", {"Content-Length": "+2"}, 413),
        ("POST", {"Content-Length": "\xb2"}, 413),
        ("POST", {}, 413),
    ],
)
def test_no_request_follows_one_whose_body_may_not_be_read_to_its_end(listener, method, headers, status):
    path = f"/jobs/{JOB}/state/last?key=tea" if method == "GET" else f"/jobs/{JOB}/state"
    lines = [f"{method} {path} HTTP/1.1", "Host: x", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    with socket.create_connection((listener.host, listener.port), timeout=ENOUGH_SECONDS) as connection:
        connection.sendall("\r\n".join(lines).encode("latin-1") + b"{}")
        response = http.client.HTTPResponse(connection, method=method)
        response.begin()
        assert (response.status, response.getheader("Connection")) == (status, "close")
        response.read()
        try:
            assert connection.recv(1) == b""
        except ConnectionResetError:
            pass  # What was not read is thrown away.


def test_a_head_with_two_lengths_is_not_remembered(listener):
    body = body_of("tea")
    for length in (len(body), 5):
        twice = head(length, f"Content-Length: {len(body)}")
        assert [status for status, _ in repeated(listener, [(twice, body)])] == [200]
        with pytest.raises(OSError):
            repeated(listener, [(twice, body)] * 3)


def test_a_head_in_pieces(listener):
    body = body_of("tea")
    with socket.create_connection((listener.host, listener.port), timeout=ENOUGH_SECONDS) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for pieces in (1, 7, 1):
            sent = head(len(body)) + body
            size = -(-len(sent) // pieces)
            for start in range(0, len(sent), size):
                connection.sendall(sent[start : start + size])
                time.sleep(0.005)
            response = http.client.HTTPResponse(connection, method="POST")
            response.begin()
            assert response.status == 200
            assert len(json.loads(response.read())["answers"]) == 1


def request(listener, method, path, body=None, headers=None):
    connection = http.client.HTTPConnection(listener.host, listener.port, timeout=ENOUGH_SECONDS)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_one_key_by_get(listener):
    assert request(listener, "GET", f"/jobs/{JOB}/state/by%20number?key=tea") == (
        200,
        {"name": "by number", "key": "tea", "kind": "map", "value": {"tea": 5}},
    )
    assert request(listener, "GET", f"/v1/jobs/{JOB}/state/mean?key=0")[1]["value"] == 3.0


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", f"/jobs/{JOB}/state/last?key=nix", None, 404),
        ("GET", f"/jobs/{JOB}/state/nix?key=tea", None, 404),
        ("GET", f"/jobs/{'f' * 32}/state/last?key=tea", None, 404),
        ("GET", f"/jobs/{JOB}/state/last", None, 400),
        ("GET", f"/jobs/{JOB}/state/last?key=%7B%7D", None, 400),
        ("GET", f"/jobs/{JOB}/state/last?key=tea&seconds=0", None, 400),
        ("GET", f"/jobs/{JOB}/state/last?key=tea&seconds=31", None, 400),
        ("GET", f"/jobs/{JOB}/state/last?key=tea&seconds=nan", None, 400),
        ("GET", f"/jobs/{JOB}/state/last?key=tea&seconds=soon", None, 400),
        ("GET", "/jobs/overview", None, 404),
        ("GET", "/", None, 404),
        ("POST", f"/jobs/{JOB}/state", b"{", 400),
        ("POST", f"/jobs/{JOB}/state", b"[]", 400),
        ("POST", f"/jobs/{JOB}/state", b'{"queries": 5}', 400),
        ("POST", f"/jobs/{JOB}/state", b'{"queries": [["last"]]}', 400),
        ("POST", f"/jobs/{JOB}/state", b'{"queries": [["last", {"pickle": "x"}]]}', 400),
        ("POST", f"/jobs/{JOB}/state", json.dumps({"queries": [["last", 1]] * 300}).encode(), 400),
        ("POST", f"/jobs/{JOB}/state/last", b"{}", 404),
    ],
)
def test_requests_that_are_wrong(listener, method, path, body, status):
    found, content = request(listener, method, path, body)
    assert found == status
    assert content["errors"]


def test_get_waits_for_as_long_as_it_says(listener, job, monkeypatch):
    monkeypatch.setattr(job.queries, "send", lambda slot, message: Future())
    status, content = request(listener, "GET", f"/jobs/{JOB}/state/last?key=tea&seconds=0.2")
    assert (status, "within 0.2 s" in content["errors"][0]) == (503, True)


def test_a_value_that_cannot_be_read_is_no_unknown_key(listener, monkeypatch):
    monkeypatch.setattr(slot_queries, "LARGEST_VALUE", 3)
    status, content = request(listener, "GET", f"/jobs/{JOB}/state/last?key=tea")
    assert (status, "more than 3 cannot be queried" in content["errors"][0]) == (500, True)


def test_a_body_that_is_too_long_is_not_read(listener):
    headers = {"Content-Length": str(1 << 30)}
    assert request(listener, "POST", f"/jobs/{JOB}/state", b"", headers)[0] == 413


def test_pages_of_browsers_are_refused(listener):
    for header in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "same-origin"}):
        assert request(listener, "GET", f"/jobs/{JOB}/state/last?key=tea", headers=header)[0] == 403


def test_a_restarting_job_is_not_available(listener, job):
    job.queries.status = JobStatus.RESTARTING
    status, content = request(listener, "GET", f"/jobs/{JOB}/state/last?key=tea")
    assert (status, "try again" in content["errors"][0]) == (503, True)


def test_a_token(job):
    job.queries.status = JobStatus.RUNNING
    listener = StateListener(
        QueryableStateSettings(True, ports=(0,), token="a secret of this test"), job.queries.states
    )
    try:
        for token in (None, "another"):
            client = QueryableStateClient(listener.host, listener.port, token=token)
            with client, pytest.raises(QueryableStateError, match="A token is needed"):
                get(client, "last", "tea")
        with QueryableStateClient(listener.host, listener.port, token="a secret of this test") as client:
            assert get(client, "last", "tea").value() == ("tea", 5)
    finally:
        listener.close()


def test_tls(job, tmp_path):
    job.queries.status = JobStatus.RUNNING
    write_certificates(tmp_path / "authority.pem", tmp_path / "server.pem")
    certificate = tmp_path / "server.pem"
    settings = QueryableStateSettings(True, ports=(0,), certificate=certificate, certificate_key=certificate)
    listener = StateListener(settings, job.queries.states)
    try:
        trusting = ssl.create_default_context(cafile=str(tmp_path / "authority.pem"))
        with QueryableStateClient("localhost", listener.port, tls=trusting) as client:
            assert get(client, "last", "tea").value() == ("tea", 5)
        for wrong in (True, False):
            client = QueryableStateClient("localhost", listener.port, tls=wrong)
            with client, pytest.raises(QueryableStateError, match="nobody answers"):
                get(client, "last", "tea")
    finally:
        listener.close()
    with pytest.raises(ValueError, match="cannot be used"):
        StateListener(QueryableStateSettings(True, ports=(0,), certificate=tmp_path / "no"), job.queries.states)


def test_connections_are_limited(listener, monkeypatch):
    monkeypatch.setattr(state_listener, "MOST_CONNECTIONS", 1)
    first = http.client.HTTPConnection(listener.host, listener.port, timeout=ENOUGH_SECONDS)
    first.request("GET", f"/jobs/{JOB}/state/last?key=tea")
    assert first.getresponse().read()
    with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
        request(listener, "GET", f"/jobs/{JOB}/state/last?key=tea")
    first.close()


def test_a_port_that_is_taken(listener, job):
    settings = QueryableStateSettings(True, ports=(listener.port,))
    with pytest.raises(ValueError, match=f"cannot listen on 127.0.0.1, port {listener.port}"):
        StateListener(settings, job.queries.states)
    # The next port of a range is taken instead.
    other = StateListener(QueryableStateSettings(True, ports=(listener.port, 0)), job.queries.states)
    assert other.port != listener.port
    other.close()


def test_cancelled_queries_are_not_answered(client, job):
    job.queries.status = JobStatus.RESTARTING
    asked = client.get_kv_state(JOB, "last", "tea")
    assert asked.cancel()
    job.queries.status = JobStatus.RUNNING
    assert get(client, "last", "tea").value() == ("tea", 5)
    assert asked.cancelled()
    assert not wait_for_all([asked._future], ENOUGH_SECONDS).not_done
