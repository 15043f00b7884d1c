"""Running: what is submitted, what comes back, and how it ends."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from flintstream.common import Configuration, Types
from flintstream.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from flintstream.datastream.data_stream import CloseableIterator
from flintstream.graph import InvalidProgramException

from .conftest import FakeCluster


def test_execute(env: StreamExecutionEnvironment, cluster: FakeCluster) -> None:
    env.from_collection([1]).print()
    result: Any = env.execute("my job")
    assert result == "the result"
    graph, settings = cluster.submitted[0]
    assert (graph.job_name, settings.job_name, settings.batch_mode) == ("my job", "my job", False)


def test_a_program_is_run_once(env: StreamExecutionEnvironment, cluster: FakeCluster) -> None:
    stream = env.from_collection([1])
    stream.print()
    env.execute()
    with pytest.raises(InvalidProgramException, match="nothing to execute"):
        env.execute()
    stream.map(lambda x: x)
    env.execute()
    assert [len(graph.nodes) for graph, _ in cluster.submitted] == [2, 2]


def test_settings_of_the_job(
    env: StreamExecutionEnvironment, cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.py", "b.zip", "c.py", "d.zip", "m.zip", "req.txt", "cache", "x"):
        Path(name).touch()
    env.configure(Configuration.from_dict({"my.key": 5, "python.files": "a.py,b.zip", "python.archives": "m.zip#m"}))
    env.get_config().set_global_job_parameters({"k": "v"})
    env.set_runtime_mode(RuntimeExecutionMode.AUTOMATIC)
    env.add_python_file("c.py")
    env.set_python_requirements("req.txt", "cache")
    env.add_python_archive("d.zip")
    env.set_python_executable(sys.executable)
    env.register_cached_file(str(tmp_path / "x"), "x", executable=True)
    env.from_collection([1]).print()
    env.execute_async()
    settings = cluster.submitted[0][1]
    assert settings.configuration["my.key"] == "5"
    assert settings.configuration["parallelism.default"] == "2"
    assert (settings.parameters, settings.batch_mode) == ({"k": "v"}, True)
    assert settings.python_files == ["a.py", "b.zip", "c.py"]
    assert settings.python_requirements == ("req.txt", "cache")
    assert settings.python_archives == [("m.zip", "m"), ("d.zip", None)]
    assert settings.python_executable == sys.executable
    assert (settings.cached_files, settings.executable_files) == ({"x": str(tmp_path / "x")}, {"x"})


def test_the_failure_of_the_job(env: StreamExecutionEnvironment, cluster: FakeCluster) -> None:
    cluster.error = RuntimeError("it broke")
    env.from_collection([1]).print()
    with pytest.raises(RuntimeError, match="it broke"):
        env.execute()


def test_control_c_cancels(env: StreamExecutionEnvironment, cluster: FakeCluster) -> None:
    cluster.error = KeyboardInterrupt()
    env.from_collection([1]).print()
    with pytest.raises(KeyboardInterrupt):
        env.execute()
    assert cluster.clients[0].cancelled


def test_plan_only(
    env: StreamExecutionEnvironment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FLINT_PLAN_ONLY", "1")
    env.from_collection([1], Types.INT()).map(lambda x: x).print()
    with pytest.raises(SystemExit) as exit:
        env.execute("planned")
    assert exit.value.code == 0
    shown = capsys.readouterr().out
    assert "'planned'" in shown
    assert "Map -> Sink: Print to Std. Out" in shown


def test_collecting(env: StreamExecutionEnvironment, cluster: FakeCluster) -> None:
    cluster.records = [1, 2, 3]
    results = env.from_collection([1]).execute_and_collect()
    assert isinstance(results, CloseableIterator)
    assert next(results) == 1
    assert results.next() == 2
    assert list(results) == [3]
    results.close()
    with pytest.raises(StopIteration):
        results.next()
    assert not cluster.clients[0].cancelled
    assert cluster.submitted[0][1].job_name == "DataStream Collect"


def test_collecting_raises_the_failure_at_the_end(env: StreamExecutionEnvironment, cluster: FakeCluster) -> None:
    cluster.records = [1]
    cluster.error = RuntimeError("it broke")
    results = env.from_collection([1]).execute_and_collect("named")
    assert next(results) == 1
    with pytest.raises(RuntimeError, match="it broke"):
        next(results)


def test_closing_cancels_a_job_that_runs(env: StreamExecutionEnvironment, cluster: FakeCluster) -> None:
    cluster.records = [1, 2, 3]
    cluster.running = True
    with env.from_collection([1]).execute_and_collect() as results:
        assert next(results) == 1
    assert cluster.clients[0].cancelled


def test_a_limit(env: StreamExecutionEnvironment, cluster: FakeCluster) -> None:
    cluster.records = [1, 2, 3]
    cluster.running = True
    assert env.from_collection([1]).execute_and_collect(limit=2) == [1, 2]
    assert cluster.clients[0].cancelled
    assert env.from_collection([1]).execute_and_collect("named", 9) == [1, 2, 3]


@pytest.mark.parametrize("limit", [0, -1, 1.5, True])
def test_a_limit_that_is_none(env: StreamExecutionEnvironment, limit: Any) -> None:
    with pytest.raises(ValueError, match="execute_and_collect: limit must be an integer of at least 1"):
        env.from_collection([1]).execute_and_collect(limit=limit)
