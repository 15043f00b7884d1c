"""Reporters: their settings, lines of a log, and a port for Prometheus."""

from __future__ import annotations

import http.client
import logging
import socket
import urllib.error
import urllib.request

import pytest
from tests.waiting import wait_until

from flintstream.metrics.prometheus import Naming
from flintstream.metrics.reporters import Reporters, log_lines, reporter_settings

from .details import job_details

PROM = {"metrics.reporter.prom.port": "0"}
SECONDS = 60


def settings(**options):
    return reporter_settings({f"metrics.reporter.{name.replace('__', '.')}": value for name, value in options.items()})


class TestSettings:
    def test_none(self):
        assert reporter_settings({"metrics.latency.interval": "1 s"}) == []

    def test_flinks_own(self):
        configuration = {
            "metrics.reporter.p.factory.class": "org.apache.flink.metrics.prometheus.PrometheusReporterFactory",
            "metrics.reporter.p.port": "9250-9260",
            "metrics.reporter.p.scope.variables.excludes": "host;tm_id",
            "metrics.reporter.p.scope.variables.additional": "cluster:test,zone:a:b",
            "metrics.reporter.p.filterLabelValueCharacters": "false",
            "metrics.reporter.l.class": "org.apache.flink.metrics.slf4j.Slf4jReporter",
            "metrics.reporter.l.interval": "60 SECONDS",
            "metrics.reporter.l.scope.delimiter": "/",
        }
        prometheus, log = reporter_settings(configuration)
        assert (prometheus.name, prometheus.kind, prometheus.ports) == ("p", "prometheus", range(9250, 9261))
        assert prometheus.host == "127.0.0.1"
        assert prometheus.naming == Naming(
            "prometheus", frozenset({"host", "tm_id"}), {"cluster": "test", "zone": "a:b"}, False
        )
        assert (log.kind, log.interval, log.delimiter) == ("log", 60.0, "/")

    def test_a_known_name_needs_no_class_and_defaults_are_flinks(self):
        (found,) = reporter_settings({"metrics.reporters": "prom"})
        assert (found.kind, found.ports) == ("prometheus", range(9249, 9250))
        (found,) = settings(log__interval="5 s")
        assert (found.kind, found.interval) == ("log", 5.0)

    def test_a_list_selects(self):
        configuration = {**PROM, "metrics.reporter.slf4j.interval": "5 s", "metrics.reporters": "slf4j"}
        assert [each.name for each in reporter_settings(configuration)] == ["slf4j"]

    @pytest.mark.parametrize(
        ("options", "told"),
        [
            ({"mine__port": "1"}, "metrics.reporter.mine.factory.class is not set: it must be one of prom, "),
            (
                {"jmx__factory.class": "org.apache.flink.metrics.jmx.JMXReporterFactory"},
                "metrics.reporter.jmx.factory.class must be one of .*, got 'org.apache.flink.metrics.jmx.JMX",
            ),
            ({"prom__prot": "1"}, "metrics.reporter.prom.prot: a reporter of kind prometheus has no such option"),
            ({"log__port": "1"}, "metrics.reporter.log.port: a reporter of kind log has no such option"),
            ({"prom__port": "http"}, "metrics.reporter.prom.port must be a port or a range like 9250-9260, got 'http'"),
            ({"prom__port": "9260-9250"}, "must be a port or a range"),
            ({"prom__port": "70000"}, "must be a port or a range"),
            (
                {"prom__names": "graphite"},
                "metrics.reporter.prom.names must be one of prometheus, flink, got 'graphite'",
            ),
            ({"prom__scope.variables.additional": "cluster"}, "must be NAME:VALUE,…, got 'cluster'"),
            ({"prom__filterLabelValueCharacters": "perhaps"}, "metrics.reporter.prom.filterLabelValueCharacters"),
            ({"log__interval": "often"}, "metrics.reporter.log.interval"),
            ({"log__interval": "0 s"}, "metrics.reporter.log.interval must be greater than 0, got '0 s'"),
        ],
    )
    def test_what_is_wrong_is_told(self, options, told):
        with pytest.raises(ValueError, match=told):
            settings(**options)

    def test_a_listed_reporter_must_be_known(self):
        with pytest.raises(ValueError, match="metrics.reporters has 'mine', but metrics.reporter.mine.factory.class"):
            reporter_settings({"metrics.reporters": "mine"})


