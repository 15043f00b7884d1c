"""The server as Flink's JobManager, and hosts as task managers."""

from __future__ import annotations

from tests.unit.server.samples import HOSTS, JOB

from flintstream import __version__


def test_overview_and_configuration(client):
    overview = client.get("/overview").json()
    assert (overview["taskmanagers"], overview["slots-total"]) == (2, 2)
    assert (overview["jobs-running"], overview["jobs-finished"], overview["jobs-failed"]) == (1, 1, 1)
    assert overview["flink-version"] == __version__
    assert client.get("/config").json()["features"]["web-submit"] is True
    assert client.get("/jobmanager/config").json() == [{"key": "rest.port", "value": "8081"}]


def test_hosts_of_slots_are_task_managers(client, jobs):
    first, second = client.get("/taskmanagers").json()["taskmanagers"]
    assert (first["id"], second["id"]) == HOSTS
    assert (second["slotsNumber"], second["freeSlots"], second["assignedTasks"]) == (1, 0, 3)
    assert first["hardware"]["cpuCores"] > 0
    assert second["hardware"]["cpuCores"] == 0, "it is another machine"
    detail = client.get(f"/taskmanagers/{HOSTS[1]}").json()
    assert detail["allocatedSlots"][0]["jobId"] == JOB
    assert detail["metrics"]["heapUsed"] == 80 << 20
    jobs.known.clear()
    assert [each["id"] for each in client.get("/taskmanagers").json()["taskmanagers"]] == [HOSTS[0]]
    assert client.get(f"/taskmanagers/{HOSTS[1]}").status_code == 404


def test_logs(client, jobs, tmp_path):
    output = tmp_path / "stdout.log"
    output.write_text("words\n")
    jobs.logs[JOB] = {"stdout.log": str(output), "stderr.log": str(tmp_path / "missing")}
    names = [each["name"] for each in client.get("/jobmanager/logs").json()["logs"]]
    assert names == [f"{JOB}-stdout.log", "server.log"]
    assert client.get("/jobmanager/log").text == "the server has started\n"
    assert client.get("/jobmanager/stdout").text == "(log file unavailable)"
    assert client.get(f"/jobmanager/logs/{JOB}-stdout.log").text == "words\n"
    for missing in (f"{JOB}-stderr.log", "other", "..%2F..%2Fetc%2Fpasswd"):
        assert client.get(f"/jobmanager/logs/{missing}").status_code == 404
    assert client.get(f"/taskmanagers/{HOSTS[0]}/stdout").text == "words\n"
    assert client.get(f"/taskmanagers/{HOSTS[0]}/logs/{JOB}-stdout.log").text == "words\n"
    assert client.get(f"/taskmanagers/{HOSTS[1]}/logs").json() == {"logs": []}


def test_thread_dumps(client, jobs):
    threads = client.get("/jobmanager/thread-dump").json()["threadInfos"]
    assert any(each["threadName"] == "MainThread" for each in threads)
    slots = client.get(f"/taskmanagers/{HOSTS[1]}/thread-dump").json()["threadInfos"]
    assert jobs.asked == [(JOB, "threads", {"slot": 1})]
    assert "slot.py" in slots[0]["stringifiedThreadInfo"]
    del jobs.answers["threads"]
    silent = client.get(f"/taskmanagers/{HOSTS[1]}/thread-dump").json()["threadInfos"]
    assert "does not answer" in silent[0]["stringifiedThreadInfo"]


def test_a_server_that_cannot_be_shut_down_says_so(client):
    assert client.delete("/cluster").status_code == 403
