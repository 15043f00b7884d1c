"""Who may use the server: token, cookie, names, origins and sizes, asked of the whole application."""

from __future__ import annotations

import io
import json
import stat
import zipfile
from functools import cache

import pytest
from fastapi.testclient import TestClient
from tests.unit.server.samples import JOB, SampleJobs

from flintstream.common.token_file import SecurityError
from flintstream.server.app import create_app
from flintstream.server.security import MAX_BODY, Token
from flintstream.server.settings import ServerSettings

TOKEN = "correct-horse-battery-staple"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def client_of(place):
    """Makes clients; applications are shared, since a new one takes most of a second."""

    @cache
    def app_of(token, settings):
        return create_app(
            SampleJobs(), ServerSettings(place, **dict(settings)), None if token is None else Token(token)
        )

    def make(token=None, base_url="http://127.0.0.1:8081", **settings):
        app = app_of(token, tuple(sorted(settings.items())))
        app.state.jobs.asked.clear()
        app.state.jobs.submitted.clear()
        return TestClient(app, base_url=base_url, raise_server_exceptions=True)

    return make


@pytest.fixture
def client(client_of):
    return client_of()


@pytest.fixture
def guarded(client_of):
    return client_of(TOKEN)


def refused(answer, status):
    assert answer.status_code == status
    assert list(answer.json()) == ["errors"]
    return answer.json()["errors"][0]


# --- the token ---


@pytest.mark.parametrize(
    "headers",
    [{}, {"Authorization": f"Bearer {TOKEN}x"}, {"Authorization": f"Basic {TOKEN}"}, {"Cookie": "flint-session=x"}],
)
@pytest.mark.parametrize("path", ["/overview", "/jobs", "/v1/jobs", "/nothing", "/openapi.json", "/metrics"])
def test_without_the_token_there_is_no_answer(guarded, path, headers):
    answer = guarded.get(path, headers=headers)
    refused(answer, 401)
    assert answer.headers["www-authenticate"] == "Bearer"
    assert TOKEN not in answer.text


def test_with_the_token_there_is(guarded):
    assert guarded.get("/overview", headers=BEARER).status_code == 200


def test_the_token_is_not_taken_from_the_url(guarded):
    refused(guarded.get(f"/overview?token={TOKEN}&access_token={TOKEN}"), 401)


def test_a_page_sends_the_token_once_and_then_has_a_cookie_that_does_not_reveal_it(guarded):
    assert guarded.get("/login").json() == {"required": True, "authenticated": False}
    refused(guarded.post("/login", json={"token": "wrong"}), 401)
    answer = guarded.post("/login", json={"token": TOKEN})
    assert answer.status_code == 204
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and TOKEN not in cookie
    assert guarded.get("/overview").status_code == 200
    assert guarded.get("/login").json() == {"required": True, "authenticated": True}
    guarded.delete("/login")
    refused(guarded.get("/overview"), 401)


@pytest.mark.parametrize("body", [b"", b"no json", b"[]", b'{"token": 3}', b"\xff\xfe", b"{" * 10_000])
def test_a_login_that_is_none_is_refused(guarded, body):
    refused(guarded.post("/login", content=body), 400)


def test_the_cookie_is_for_https_only_where_the_server_has_a_certificate(client_of, tmp_path):
    files = {"certificate": tmp_path / "c", "certificate_key": tmp_path / "k"}
    client = client_of(TOKEN, "https://127.0.0.1:8081", **files)
    assert "Secure" in client.post("/login", json={"token": TOKEN}).headers["set-cookie"]


def test_the_token_file_is_created_privately_and_read_again(tmp_path):
    path = tmp_path / "token"
    first = Token.read_or_create(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert first.matches(path.read_text().strip())
    assert Token.read_or_create(path).session == first.session


@pytest.mark.parametrize(
    ("content", "mode", "told"),
    [("short", 0o600, "at least 16"), ("a" * 40, 0o640, "mode 0600"), ("two words " * 4, 0o600, "without spaces")],
)
def test_a_token_file_that_is_not_safe_is_refused(tmp_path, content, mode, told):
    path = tmp_path / "token"
    path.write_text(content)
    path.chmod(mode)
    with pytest.raises(SecurityError, match=told):
        Token.read_or_create(path)


# --- names and origins ---


@pytest.mark.parametrize("host", ["localhost:8081", "127.0.0.1", "[::1]:8081", "192.168.1.7:80", "flint.example"])
def test_own_names_are_accepted(client_of, host):
    client = client_of(allowed_hosts=("flint.example",))
    assert client.get("/overview", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8081", "", "127.0.0.1.evil.example", "[", "localhost@evil"]
)
def test_foreign_names_are_refused(client, host):
    refused(client.get("/overview", headers={"Host": host}), 403)


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "http://localhost:8081", "http://[", ""]
)
def test_requests_of_pages_from_elsewhere_are_refused(client, origin):
    for method in ("GET", "POST", "PATCH", "DELETE", "OPTIONS"):
        refused(client.request(method, f"/jobs/{JOB}", headers={"Origin": origin}), 403)


