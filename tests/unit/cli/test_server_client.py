"""The commands against a job server with a token and TLS, and what they say when something is wrong."""

from __future__ import annotations

import pytest
from tests.connectors.certificates import write_certificates
from tests.job_server import JobServer

from flintstream.cli.server_client import ServerClient, ServerError, choose_server


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    place = tmp_path_factory.mktemp("tls")
    write_certificates(place / "authority.pem", place / "server.pem")
    files = ("--cert", str(place / "server.pem"), "--key", str(place / "server.pem"))
    found = JobServer("--token-file", str(place / "token"), *files)
    found.start()
    found.authority, found.token_file = place / "authority.pem", place / "token"
    yield found
    found.clean_up()


def test_a_server_with_a_token_and_tls_is_asked(server, monkeypatch):
    assert server.url.startswith("https://127.0.0.1:")
    assert "CERTIFICATE_VERIFY_FAILED" in server.flint("list", "-m", server.url, fails=True)
    monkeypatch.setitem(server.environment, "SSL_CERT_FILE", str(server.authority))
    assert "needs a token: name its file with FLINT_SERVER_TOKEN_FILE" in server.flint(
        "list", "-m", server.url, fails=True
    )
    monkeypatch.setitem(server.environment, "FLINT_SERVER_TOKEN_FILE", str(server.token_file))
    assert server.flint("list", "-m", server.url) == "No jobs are running.\n"
    assert "no running job has an id or a name" in server.flint("cancel", "-m", server.url, "clicks", fails=True)
    assert server.token_file.read_text().strip() not in server.log()


@pytest.mark.parametrize("address", ["http://", "ftp://host:1", "host:x", "http://host:1/path"])
def test_an_address_that_is_none_is_refused(address):
    with pytest.raises(ServerError, match="HOST:PORT|no valid port"):
        ServerClient(address if "://" in address else f"http://{address}")


def test_the_server_is_chosen_by_option_then_by_settings_then_by_who_runs(server, monkeypatch):
    monkeypatch.delenv("FLINT_CONF_DIR", raising=False)
    monkeypatch.setenv("FLINT_JOBS_DIR", server.environment["FLINT_JOBS_DIR"])
    settings = {"rest.address": "node", "rest.port": "9000"}
    assert choose_server("other:1", settings).url == "http://other:1"
    assert choose_server(None, settings).url == "http://node:9000"
    assert choose_server(None, {**settings, "security.ssl.rest.enabled": "true"}).url == "https://node:9000"
    assert choose_server(None).url == server.url


def test_without_any_server_the_default_port_of_flink_is_tried(monkeypatch, tmp_path):
    monkeypatch.delenv("FLINT_CONF_DIR", raising=False)
    monkeypatch.setenv("FLINT_JOBS_DIR", str(tmp_path / "nothing"))
    assert choose_server(None).url == "http://127.0.0.1:8081"
