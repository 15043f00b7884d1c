from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from flintstream.cli import demos
from flintstream.cli.main import cli
from flintstream.cli.runner import Program, ProgramFailedError, run_program


@pytest.fixture
def job(tmp_path: Path) -> Path:
    (tmp_path / "beside.py").write_text("VALUE = 'from beside'\n")
    path = tmp_path / "job.py"
    path.write_text(
        "import json, os, sys\n"
        "import beside\n"
        "print(json.dumps([__name__, sys.argv[1:], beside.VALUE,\n"
        "    json.loads(os.environ.get('FLINT_CONF_OVERRIDES', '{}')), os.environ.get('FLINT_PLAN_ONLY')]))\n"
    )
    return path


def flint(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


def test_version() -> None:
    assert re.fullmatch(r"flint, version \S+ \((not )?compiled\)\n", flint("--version").output)


def test_version_without_compiled_modules() -> None:
    environment = {**os.environ, "FLINT_PURE_PYTHON": "1"}
    shown = subprocess.run(
        [sys.executable, "-m", "flintstream", "--version"], env=environment, capture_output=True, text=True, timeout=120
    )
    assert shown.stdout.endswith("(not compiled)\n")


def test_run_gives_the_script_its_arguments_and_its_folder(job: Path) -> None:
    before = sys.argv[:], sys.path[:], dict(os.environ)
    result = flint("run", "-p", "3", "-D", "a.b=c=d", str(job), "x", "-p", "9", "--flag")
    assert result.exit_code == 0, result.output
    assert result.output.strip() == (
        '["__main__", ["x", "-p", "9", "--flag"], "from beside", {"a.b": "c=d", "parallelism.default": "3"}, null]'
    )
    assert (sys.argv[:], sys.path[:], dict(os.environ)) == before


def test_info_asks_for_the_plan_only(job: Path) -> None:
    assert flint("info", str(job)).output.strip().endswith('{}, "1"]')


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-D", "novalue"], "'novalue' is not of the form key=value"),
        (["-D", "flint.epoch.target=1 s"], "did you mean 'flint.epoch.target-duration'?"),
        (["-p", "0"], "0 is not in the range x>=1"),
    ],
)
def test_bad_options_are_named(job: Path, arguments: list[str], message: str) -> None:
    result = flint("run", *arguments, str(job))
    assert result.exit_code == 2
    assert message in result.output


def test_a_missing_script_is_named() -> None:
    result = flint("run", "nowhere.py")
    assert result.exit_code == 2
    assert "nowhere.py" in result.output


def test_an_error_shows_the_users_traceback_only(tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_text("def f():\n    raise ValueError('wrong')\n\nf()\n")
    command = [sys.executable, "-c", "from flintstream.cli.main import main; main()", "run", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback (most recent call last):\n" + f'  File "{path}", line 4')
    assert "runpy" not in done.stderr
    assert "flintstream" not in done.stderr
    assert done.stderr.endswith("ValueError: wrong\n")


def report(tmp_path: Path, program: str, *options: str) -> list[str]:
    path = tmp_path / "job.py"
    path.write_text(f"from flintstream.datastream import StreamExecutionEnvironment\n{program}\n")
    command = [sys.executable, "-m", "flintstream", "info", *options, str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    return [line for line in done.stderr.splitlines() if "^" not in line]


def test_what_we_refuse_is_told_without_our_frames(tmp_path: Path) -> None:
    program = (
        "env = StreamExecutionEnvironment.get_execution_environment()\nenv.from_collection([1]).print()\nenv.execute()"
    )
    for setting, told in (
        ("execution.checkpointing.interval=soon", "ValueError: Could not parse the value 'soon' of "),
        ("spark.speculation=true", "flintstream.spark.refused_settings.SessionError: spark.speculation is true"),
    ):
        lines = report(tmp_path, program, "-D", setting)
        assert lines[:-1] == [
            "Traceback (most recent call last):",
            f'  File "{tmp_path / "job.py"}", line 4, in <module>',
            "    env.execute()",
        ]
        assert lines[-1].startswith(told)


def test_what_happens_to_us_is_told_with_our_frames(tmp_path: Path) -> None:
    program = "import flintstream.common.keys as ours\nours.os = None\nours.key_group_range('x', None, 3)"
    assert any("keys.py" in line for line in report(tmp_path, program))


def test_a_program_of_pyflink_is_shown_the_way(tmp_path: Path) -> None:
    lines = report(tmp_path, "import sys; sys.modules['pyflink'] = None\nimport pyflink.datastream")
    assert lines[-1] == "For a PyFlink program: flint run --pyflink"


def test_who_is_on_that_way_is_not_shown_it(tmp_path: Path) -> None:
    path = tmp_path / "job.py"
    path.write_text("import pyflink.nothing")
    with pytest.raises(ProgramFailedError) as failure:
        run_program(Program(path), pyflink=True)
    assert failure.value.report.endswith("there is no 'flintstream.nothing'\n")


def test_a_script_that_does_not_compile_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_text("def f(:\n")
    command = [sys.executable, "-c", "from flintstream.cli.main import main; main()", "run", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "SyntaxError" in done.stderr
    assert "runpy" not in done.stderr


def test_the_scripts_exit_code_is_ours(tmp_path: Path) -> None:
    path = tmp_path / "exits.py"
    path.write_text("raise SystemExit(7)\n")
    assert flint("run", str(path)).exit_code == 7


def test_demos_are_found_with_their_first_line(tmp_path: Path) -> None:
    (tmp_path / "alpha_beta.py").write_text('"""Shows something.\n\nMore.\n"""\n')
    (tmp_path / "live_dashboard.py").write_text('"""Counts."""\n')
    (tmp_path / "_helper.py").write_text("")
    found = demos.find_demos(tmp_path)
    assert list(found) == ["live_dashboard", "alpha_beta"]
    assert found["alpha_beta"].summary == "Shows something."


def test_every_example_is_a_demo_and_nothing_else_is() -> None:
    examples = Path(__file__).parents[3] / "examples"
    found = demos.find_demos()
    assert next(iter(found)) == "live_dashboard"
    assert sorted(found) == sorted(path.stem for path in examples.glob("*.py") if not path.name.startswith("_"))
    assert all(demo.summary.endswith((".", ":")) for demo in found.values())


def test_demo_lists_and_refuses_unknown_names() -> None:
    listed = flint("demo", "--list").output
    for name in ("live_dashboard", "page_views", "unique_visitors", "hot_items", "windowed_word_count", "word_count"):
        assert name in listed
    result = flint("demo", "nothing")
    assert result.exit_code == 1
    assert "there is no demonstration 'nothing'; choose one of: live_dashboard, " in result.output
    several = flint("demo", "un")
    assert several.exit_code == 1
    assert "'un' begins several names; choose one of: unique_visitors, unpaid_orders." in several.output


def test_the_beginning_of_a_demonstrations_name_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []
    monkeypatch.setattr("flintstream.cli.main.run_program", lambda program, *_, **__: ran.append(program))
    assert flint("demo", "kafka", "localhost:9092").exit_code == 0
    assert [(program.script.stem, program.arguments) for program in ran] == [("kafka_windows", ("localhost:9092",))]


def test_demo_gives_the_program_its_arguments(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flintstream.cli.main.find_demos", lambda: {"job": demos.Demo("job", "", job)})
    assert flint("demo", "job", "localhost", "-p", "9").output.startswith('["__main__", ["localhost", "-p", "9"]')
    assert flint("demo").output.startswith('["__main__", []')
