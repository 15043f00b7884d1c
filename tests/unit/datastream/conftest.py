"""An environment that records programs, and a stand-in for the job master that runs none."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from flintstream.common import CompletableFuture, JobStatus
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.environment_settings import EnvironmentSettings
from flintstream.jobmaster.settings import JobSettings

_VARIABLES = (
    "FLINT_CONF_DIR",
    "FLINT_CONF_OVERRIDES",
    "FLINT_PLAN_ONLY",
    "FLINT_SPARK_MASTER",
    "SPARK_MASTER",
    "MASTER",
)


@pytest.fixture(autouse=True)
def _clean_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(EnvironmentSettings, "_default_local_parallelism", None)
    pyspark = sys.modules.get("pyspark")
    if pyspark is not None:  # another test of this process may have a Spark running
        monkeypatch.setattr(pyspark.SparkContext, "_active_spark_context", None, raising=False)


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    environment = StreamExecutionEnvironment.get_execution_environment()
    return environment.set_parallelism(2)


class FakeClient:
    """A client of a job that is over, or runs for ever."""

    def __init__(self, records: list[Any], error: BaseException | None, running: bool) -> None:
        self.records = records
        self.error = error
        self.status = JobStatus.RUNNING if running else JobStatus.FINISHED
        self.cancelled = False

    def get_job_status(self) -> CompletableFuture:
        return _completed(self.status)

    def get_job_execution_result(self) -> CompletableFuture:
        future: Future[Any] = Future()
        if self.error is None:
            future.set_result("the result")
        else:
            future.set_exception(self.error)
        return CompletableFuture(future)

    def cancel(self) -> CompletableFuture:
        self.cancelled = True
        self.status = JobStatus.CANCELED
        return _completed(None)

    def iterate(self, collector_id: str) -> Iterator[Any]:
        self.collector_id = collector_id
        return iter(self.records)


class FakeCluster:
    """Remembers what was submitted."""

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.error: BaseException | None = None
        self.running = False
        self.submitted: list[tuple[Any, JobSettings]] = []
        self.clients: list[FakeClient] = []

    def submit(self, graph: Any, settings: JobSettings) -> FakeClient:
        self.submitted.append((graph, settings))
        self.clients.append(FakeClient(self.records, self.error, self.running))
        return self.clients[-1]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    fake = FakeCluster()
    module = types.ModuleType("flintstream.jobmaster.submission")
    module.submit = fake.submit  # type: ignore[attr-defined]
    module.JobSettings = JobSettings  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "flintstream.jobmaster.submission", module)
    return fake


def _completed(value: Any) -> CompletableFuture:
    future: Future[Any] = Future()
    future.set_result(value)
    return CompletableFuture(future)
