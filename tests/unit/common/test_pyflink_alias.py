from __future__ import annotations

import sys
from pathlib import Path

import pytest

import flintstream.spark.java
from flintstream.cli.runner import Program, run_program
from flintstream.common.pyflink_alias import pyflink_alias, pyflink_alias_installed


def test_the_alias_is_the_same_module() -> None:
    spec = flintstream.spark.java.__spec__
    with pyflink_alias():
        import pyflink
        import pyflink.spark.java
        from pyflink.spark.java import JavaRuntime

        assert pyflink.spark.java is flintstream.spark.java
        assert JavaRuntime is flintstream.spark.java.JavaRuntime
    assert flintstream.spark.java.__spec__ is spec
    assert flintstream.__name__ == "flintstream"


def test_nothing_is_left_behind() -> None:
    before = list(sys.meta_path)
    with pyflink_alias():
        import pyflink  # noqa: F401

        assert pyflink_alias_installed()
    assert not pyflink_alias_installed()
    assert "pyflink" not in sys.modules
    assert sys.meta_path == before


def test_an_unknown_module_says_what_is_missing() -> None:
    with (
        pyflink_alias(),
        pytest.raises(ModuleNotFoundError, match=r"'pyflink.nothing'.*'flintstream.nothing'"),
    ):
        import pyflink.nothing  # noqa: F401


def test_what_to_use_instead_of_a_connector_is_said() -> None:
    with pyflink_alias(), pytest.raises(ModuleNotFoundError, match="from_spark to read, SparkSink to write"):
        import pyflink.datastream.connectors.pulsar  # noqa: F401


def test_an_installed_pyflink_is_hidden_and_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyflink").mkdir()
    (tmp_path / "pyflink" / "__init__.py").write_text("INSTALLED = True\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import pyflink

    assert pyflink.INSTALLED
    with pyflink_alias():
        import pyflink as alias

        assert alias is flintstream
    assert sys.modules.pop("pyflink") is pyflink


def test_a_script_runs_with_its_pyflink_imports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "job.py"
    path.write_text("from pyflink.spark.java import JavaRuntime\nprint(JavaRuntime.__module__)\n")
    run_program(Program(path), pyflink=True)
    assert capsys.readouterr().out == "flintstream.spark.java\n"
