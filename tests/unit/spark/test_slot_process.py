"""How the process of a slot is started, and how its end is told."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from flintstream.spark.slot_process import describe_exit, exit_status, start_slot

ENOUGH_SECONDS = 100.0


def python(directory: Path, program: str) -> str:
    """Something that is started as Python is, and does what a slot does not."""
    path = directory / "python"
    path.write_text(f"#!{sys.executable}\nimport os, sys, signal, time\n{program}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def end_of(directory: Path, program: str) -> str:
    process = start_slot(b"spec", 3, python(directory, program), str(directory))
    return describe_exit(exit_status(str(directory), 3, ENOUGH_SECONDS, process.runs))


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("os.kill(os.getpid(), 9)", "was killed by signal 9 (SIGKILL), perhaps by the kernel for lack of memory"),
        ("os.kill(os.getpid(), 11)", "was killed by signal 11 (SIGSEGV): native code of a library has crashed"),
        ("os.kill(os.getpid(), 15)", "was killed by signal 15 (SIGTERM)"),
        ("os._exit(3)", "ended itself with exit code 3, as by os._exit(3)"),
        ("sys.exit(sys.stdin.read() != 'spec')", "ended itself with exit code 0, as by os._exit(0)"),
    ],
)
def test_the_end_of_a_slot_is_told(tmp_path, program, told, capfd):
    assert end_of(tmp_path, program) == told
    assert capfd.readouterr() == ("", ""), "a shell says 'Killed'"


def test_what_the_slot_writes_on_standard_error_is_shown(tmp_path, capfd):
    end_of(tmp_path, "print('from the slot', file=sys.stderr)")
    assert capfd.readouterr().err == "from the slot\n"


def test_functions_find_the_python_they_run_with(tmp_path, capfd):
    end_of(tmp_path, "print(os.environ['python'], file=sys.stderr)")
    assert capfd.readouterr().err == f"{tmp_path / 'python'}\n"


def test_a_python_that_does_not_run(tmp_path):
    process = start_slot(b"spec", 0, str(tmp_path / "nowhere"), str(tmp_path))
    status = exit_status(str(tmp_path), 0, ENOUGH_SECONDS, process.runs)
    assert describe_exit(status) == "could not be started: its Python does not run, see python.executable"


def test_where_nobody_watches_nobody_knows(tmp_path):
    assert exit_status(str(tmp_path), 0, ENOUGH_SECONDS, lambda: False) is None
    assert describe_exit(None) == "died"


def test_the_watch_ends_with_the_slot_although_its_directory_is_gone(tmp_path, capfd):
    place = tmp_path / "gone"
    place.mkdir()
    go = tmp_path / "go"
    process = start_slot(
        b"", 0, python(tmp_path, f"while not os.path.exists({str(go)!r}): time.sleep(0.01)"), str(place)
    )
    place.rmdir()
    go.touch()
    assert exit_status(str(place), 0, ENOUGH_SECONDS, process.runs) is None
    assert not process.runs()
    assert not place.exists()
    assert capfd.readouterr().err == ""
