"""An app with only the REST API, over sample jobs. It is built once a module, which takes a second."""

from __future__ import annotations

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from tests.unit.server.samples import HOSTS, SampleJobs

from flintstream.server.rest import RestSettings, add_rest

LONGEST_UPLOAD = 100_000


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    directory = tmp_path_factory.mktemp("server")
    server_log = directory / "server.log"
    server_log.write_text("the server has started\n")
    return RestSettings(
        uploads=directory / "uploads",
        configuration={"rest.port": "8081"},
        logs=lambda: {"server.log": str(server_log)},
        host=HOSTS[0],
        longest_upload=LONGEST_UPLOAD,
    )


@pytest.fixture(scope="module")
def shared_jobs():
    return SampleJobs()


@pytest.fixture(scope="module")
def app(shared_jobs, settings):
    found = FastAPI()
    add_rest(found, shared_jobs, settings)
    return found


@pytest.fixture(scope="module")
def shared_client(app):
    with TestClient(app) as found:
        yield found


@pytest.fixture
def jobs(shared_jobs):
    """The jobs that the client asks for, as if nothing had happened to them."""
    shared_jobs.reset()
    return shared_jobs


@pytest.fixture
def client(shared_client, jobs):
    return shared_client
