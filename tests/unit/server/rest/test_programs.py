"""Programs: uploaded, listed, planned, run and deleted, and what is refused."""

from __future__ import annotations

import io
import stat
import zipfile
from pathlib import Path

import pytest
from tests.unit.server.rest.conftest import LONGEST_UPLOAD
from tests.unit.server.samples import JOB

PROGRAM = """
import sys
from flintstream.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1, 2]).map(lambda n: n + 1).name("add").print()
print("noise on standard output", sys.argv[1:])
env.execute("numbers of " + sys.argv[1])
"""


def archive(**files):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as packed:
        for name, text in files.items():
            packed.writestr(name.replace("__slash__", "/").replace("__dot__", "."), text)
    return data.getvalue()


def upload(client, name, data):
    return client.post("/jars/upload", files={"jarfile": (name, data)})


@pytest.fixture
def program(client):
    name = Path(upload(client, "words.py", PROGRAM.encode()).json()["filename"]).name
    yield name
    client.delete(f"/jars/{name}")


def test_an_uploaded_program_is_listed_and_deleted(client, settings):
    answer = upload(client, "words.py", PROGRAM.encode())
    assert (answer.status_code, answer.json()["status"]) == (200, "success")
    path = Path(answer.json()["filename"])
    assert path.parent == settings.uploads
    assert path.read_text() == PROGRAM
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    (listed,) = client.get("/jars").json()["files"]
    assert (listed["id"], listed["name"], listed["entry"]) == (path.name, "words.py", [])
    assert listed["uploaded"] > 0
    assert client.delete(f"/jars/{path.name}").status_code == 200
    assert client.delete(f"/jars/{path.name}").status_code == 404
    assert list(settings.uploads.iterdir()) == []


def test_an_archive_lists_the_modules_that_can_be_run(client):
    data = archive(main__dot__py="", shop__slash____main____dot__py="", shop__slash__other__dot__py="")
    path = Path(upload(client, "shop-1.0-py3-none-any.whl", data).json()["filename"])
    (listed,) = client.get("/jars").json()["files"]
    assert [each["name"] for each in listed["entry"]] == ["main", "shop"]
    assert client.post(f"/jars/{path.name}/run").status_code == 400, "it has no __main__.py"
    assert client.post(f"/jars/{path.name}/run", json={"entryClass": "no module"}).status_code == 400
    assert client.post(f"/jars/{path.name}/run?entry-class=shop").json() == {"jobid": "c0" * 16}
    client.delete(f"/jars/{path.name}")


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("../../etc/passwd.py", "passwd.py"),
        ("..\\..\\windows.py", "windows.py"),
        (".py", None),
        ("a b&c;'.py", "a_b_c_.py"),
        ("naïve.PY", "na_ve.py"),
        ("x" * 300 + ".py", "x" * 100 + ".py"),
        ("program.jar", None),
        ("program", None),
        ("..", None),
    ],
)
def test_names_are_safe(client, settings, name, stored):
    answer = upload(client, name, b"print()")
    if stored is None:
        assert answer.status_code == 400
        return
    path = Path(answer.json()["filename"])
    assert path.parent == settings.uploads
    assert path.name.partition("_")[2] == stored
    client.delete(f"/jars/{path.name}")


def test_what_is_no_program_is_refused_and_leaves_nothing(client, settings):
    assert upload(client, "words.py", b"").status_code == 400
    assert upload(client, "words.zip", b"no archive").status_code == 400
    assert upload(client, "words.py", b"#" * (LONGEST_UPLOAD + 1)).status_code == 413
    assert upload(client, "words.py", b"#" * (2 * LONGEST_UPLOAD)).status_code == 413
    two = [("jarfile", ("a.py", b"1")), ("jarfile", ("b.py", b"2"))]
    assert client.post("/jars/upload", files=two).status_code == 400
    assert client.post("/jars/upload", json={}).status_code == 400
    assert client.post("/jars/upload", content=b"x", headers={"content-type": "multipart/form-data"}).status_code == 400
    assert client.get("/jars").json()["files"] == []
    assert not settings.uploads.exists() or list(settings.uploads.iterdir()) == []


@pytest.mark.parametrize("program_id", ["x", "..%2Fserver.log", "%2e%2e%2f%2e%2e%2fetc%2fpasswd", "%00"])
def test_only_programs_can_be_named(client, program_id):
    for method, path in (("DELETE", ""), ("POST", "/run"), ("POST", "/plan")):
        assert client.request(method, f"/jars/{program_id}{path}").status_code == 404


def test_running_a_program(client, jobs, program):
    query = "programArg=a,b&parallelism=3&savepointPath=/savepoints/1&allowNonRestoredState=true"
    assert client.post(f"/jars/{program}/run?{query}").json() == {"jobid": "c0" * 16}
    body = {
        "programArgsList": ["c, d"],
        "parallelism": 4,
        "jobId": JOB,
        "flinkConfiguration": {"execution.checkpointing.interval": "1 s"},
    }
    assert client.post(f"/jars/{program}/run?{query}", json=body).json() == {"jobid": JOB}
    first, second = jobs.submitted
    assert Path(first.program).name == program
    assert first.arguments == ("a", "b")
    assert dict(first.settings) == {
        "parallelism.default": "3",
        "execution.state-recovery.path": "/savepoints/1",
        "execution.state-recovery.ignore-unclaimed-state": "true",
    }
    assert second.arguments == ("c, d",), "the body comes before the query"
    assert second.settings["parallelism.default"] == "4"
    assert second.settings["execution.checkpointing.interval"] == "1 s"
    client.post(f"/jars/{program}/run", json={"programArgs": "--shop 'new york'", "entryClass": None})
    assert jobs.submitted[-1].arguments == ("--shop", "new york"), "as Flink's dashboard sends them"
    application = client.post(f"/jars/{program}/run-application", json={"jobId": JOB})
    assert (application.status_code, application.json()) == (202, {"applicationid": JOB})


@pytest.mark.parametrize(
    "body",
    [
        {"parallelism": 0},
        {"parallelism": "2"},
        {"jobId": "x"},
        {"claimMode": "CLAIM"},
        {"entryClass": "module"},
        {"programArgsList": ["a\0b"]},
        {"flinkConfiguration": {"a": 1}},
        {"programArgs": "an 'open quote"},
        {"unknown": 1},
    ],
)
def test_wrong_requests_to_run(client, jobs, program, body):
    assert client.post(f"/jars/{program}/run", json=body).status_code == 400
    assert jobs.submitted == []


def test_the_plan_is_made_by_another_process(client, program):
    plan = client.post(f"/jars/{program}/plan?programArg=shops&parallelism=2").json()["plan"]
    assert plan["name"] == "numbers of shops"
    last = plan["nodes"][-1]
    assert "add" in last["description"]
    assert {node["parallelism"] for node in plan["nodes"]} <= {1, 2}
    assert all(len(node["id"]) == 32 for node in plan["nodes"])
    shown = client.get(f"/jars/{program}/plan?program-args=shops").json()["plan"]
    assert shown["name"] == plan["name"]
    failed = client.post(f"/jars/{program}/plan")
    assert failed.status_code == 400
    assert "IndexError" in failed.json()["errors"][0]