def test_requests_of_the_own_page_are_accepted(client):
    headers = {"Origin": "http://127.0.0.1:8081", "Sec-Fetch-Site": "same-origin"}
    assert client.patch(f"/jobs/{JOB}?mode=cancel", headers=headers).status_code == 202


def test_an_image_on_another_site_cancels_nothing(client):
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    refused(client.get(f"/jobs/{JOB}/yarn-cancel", headers=headers), 403)
    headers["Sec-Fetch-Mode"] = "navigate"
    refused(client.get(f"/jobs/{JOB}/yarn-cancel", headers=headers), 403)


def test_no_answer_may_be_framed_sniffed_or_read_by_others(client):
    headers = client.get("/overview").headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "access-control-allow-origin" not in headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"


# --- sizes and shapes of bodies ---


def test_bodies_are_bounded(client_of):
    client = client_of(max_upload_size=1000)
    refused(client.post("/login", content=b" " * (MAX_BODY + 1)), 413)
    refused(client.post("/programs", content=b" " * 1001), 413)
    refused(client.post("/jars/upload", content=b" " * 1001), 413)
    refused(client.post("/login", content=iter([b" " * (1 << 20)] * 8)), 413)
    refused(client.post("/programs", content=iter([b" " * 600] * 2)), 413)
    assert client.post("/login", content=b"x", headers={"Content-Length": "many"}).status_code in (400, 413)


def archive(*entries, submission=None):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in entries:
            packed.writestr(name, content)
        if submission is not None:
            packed.writestr("submission.json", submission if isinstance(submission, str) else json.dumps(submission))
    return file.getvalue()


GOOD = {"program": "files/0/job.py", "arguments": ["a"], "settings": {"python.files": "flint-archive:files/1/lib.py"}}
FILES = (("files/0/job.py", "print()"), ("files/1/lib.py", ""))


def test_a_program_is_taken_with_its_files(client_of, place):
    client = client_of()
    answer = client.post("/programs", content=archive(*FILES, submission=GOOD))
    assert (answer.status_code, answer.json()) == (202, {"jobid": "c0" * 16})
    (submission,) = client.app.state.jobs.submitted
    assert submission.program.endswith("files/0/job.py")
    assert submission.settings["python.files"].endswith("files/1/lib.py")
    assert "flint-archive" not in submission.settings["python.files"]
    assert not list(place.glob("incoming-*"))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no archive",
        archive(),
        archive(submission="no json"),
        archive(submission=[]),
        archive(submission={"program": "files/0/job.py"}),
        archive(*FILES, submission={**GOOD, "program": "../../../etc/passwd"}),
        archive(*FILES, submission={**GOOD, "program": "/etc/passwd"}),
        archive(*FILES, submission={**GOOD, "program": 3}),
        archive(*FILES, submission={**GOOD, "arguments": "a"}),
        archive(*FILES, submission={**GOOD, "settings": {"a": 1}}),
        archive(*FILES, submission={**GOOD, "settings": {"python.files": "flint-archive:../x"}}),
        archive(*FILES, ("../outside", "x"), submission=GOOD),
        archive(*FILES, ("/outside", "x"), submission=GOOD),
        archive(*FILES, ("a\\..\\b", "x"), submission=GOOD),
        archive(*FILES, ("bomb", "0" * 200_000), submission=GOOD),
    ],
)
def test_a_program_that_is_none_is_refused_and_leaves_nothing(client_of, place, body):
    client = client_of(max_upload_size=100_000)
    refused(client.post("/programs", content=body), 400)
    assert not list(place.glob("incoming-*"))
    assert not (place.parent / "outside").exists() and not (place / "outside").exists()
    assert client.app.state.jobs.submitted == []


def test_submitting_and_cancelling_can_be_switched_off(client_of):
    client = client_of(submit_enabled=False, cancel_enabled=False)
    assert "web.submit.enable" in refused(client.post("/programs", content=archive(*FILES, submission=GOOD)), 403)
    assert client.post("/jars/upload", files={"jarfile": ("a.py", b"print()")}).status_code in (403, 404)
    assert client.patch(f"/jobs/{JOB}?mode=cancel").status_code == 403
    assert client.app.state.jobs.asked == []


def test_unknown_paths_and_methods_are_answered_in_flinks_shape(client):
    refused(client.get("/nothing"), 404)
    refused(client.put("/overview"), 405)
