"""How the end of a job is shown: the cause first and last, and nobody's frames but the user's."""

from __future__ import annotations

import linecache
import subprocess
import sys
from pathlib import Path

import pytest

from flintstream.common.completable_future import CompletableFuture
from flintstream.jobmaster.errors import JobExecutionError
from flintstream.runtime.faults import Fault, UserCodeError
from flintstream.testing import OneInputOperatorHarness

CELL = "<ipython-input-3-0a1b2c>"
SOURCE = "def parse(text):\n    return int(text)\n"


def fault_in_a_cell() -> Fault:
    """A failure as it comes from a slot, which knows nothing of the notebook's cells."""
    space: dict = {}
    exec(compile(SOURCE, CELL, "exec"), space)
    harness = OneInputOperatorHarness(space["parse"], kind="map", name="Parse")
    with pytest.raises(UserCodeError) as caught, harness:
        harness.process_element("three")
    return caught.value.fault


def raised(error: JobExecutionError) -> JobExecutionError:
    with pytest.raises(JobExecutionError) as caught:
        CompletableFuture.failed(error).result()
    return caught.value


def test_the_cause_comes_first_and_last_without_frames_of_ours() -> None:
    report = raised(JobExecutionError("numbers", "17", fault_in_a_cell())).report()
    lines = report.strip().split("\n")
    assert lines[0] == lines[-1] == "ValueError: invalid literal for int() with base 10: 'three'"
    assert "Operator 'Parse' (subtask 1) failed: ValueError" in report
    assert "Record at fault: 'three'" in report
    assert "in raised" in report, "the program's own frames"
    for ours in ("completable_future.py", "_base.py", "flintstream/runtime"):
        assert ours not in report


def test_ipython_shows_it_with_the_lines_of_its_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    fault = fault_in_a_cell()
    assert "return int(text)" not in JobExecutionError("numbers", "17", fault).fault.traceback
    # So IPython tells Python about its cells, in the driver only.
    monkeypatch.setitem(linecache.cache, CELL, (len(SOURCE), None, SOURCE.splitlines(keepends=True), CELL))
    shown = raised(JobExecutionError("numbers", "17", fault))._render_traceback_()
    place = shown.index(f'  File "{CELL}", line 2, in parse')
    assert shown[place + 1] == "    return int(text)"
    assert shown[-1].startswith("ValueError: ")


def test_what_has_no_traceback_is_told_once() -> None:
    told = str(JobExecutionError("numbers", "17", Fault(None, None, None, "slot 1 died", "slot 1 died")))
    assert told == "Job 'numbers' (17) failed.\nslot 1 died"


def test_a_program_that_ends_with_it_shows_it_so(tmp_path: Path) -> None:
    path = tmp_path / "job.py"
    path.write_text(
        "from flintstream.common.completable_future import CompletableFuture\n"
        "from flintstream.jobmaster.errors import JobExecutionError, show_failures_tidily\n"
        "from flintstream.runtime.faults import Fault\n"
        "show_failures_tidily()\n"
        "CompletableFuture.failed(JobExecutionError('j', '17', Fault(None, None, None, 'gone', 'gone'))).result()\n"
    )
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=100)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "Traceback (most recent call last):",
        f'  File "{path}", line 5, in <module>',
        "    CompletableFuture.failed(JobExecutionError('j', '17', Fault(None, None, None, 'gone', 'gone'))).result()",
        "flintstream.jobmaster.errors.JobExecutionError: Job 'j' (17) failed.",
        "gone",
    ]


def test_other_exceptions_are_shown_as_ever(tmp_path: Path) -> None:
    program = "from flintstream.jobmaster.errors import show_failures_tidily; show_failures_tidily(); 1 / 0"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.stderr.rstrip().endswith("ZeroDivisionError: division by zero")


def test_frames_of_ours_below_the_users_are_left_out_too() -> None:
    def wrong_use(value: object) -> object:
        return CompletableFuture.failed(KeyError("gone")).result()

    with pytest.raises(UserCodeError) as caught, OneInputOperatorHarness(wrong_use, kind="map", name="Op") as harness:
        harness.process_element(1)
    assert "in wrong_use" in caught.value.fault.traceback
    assert "completable_future.py" not in caught.value.fault.traceback
