"""Keys that exist, and those that are refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from flintstream.common.configuration import Configuration, load_configuration
from flintstream.common.flint_options import FLINT_OPTIONS
from flintstream.common.known_keys import check_keys, refusal
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.jobmaster.settings import JobSettings

DOCUMENTATION = Path(__file__).parents[3] / "docs" / "guide" / "configuration.md"


@pytest.mark.parametrize(
    ("mistyped", "meant"),
    [
        ("flint.epoch.target-duraton", "flint.epoch.target-duration"),
        ("flint.progess", "flint.progress"),
        ("execution.checkpointing.intervall", "execution.checkpointing.interval"),
        ("state.backend.typ", "state.backend.type"),
        ("restart-strategy.fixed-delay.atempts", "restart-strategy.fixed-delay.attempts"),
        ("paralelism.default", "parallelism.default"),
        ("heartbeat.timout", "heartbeat.timeout"),
        ("flink.epoch.target-duration", "flint.epoch.target-duration"),
    ],
)
def test_the_nearest_key_is_proposed(mistyped: str, meant: str) -> None:
    assert refusal(mistyped) == f"There is no option '{mistyped}': did you mean '{meant}'?"


def test_keys_that_are_like_no_other_are_refused_too() -> None:
    assert refusal("pipeline.qqqqqqqqqqqqqqqqqqqqqqqqqq") is not None
    assert "flint.epoch.target-duration" in str(refusal("flint.zzzzzzzzzzzzzzzzzz"))


@pytest.mark.parametrize(
    "key",
    [
        "execution.checkpointing.unaligned.enabled",  # Without an effect here.
        "state.savepoints.dir",  # A name of Flink 1.x.
        "pipeline.registered-kryo-types",  # Gone since Flink 2.0.
        "pipeline.global-job-parameters.anything",
        "taskmanager.numberOfTaskSlots",
        "spark.sql.shuffle.partitions",
        "my.own.key",
        "state.backend.rocksdb.memory.entry-cache-ratio",
    ],
)
def test_what_exists_somewhere_is_no_mistake(key: str) -> None:
    check_keys([key])


def test_a_file_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "flint.yaml").write_text("parallelism.default: 2\nflint:\n  epoch:\n    target: 2 s\n")
    with pytest.raises(ValueError, match=r"flint\.yaml, line 4: There is no option 'flint\.epoch\.target'"):
        load_configuration(tmp_path)


def test_the_program_is_refused_where_it_sets_the_key() -> None:
    environment = StreamExecutionEnvironment.get_execution_environment()
    with pytest.raises(ValueError, match="did you mean 'flint.progress'"):
        environment.configure(Configuration().set_string("flint.progres", "false"))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("flint.epoch.target-duration", "soon"),
        ("flint.epoch.target-duration", "0 s"),
        ("flint.epoch.min-interval", "often"),
        ("flint.progress", "perhaps"),
        ("flint.spark.log-level", "loud"),
        ("flint.job-id", "17"),
        ("flint.checkpoints.signing-key-file", "/there/is/none"),
        ("execution.checkpointing.interval", "x"),
        ("state.backend.type", "paper"),
        ("restart-strategy.type", "hope"),
        ("pipeline.auto-watermark-interval", "x"),
        ("slot.request.timeout", "0 s"),
        ("heartbeat.interval", "often"),
    ],
)
def test_bad_values_are_found_before_anything_runs(key: str, value: str) -> None:
    with pytest.raises(ValueError, match=re.escape(key)):
        JobSettings("job", {key: value}).check()


@pytest.mark.parametrize(
    ("configuration", "told"),
    [
        (
            {"heartbeat.interval": "20 min"},
            "heartbeat.interval ('20 min') must be at most half of heartbeat.timeout (600 s ",
        ),
        (
            {"heartbeat.timeout": "15 s"},
            "heartbeat.interval (10 s by default) must be at most half of heartbeat.timeout ('15",
        ),
        (
            {"heartbeat.interval": "8 s", "heartbeat.timeout": "8 s"},
            "half of heartbeat.timeout ('8 s'): otherwise responsive slots",
        ),
    ],
)
def test_heartbeats_that_would_lose_slots_that_answer_are_refused(configuration: dict[str, str], told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        JobSettings("job", configuration).check()
    JobSettings("job", {"heartbeat.interval": "4 s", "heartbeat.timeout": "8 s"}).check()


def test_what_spark_must_not_do_is_refused_before_spark_starts() -> None:
    with pytest.raises(RuntimeError, match=r"set spark\.speculation=false"):
        JobSettings("job", {"spark.speculation": "true"}).check()


def test_a_python_in_an_archive_is_refused() -> None:
    for archive in (("env.zip", None), ("/data/x.zip", "env.zip")):
        with pytest.raises(ValueError, match="inside an archive"):
            JobSettings("job", python_archives=[archive], python_executable="env.zip/bin/python").check()
    JobSettings("job", python_archives=[(__file__, "env.zip")], python_executable="/opt/env.zip/bin/python").check()


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({"python_files": ["/none"]}, "python.files"),
        ({"python_archives": [("/none", "data")]}, "python.archives"),
        ({"python_requirements": (__file__, "/none")}, "python.requirements"),
        ({"cached_files": {"codes": "/none"}}, "register_cached_file"),
    ],
)
def test_missing_files_are_found_before_anything_runs(given: dict[str, Any], option: str) -> None:
    with pytest.raises(FileNotFoundError, match=rf"{re.escape(option)}.*: there is no file '/none'"):
        JobSettings("job", **given).check()


def test_folders_of_the_python_path_reach_the_slots() -> None:
    settings = JobSettings("job", {"python.pythonpath": "/opt/a:/opt/b"})
    assert settings.for_slots("17", 0, same_machine=False)[1].sys_path == ["/opt/a", "/opt/b"]


def test_options_of_rocksdb_are_checked_where_it_is_used() -> None:
    given = {"state.backend.rocksdb.thread.num": "0"}
    JobSettings("job", given).check()
    with pytest.raises(ValueError, match=r"thread\.num"):
        JobSettings("job", {**given, "state.backend.type": "rocksdb"}).check()


@pytest.mark.parametrize(
    "key",
    [
        "execution.checkpointing.interval",
        "execution.checkpointing.mode",
        "execution.runtime-mode",
        "execution.buffer-timeout.interval",
        "parallelism.default",
        "pipeline.max-parallelism",
        "pipeline.operator-chaining.enabled",
        "flint.epoch.target-duration",
    ],
)
def test_the_plan_alone_refuses_bad_values_too(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("FLINT_PLAN_ONLY", "1")
    given = Configuration.from_dict({"execution.checkpointing.interval": "1 s", key: "sometimes"})
    environment = StreamExecutionEnvironment.get_execution_environment(given)
    with pytest.raises(ValueError, match=re.escape(key)):
        environment.from_collection([1]).print()
        environment.execute()


def test_the_documentation_has_every_option_of_flintstream() -> None:
    section = DOCUMENTATION.read_text(encoding="utf-8").partition("## Flintstream's keys")[2].partition("\n## ")[0]
    rows = [
        tuple(cell.strip() for cell in line.strip("|").split(" | ")) for line in section.splitlines() if "| `" in line
    ]
    assert rows == [(f"`{option.key}`", option.default, option.meaning) for option in FLINT_OPTIONS]
