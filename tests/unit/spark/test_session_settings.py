"""The settings of a new session, without starting one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark import SparkConf
from pyspark.sql import SparkSession

from flintstream.common.environment_variables import SPARK_MASTERS
from flintstream.spark import encryption, session
from flintstream.spark.encryption import EncryptionError
from flintstream.spark.session import SessionError, check_session, is_local


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*SPARK_MASTERS, session.LOG_LEVEL_VARIABLE, "SPARK_REMOTE"):
        monkeypatch.delenv(name, raising=False)


class FakeSession(SparkSession):
    """A session with nothing but a master and a configuration."""

    def __init__(self, master: str = "local[2]", **conf: str) -> None:
        settings = SparkConf(loadDefaults=False)
        settings._conf = {}
        for key, value in conf.items():
            settings.set(key.replace("_", "."), value)
        self._sc = SimpleNamespace(master=master, getConf=lambda: settings)  # type: ignore[assignment]


def test_a_local_session_is_private_and_quiet(tmp_path: Path) -> None:
    settings = session.spark_settings({}, tmp_path)
    assert settings["spark.master"] == "local[*]"
    assert settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert settings["spark.ui.enabled"] == "false"
    assert settings["spark.scheduler.mode"] == "FAIR"
    assert settings["spark.local.dir"].startswith(str(tmp_path))
    assert "UseSerialGC" in settings["spark.driver.extraJavaOptions"]
    assert "-Dflint.spark.log-level=error" in settings["spark.driver.extraJavaOptions"]
    sockets = Path(settings["spark.python.unix.domain.socket.dir"])
    assert sockets.stat().st_mode & 0o777 == 0o700


def test_the_users_settings_win(tmp_path: Path) -> None:
    given = {
        "spark.master": "local[3]",
        "spark.driver.memory": "3g",
        "spark.driver.extraJavaOptions": "-Dmine=1",
        "parallelism.default": "4",
    }
    settings = session.spark_settings(given, tmp_path)
    assert settings["spark.master"] == "local[3]"
    assert settings["spark.driver.memory"] == "3g"
    assert "UseSerialGC" not in settings["spark.driver.extraJavaOptions"]
    assert settings["spark.driver.extraJavaOptions"].endswith("-Dmine=1")
    assert "parallelism.default" not in settings


def test_a_cluster_session_keeps_the_clusters_own_directories_and_addresses(tmp_path: Path) -> None:
    settings = session.spark_settings({"spark.master": "spark://host:7077"}, tmp_path)
    assert not {"spark.local.dir", "spark.driver.host", "spark.driver.memory"} & settings.keys()


def test_executors_run_several_tasks_a_core_for_a_pipelined_job(tmp_path: Path) -> None:
    pipelined = {"spark.master": "spark://host:7077", "flint.transport": "pipelined"}
    settings = session.spark_settings(pipelined, tmp_path)
    assert settings.items() >= session.PIPELINED_DEFAULTS.items()
    assert settings["spark.task.cpus"] == "0.25"
    assert session.spark_settings({**pipelined, "spark.task.cpus": "1"}, tmp_path)["spark.task.cpus"] == "1"
    assert "spark.task.cpus" not in session.spark_settings({**pipelined, "spark.master": "local[4]"}, tmp_path)
    assert "spark.task.cpus" not in session.spark_settings({**pipelined, "flint.transport": "epochs"}, tmp_path)


def test_the_master_may_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLINT_SPARK_MASTER", "local[7]")
    assert session.spark_settings({}, tmp_path)["spark.master"] == "local[7]"


def test_a_long_temporary_directory_turns_unix_sockets_off(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 80)
    deep.mkdir()
    assert session.spark_settings({}, deep)["spark.python.unix.domain.socket.enabled"] == "false"


def test_an_unknown_log_level_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(session.LOG_LEVEL_VARIABLE, "loud")
    with pytest.raises(ValueError, match="FLINT_SPARK_LOG. must be one of .* got 'loud'"):
        session.log_level({})
    assert session.log_level({"flint.spark.log-level": "WARN"}) == "warn"


def test_spark_connect_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://host")
    with pytest.raises(SessionError, match="classic Spark session"):
        session._start_session({}, 1)
    with pytest.raises(SessionError, match="classic Spark session"):
        check_session(object())  # type: ignore[arg-type]


@pytest.mark.parametrize("option", ["spark.speculation", "spark.dynamicAllocation.enabled"])
def test_what_breaks_exactly_once_is_refused(option: str) -> None:
    check_session(FakeSession(**{option: "false"}))
    with pytest.raises(SessionError, match=f"set {option}=false"):
        check_session(FakeSession(**{option: "true"}))
    with pytest.raises(SessionError, match=f"set {option}=false"):
        session._start_session({option: "true"}, 1)


@pytest.mark.parametrize(
    ("master", "local"),
    [
        ("local", True),
        ("local[*]", True),
        ("local[2,3]", True),
        ("local-cluster[2,1,1024]", False),
        ("yarn", False),
    ],
)
def test_is_local(master: str, local: bool) -> None:
    assert is_local(FakeSession(master)) is local


def test_a_jvm_that_spark_submit_has_started_needs_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.setenv("PATH", "")
    assert session._jvm_environment(session._java_to_start(), tmp_path) == {}


# --- authentication and encryption ---

ENCRYPTED = {"flint.network.encryption": "true"}
CLUSTER = {"spark.master": "spark://host:7077"}


def test_a_local_session_wants_a_secret_unless_the_user_says_otherwise(tmp_path: Path) -> None:
    assert session.spark_settings({}, tmp_path)["spark.authenticate"] == "true"
    assert session.spark_settings({"spark.authenticate": "false"}, tmp_path)["spark.authenticate"] == "false"
    assert "spark.authenticate" not in session.spark_settings(CLUSTER, tmp_path), (
        "a cluster's secret is for its owner to set"
    )


def test_one_setting_encrypts_what_spark_sends_between_machines(tmp_path: Path) -> None:
    settings = session.spark_settings({**CLUSTER, **ENCRYPTED}, tmp_path)
    encrypted = ("spark.authenticate", "spark.network.crypto.enabled", "spark.io.encryption.enabled")
    assert [settings[key] for key in encrypted] == ["true"] * 3
    assert not {*encrypted} & session.spark_settings(CLUSTER, tmp_path).keys()
    local = session.spark_settings({**ENCRYPTED, "spark.master": "local[2]"}, tmp_path)
    assert "spark.network.crypto.enabled" not in local, "nothing leaves the machine"


def test_sparks_other_way_to_encrypt_will_do_too(tmp_path: Path) -> None:
    settings = session.spark_settings({**CLUSTER, **ENCRYPTED, "spark.ssl.rpc.enabled": "true"}, tmp_path)
    assert "spark.network.crypto.enabled" not in settings
    assert settings["spark.io.encryption.enabled"] == "true"


@pytest.mark.parametrize("key", ["spark.authenticate", "spark.network.crypto.enabled", "spark.io.encryption.enabled"])
def test_settings_that_contradict_encryption_are_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(EncryptionError, match=rf"flint\.network\.encryption is true, but {key} is 'false'"):
        session.spark_settings({**CLUSTER, **ENCRYPTED, key: "false"}, tmp_path)


def test_a_session_that_was_started_without_encryption_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    half = FakeSession("spark://host:7077", spark_authenticate="true", spark_io_encryption_enabled="true")
    monkeypatch.setattr(session, "_existing_session", lambda: half)
    monkeypatch.setattr(session, "check_session", lambda spark: None)
    assert session.get_or_create_session({}) is half
    with pytest.raises(EncryptionError, match=r"was started without spark\.network\.crypto\.enabled: start it with"):
        session.get_or_create_session(ENCRYPTED)
    half.sparkContext.getConf().set("spark.ssl.rpc.enabled", "true")
    assert session.get_or_create_session(ENCRYPTED) is half


def test_encryption_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encryption, "find_spec", lambda name: None)
    with pytest.raises(EncryptionError, match=r"pip install 'flintstream\[encryption\]'"):
        session.get_or_create_session(ENCRYPTED)