class TestLog:
    def test_a_line_for_each_metric(self):
        lines = log_lines(job_details())
        assert "driver.jobmanager.my job.numRestarts: 1500" in lines
        assert "driver.jobmanager.my job.lastCheckpointExternalPath: file:///checkpoints/7" in lines
        place = "worker.taskmanager.slot-0"
        assert f"{place}.my job.Source: orders -> Map.1.busyTimeMsPerSecond: 1500" in lines
        assert f"{place}.my job.Source: orders.1.currentOutputWatermark: 1500" in lines
        assert f"{place}.my job.Source: orders.1.shop.berlin.orders: 3" in lines
        assert f"{place}.my job.Source: orders.1.events: count=7, rate=0.25" in lines
        assert f"{place}.my job.Source: orders.1.state: open" in lines
        assert f"{place}.residentMemoryBytes: 5000" in lines

    def test_is_written_at_intervals_and_at_the_end(self, caplog):
        caplog.set_level(logging.INFO, "flintstream.metrics")
        asked = []
        reporters = Reporters(settings(log__interval="10 ms"), "my job", lambda: asked.append(1) or job_details())
        reporters.start()
        wait_until(lambda: len(asked) > 3)
        reporters.close()
        lines = [record.message for record in caplog.records if record.name == "flintstream.metrics"]
        assert lines.count("driver.jobmanager.my job.numRestarts: 1500") == len(asked)

    def test_a_short_job_is_reported_once(self, caplog):
        caplog.set_level(logging.INFO, "flintstream.metrics")
        reporters = Reporters(settings(log__interval="1 h"), "my job", job_details)
        reporters.start()
        reporters.close()
        assert "driver.jobmanager.my job.numRestarts: 1500" in caplog.messages

    def test_a_failure_hurts_nobody(self, caplog):
        reporters = Reporters(settings(log__interval="1 h"), "my job", lambda: 1 / 0)
        reporters.start()
        reporters.close()
        assert "metrics reporter 'log' failed" in caplog.text


class TestPrometheus:
    @pytest.fixture
    def url(self):
        reporters = Reporters(reporter_settings(PROM), "my job", job_details)
        reporters.start()
        (url,) = reporters.addresses
        yield url
        reporters.close()
        with pytest.raises(urllib.error.URLError):
            urllib.request.urlopen(url, timeout=SECONDS)

    def test_answers_with_text(self, url):
        with urllib.request.urlopen(url, timeout=SECONDS) as answer:
            assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            assert b"\nflink_taskmanager_job_task_num_records_in_total{" in answer.read()
        with urllib.request.urlopen(f"{url}?names=flink", timeout=SECONDS) as answer:
            assert b"\nflink_taskmanager_job_task_numRecordsIn{" in answer.read()

    @pytest.mark.parametrize(
        ("method", "path", "status", "text"),
        [
            ("GET", "/other", 404, "the metrics are at /metrics\n"),
            ("POST", "/metrics", 405, "only GET is allowed\n"),
            ("GET", "/metrics?names=graphite", 400, "names must be one of prometheus, flink, got 'graphite'\n"),
        ],
    )
    def test_refuses_what_it_has_not(self, url, method, path, status, text):
        connection = http.client.HTTPConnection(url.split("/")[2], timeout=SECONDS)
        connection.request(method, path)
        answer = connection.getresponse()
        assert (answer.status, answer.read().decode()) == (status, text)
        connection.close()

    def test_takes_the_first_free_port_and_without_one_goes_on(self, caplog):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            none = Reporters(settings(prom__port=str(port)), "my job", job_details)
            none.start()
            assert none.addresses == []
            none.close()
            assert f"port {port} is in use on 127.0.0.1, so the metrics of this job are not served" in caplog.text
            if port < 65500:
                several = Reporters(settings(prom__port=f"{port}-{port + 30}"), "my job", job_details)
                several.start()
                (url,) = several.addresses
                assert port < int(url.split(":")[2].split("/")[0]) <= port + 30
                several.close()
