"""An app with only the REST API, over sample jobs."""

from __future__ import annotations

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from tests.unit.server.samples import HOSTS, SampleJobs

from flintstream.server.rest import RestSettings, add_rest


@pytest.fixture
def jobs():
    return SampleJobs()


@pytest.fixture
def settings(tmp_path):
    server_log = tmp_path / "server.log"
    server_log.write_text("the server has started\n")
    return RestSettings(
        uploads=tmp_path / "uploads",
        configuration={"rest.port": "8081"},
        logs=lambda: {"server.log": str(server_log)},
        host=HOSTS[0],
        longest_upload=100_000,
    )


@pytest.fixture
def app(jobs, settings):
    found = FastAPI()
    add_rest(found, jobs, settings)
    return found


@pytest.fixture
def client(app):
    with TestClient(app, raise_server_exceptions=True) as found:
        yield found
