"""The options of `flink run`, as `flint run` takes them."""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from flintstream.cli.main import cli

PROGRAM = """\
import json, os, sys
try:
    import helper
    found = helper.VALUE
except ImportError:
    found = None
print(json.dumps([__name__, sys.argv, found, json.loads(os.environ.get("FLINT_CONF_OVERRIDES", "{}"))]))
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "programs" / "job.py"
    path.parent.mkdir()
    path.write_text(PROGRAM)
    return path


@pytest.fixture
def helper(tmp_path: Path) -> Path:
    path = tmp_path / "lib" / "helper.py"
    path.parent.mkdir()
    path.write_text("VALUE = 'helped'\n")
    return path


@pytest.fixture(autouse=True)
def forget_helper():
    yield
    sys.modules.pop("helper", None)


def flint(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(each) for each in arguments])


def seen(*arguments: object) -> list:
    result = flint(*arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


@pytest.mark.parametrize("option", [("-py",), ("--python",)])
def test_the_program_by_an_option(job: Path, option: tuple[str]) -> None:
    assert seen("run", *option, job, "-p", "2", "x", "-p", "3") == [
        "__main__",
        [str(job), "x", "-p", "3"],
        None,
        {"parallelism.default": "2"},
    ]


def test_its_arguments_begin_with_the_first_unknown_word(job: Path) -> None:
    assert seen("run", "-py", job, "--input", "a", "-p", "3")[1:2] == [[str(job), "--input", "a", "-p", "3"]]
    assert seen("run", f"--python={job}", "--", "-p", "3")[1:2] == [[str(job), "-p", "3"]]


def test_the_program_as_a_module(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = job.parent
    (folder / "package").mkdir()
    (folder / "package" / "start.py").write_text(PROGRAM)
    assert seen("run", "-pym", "package.start", "-pyfs", folder, "--input", "a")[1][1:] == ["--input", "a"]
    monkeypatch.chdir(folder)
    assert seen("run", "--pyModule", "package.start", "b")[1][1:] == ["b"]


def test_files_to_import_from_are_known_to_the_program_too(job: Path, helper: Path, tmp_path: Path) -> None:
    before = sys.path[:]
    archive = tmp_path / "helpers.zip"
    with zipfile.ZipFile(archive, "w") as content:
        content.writestr("helper.py", "VALUE = 'zipped'\n")
    for files, expected in ((helper, "helped"), (helper.parent, "helped"), (f"file://{archive}", "zipped")):
        sys.modules.pop("helper", None)
        assert seen("run", "-pyfs", files, job)[2:] == [expected, {"python.files": str(files)}]
    assert sys.path == before


@pytest.mark.parametrize(
    ("short", "long", "key"),
    [
        ("-pyreq", "--pyRequirements", "python.requirements"),
        ("-pyarch", "--pyArchives", "python.archives"),
        ("-pyexec", "--pyExecutable", "python.executable"),
        ("-pypath", "--pyPythonPath", "python.pythonpath"),
        ("-pyfs", "--pyFiles", "python.files"),
    ],
)
def test_options_that_stand_for_keys(job: Path, short: str, long: str, key: str) -> None:
    assert seen("run", short, "a,b", job)[3] == {key: "a,b"}
    assert seen("run", f"{long}=a,b", job)[3] == {key: "a,b"}


def test_attached_values(job: Path) -> None:
    assert seen("run", "-p4", "-Dpipeline.name=a", "-D", "my.key=b", job)[3] == {
        "parallelism.default": "4",
        "pipeline.name": "a",
        "my.key": "b",
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-pyfss", "lib"], "No such option: -pyfss. Did you mean -pyfs?"),
        (["--parallelsim", "2"], "Did you mean --parallelism?"),
        (["-c", "org.example.Main"], "programs are written in Python: name one with -py FILE or -pym MODULE"),
        (["-m", "host:8081"], "use -d with it"),
        (["-t", "yarn-session"], "'yarn-session' is a Flink cluster"),
        (["-C", "file:///x.jar"], "set jars for Spark with -D spark.jars"),
        (["-pyclientexec", "/nowhere/python"], "there is no program '/nowhere/python'"),
        (["-pyclientexec", "/bin/sh"], "-m flintstream run"),
        (["-rm", "CLAIM"], "a job never owns the savepoint it is restored from"),
        (["--claimMode", "mine"], "must be NO_CLAIM, got 'mine'"),
        (["-py", "job.py", "-pym", "job"], "does not exist"),
    ],
)
def test_what_is_not_there_is_told(job: Path, arguments: list[str], message: str) -> None:
    result = flint("run", *arguments, job)
    assert result.exit_code != 0
    assert message in " ".join(result.output.split())


def test_a_value_that_is_missing_is_told(job: Path) -> None:
    for option in ("-p", "-pyfs", "-D"):
        assert f"Option '{option}' requires an argument" in flint("run", option).output
    assert "/nowhere is not a checkpoint" in flint("run", "-s/nowhere", job).output


def test_what_changes_nothing_is_accepted(job: Path) -> None:
    assert seen("run", "-sae", "-t", "local", "-cm", "no_claim", "-pyclientexec", sys.executable, job)[3] == {}


def test_a_program_is_needed_and_only_one() -> None:
    assert "Missing argument 'SCRIPT'" in flint("run").output
    assert "Missing argument 'SCRIPT'" in flint("info", "-p", "2").output
    assert "exclude each other" in flint("run", "-py", __file__, "-pym", "job").output


def test_the_plan_takes_them_too(job: Path, helper: Path) -> None:
    assert seen("info", "-pyfs", helper, "-py", job, "-x")[1:3] == [[str(job), "-x"], "helped"]
