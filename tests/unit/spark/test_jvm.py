"""The JVM as a process, played by others."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
from types import SimpleNamespace

import pytest
from py4j.java_gateway import GatewayClient
from py4j.protocol import ERROR_ON_RECEIVE, Py4JNetworkError
from pyspark import java_gateway
from tests.faults.helpers import wait_until
from tests.processes import alive

from flintstream.spark import jvm
from flintstream.spark.jvm import broken_off_cleanly, end_of_jvm, kill_jvm

# A process with a child, whose number it tells.
PARENT = "import subprocess; print(subprocess.Popen(['sleep', '300']).pid, flush=True); import time; time.sleep(300)"


def start(program: str = PARENT) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, start_new_session=True)


def gateway(process, port: int):
    return SimpleNamespace(proc=process, gateway_parameters=SimpleNamespace(address="127.0.0.1", port=port))


@pytest.fixture
def port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_one_that_lives_has_not_ended(port):
    process = start()
    assert end_of_jvm(gateway(process, port)) is None
    assert end_of_jvm(gateway(None, port)) is None, "spark-submit has started it"
    kill_jvm(process)
    process.communicate()


def test_the_signal_that_killed_it_is_named():
    process = start("import time; time.sleep(300)")
    process.kill()
    assert end_of_jvm(gateway(process, free_port())) == f"(process {process.pid}) was killed by SIGKILL"
    process.communicate()


def test_so_is_its_exit_code():
    process = start("raise SystemExit(3)")
    process.communicate()
    assert end_of_jvm(gateway(process, free_port())) == f"(process {process.pid}) has ended with exit code 3"


def test_one_that_was_started_by_others_and_no_longer_answers(port):
    assert end_of_jvm(gateway(None, free_port())) == "no longer answers"


def test_one_that_lives_and_does_not_listen_is_not_waited_for_without_end(monkeypatch):
    monkeypatch.setattr(jvm, "_WAIT_SECONDS", 0.01)
    process = start()
    assert end_of_jvm(gateway(process, free_port())) is None
    kill_jvm(process)
    process.communicate()


def test_it_is_killed_with_its_children():
    process = start()
    child = int(process.stdout.readline())
    kill_jvm(process)
    assert process.returncode == -signal.SIGKILL
    wait_until(lambda: not alive(child), what="the end of the child")
    process.communicate()


@pytest.mark.parametrize("when", ["while it starts", "later"])
def test_a_start_that_is_broken_off_leaves_no_process(monkeypatch, tmp_path, when):
    begun = []

    def popen(*arguments, **options):
        begun.append(subprocess.Popen(*arguments, **options))
        if when == "while it starts":
            signal.raise_signal(signal.SIGINT)
        return begun[-1]

    monkeypatch.setattr(java_gateway, "Popen", popen)
    monkeypatch.setattr(jvm, "forget_spark", lambda: None)
    with pytest.raises(KeyboardInterrupt), broken_off_cleanly(tmp_path):
        java_gateway.Popen([sys.executable, "-c", PARENT], stdout=subprocess.DEVNULL)
        raise KeyboardInterrupt
    assert [process.returncode for process in begun] == [-signal.SIGKILL]
    assert java_gateway.Popen is popen
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN


def test_what_pyspark_writes_while_it_starts_is_ours(tmp_path):
    with broken_off_cleanly(tmp_path):
        assert os.path.dirname(java_gateway.tempfile.mkdtemp()) == str(tmp_path)


def test_what_py4j_logs_of_a_broken_connection_is_not_shown(caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger(), "filters", [])
    client = GatewayClient()
    # As when the JVM dies with a call in flight, and its socket is reset.
    monkeypatch.setattr(client, "_get_connection", ResetConnection)
    client.send_command("c\n")
    assert len(caplog.records) == 1, "py4j logs it on the root logger"
    caplog.clear()
    jvm.hush(SimpleNamespace())
    client.send_command("c\n")
    logging.error("of the program")
    assert [record.getMessage() for record in caplog.records] == ["of the program"]


class ResetConnection:
    def send_command(self, command: str) -> str:
        raise Py4JNetworkError("reset", when=ERROR_ON_RECEIVE)

    def close(self, reset: bool = False) -> None: ...
