"""What the sides of `bench latency` share: the records, their latencies, and how a peer's are reported."""

from __future__ import annotations

import itertools
import socket
import sys
import textwrap
import time

import pytest
from bench import latency
from bench.latencies import KEYS, RATE, Latencies, LineServer, age, parsed, steady
from bench.latency import compared
from bench.peers import PeerError, run_latency_peer
from bench.timing import MeasurementError

OURS = Latencies(5.0, 20.0)


def test_the_median_and_99_of_100():
    assert Latencies.of(((float(x), float(x % 100)) for x in range(1000)), 0) == Latencies(50.0, 99.0)


def test_the_order_of_arrival_does_not_matter():
    arrivals = [(3.0, 30.0), (1.0, 10.0), (2.0, 20.0)]
    assert Latencies.of(arrivals, 0).median == 20


def test_the_warm_up_counts_from_the_first_arrival():
    arrivals = [(100.0, 900.0), (104.9, 800.0), (105.0, 7.0), (106.0, 8.0), (107.0, 9.0)]
    assert Latencies.of(arrivals, 5).median == 8


@pytest.mark.parametrize("arrivals", [[], [(1.0, 2.0), (3.0, 4.0)]])
def test_nothing_after_the_warm_up_is_an_error(arrivals):
    with pytest.raises(MeasurementError, match="after the first 5 seconds"):
        Latencies.of(arrivals, 5)


def test_records_are_made_when_they_are_due():
    started = time.time()
    records = list(itertools.islice(steady(), 2 * KEYS))
    assert [key for key, _ in records] == 2 * list(range(KEYS))
    assert all(made > started + number / RATE - 0.001 for number, (_, made) in enumerate(records))


def test_the_age_of_a_record():
    now, milliseconds = age((1, time.time() - 2))
    assert now == pytest.approx(time.time(), abs=1)
    assert milliseconds == pytest.approx(2000, abs=500)


def test_the_line_server_sends_records_until_it_is_ended():
    server = LineServer()
    with socket.create_connection(("localhost", server.port)) as client, client.makefile() as lines:
        records = [parsed(next(lines))]
        server.end_after(0.2)
        records += map(parsed, lines)
    server.join()
    assert [key for key, _ in records] == [number % KEYS for number in range(len(records))]
    assert 0 < records[-1][1] - records[0][1] < 5


def test_ratios_say_how_many_times_lower_ours_are():
    rows = compared("PyFlink", Latencies(50.0, 60.0), OURS)
    assert [(row.what, row.value, row.ratio) for row in rows] == [
        ("PyFlink, median", 50, 10),
        ("PyFlink, 99 of 100 below", 60, 3),
    ]


def test_pyflink_is_left_out_unless_the_variable_names_it(monkeypatch):
    monkeypatch.delenv("FLINT_BENCH_PYFLINK", raising=False)
    (row,) = latency._against_pyflink(12, 6, OURS)
    assert (row.value, row.note) == (None, "not run: FLINT_BENCH_PYFLINK is not set")


def test_the_variable_names_the_interpreter_of_pyflink(monkeypatch, interpreter):
    monkeypatch.setenv("FLINT_BENCH_PYFLINK", interpreter("print(json.dumps({'median': 40.0, 'most_of_99': 80.0}))"))
    assert [row.ratio for row in latency._against_pyflink(12, 6, OURS)] == [8, 4]


def test_a_peer_is_told_how_long_to_run(interpreter):
    python = interpreter(
        """
        print("some warning")
        _, script, _, seconds, _, warm_up = sys.argv[1:]
        assert script == "bench.peers.pyflink_latency"
        print(json.dumps({"median": float(seconds), "most_of_99": float(warm_up)}))
        """
    )
    assert run_latency_peer("pyflink_latency", 12, 6, python) == Latencies(12, 6)


@pytest.mark.parametrize("code", ["sys.exit('broken')", "print('broken')"])
def test_a_peer_that_does_not_report_is_an_error(interpreter, code):
    with pytest.raises(PeerError, match="broken"):
        run_latency_peer("pyflink_latency", 12, 6, interpreter(code))


def test_what_a_script_reports_is_what_is_read(interpreter):
    python = interpreter(
        """
        from bench.latencies import Latencies
        from bench.peers import latency_arguments, report_latencies
        sys.argv = sys.argv[2:]
        given = latency_arguments()
        report_latencies(Latencies(given.seconds, given.warm_up))
        """
    )
    assert run_latency_peer("spark_latency", 12, 6, python) == Latencies(12, 6)


@pytest.fixture
def interpreter(tmp_path):
    """Makes an executable that runs some code instead of the module it is called with."""

    def make(code):
        path = tmp_path / "python"
        path.write_text(f"#!{sys.executable}\nimport json, sys\n{textwrap.dedent(code)}\n")
        path.chmod(0o755)
        return str(path)

    return make
