"""Whether a pipelined job can run on a cluster, without one."""

from __future__ import annotations

import resource
from itertools import chain, repeat
from multiprocessing import Pipe
from types import SimpleNamespace
from typing import Any

import pytest

from flintstream.spark import standing
from flintstream.spark.session import PIPELINED_DEFAULTS


class FakeCluster:
    """A session on a cluster whose executors register one after another."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *tasks: int, seconds: float = 60.0, **settings: str) -> None:
        self._tasks = chain(tasks, repeat(tasks[-1]))
        self.clock = 0.0
        given = PIPELINED_DEFAULTS | {key.replace("_", "."): value for key, value in settings.items()}
        conf = SimpleNamespace(getTimeAsMs=lambda key, default: int(seconds * 1000))
        jvm = SimpleNamespace(
            conf=lambda: conf,
            dagScheduler=lambda: SimpleNamespace(maxConcurrentTasksForProfile=lambda profile: next(self._tasks)),
        )
        self.sparkContext = SimpleNamespace(
            master="spark://host:7077",
            applicationId="app",
            getConf=lambda: SimpleNamespace(get=lambda key, default=None: given.get(key, default)),
            _jsc=SimpleNamespace(sc=lambda: jvm),
        )
        field = SimpleNamespace(getDeclaredField=lambda name: None)
        monkeypatch.setattr(standing, "job_session", lambda spark: spark)
        monkeypatch.setattr(standing, "_standing", lambda *arguments: None)
        monkeypatch.setattr(standing, "_exchange_of", lambda frame: SimpleNamespace(getClass=lambda: field))
        monkeypatch.setattr(standing, "time", SimpleNamespace(monotonic=lambda: self.clock, sleep=self._sleep))

    def _sleep(self, seconds: float) -> None:
        self.clock += seconds

    def missing(self, slots: int = 2, **options: Any) -> str | None:
        return standing.missing(self, slots, **options)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def no_application_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing, "_seen", {})


def test_executors_may_register_late(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(monkeypatch, *[0] * 50, *[4] * 10, 8)
    assert cluster.missing() is None
    assert standing._seen == {"app": 8}, "the second one is waited for, though the first would do"
    assert cluster.clock == pytest.approx(6 + standing._SETTLE_SECONDS, abs=0.5)


def test_too_few_task_slots_are_reported_after_the_time_that_spark_gives_executors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = FakeCluster(monkeypatch, 0, 2, seconds=7.0)
    reason = cluster.missing()
    assert reason is not None and reason.startswith("it needs 4 tasks at the same time, and Spark runs 2: ")
    assert "spark.task.cpus" in reason
    assert cluster.clock == pytest.approx(7.0, abs=0.5)
    assert cluster.missing() == reason
    assert cluster.clock == pytest.approx(7.0, abs=0.5), "the next attempt knows that no more will come"


def test_a_lost_executor_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(monkeypatch, *[4] * 50, 8)
    standing._seen["app"] = 8
    assert cluster.missing() is None
    assert cluster.clock == pytest.approx(5.0, abs=0.5)


def test_a_cancelled_job_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def cancelled() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        FakeCluster(monkeypatch, 0).missing(check=cancelled)


@pytest.mark.parametrize("setting", ["spark_network_crypto_enabled", "spark_ssl_rpc_enabled"])
def test_where_connections_are_to_be_encrypted_no_job_is_pipelined(
    monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    reason = FakeCluster(monkeypatch, 8, **{setting: "true"}).missing()
    assert reason is not None and "encrypts nothing" in reason and setting.replace("_", ".") in reason


def test_a_session_of_the_users_must_have_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    reason = FakeCluster(monkeypatch, 8, spark_shuffle_streaming_networkBufferSize="32768").missing()
    assert reason == "its Spark session was started without spark.shuffle.streaming.networkBufferSize=1"


@pytest.mark.parametrize(
    ("slots", "most", "fits"),
    [
        (64, 20_000, False),
        (48, 20_000, True),
        (64, 524_288, True),
        (64, resource.RLIM_INFINITY, True),
        (16, 1024, False),
    ],
)
def test_the_open_files_of_one_jvm_allow_for_so_many_slots(
    monkeypatch: pytest.MonkeyPatch, slots: int, most: int, fits: bool
) -> None:
    monkeypatch.setattr(standing.resource, "getrlimit", lambda which: (min(1024, most), most))
    cluster = FakeCluster(monkeypatch, 2 * slots)
    assert cluster.missing(slots) is None, "the executors of a cluster have limits of their own"
    cluster.sparkContext.master = f"local[{2 * slots}]"
    reason = cluster.missing(slots)
    assert (reason is None) == fits
    assert fits or (reason is not None and f"for {slots} slots" in reason and str(most) in reason)


def test_the_last_row_to_each_slot_is_followed_by_an_empty_one_also_behind_large_ones(monkeypatch):
    """A receiver holds a row back until the next one arrives, for up to a second."""
    ours, slots = Pipe()
    monkeypatch.setattr(standing._Sender, "_join", lambda task, sends: ours)
    monkeypatch.setattr(standing, "end_if_hung_up", lambda: None)
    frames: Any = standing.queue.SimpleQueue()
    monkeypatch.setattr(standing, "queue", SimpleNamespace(SimpleQueue=lambda: frames))
    monkeypatch.setattr(standing, "_receive", lambda connection, received: None)
    large = b"x" * standing._ROW_BYTES
    for slot, pack in [(0, b"small"), (1, large), (2, b"last")]:
        frames.put(standing._TARGET.pack(slot) + pack)
    access: Any = None
    batches = standing._Sender("job", 0, access)(iter(()))
    first, second = next(batches), next(batches)
    assert first.column(0).to_pylist() == [0, 1]
    assert second.column(0).to_pylist() == [2, 0, 1, 2]
    assert second.column(1).to_pylist() == [b"last", b"", b"", b""]
    frames.put(None)
    assert list(batches) == []
    slots.close()
