"""Programs written for PyFlink give PyFlink's results when only their import is changed."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from compare import compare_mode, normalise  # noqa: E402

PROGRAMS = sorted((HERE / "programs").glob("*.py"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_program_gives_what_pyflink_gives(program, spark, capfd, monkeypatch):
    monkeypatch.setattr(sys, "argv", [str(program)])
    runpy.run_path(str(program), run_name="__main__")
    mode = compare_mode(program.read_text())
    expected = (HERE / "expected" / f"{program.stem}.txt").read_text()
    assert normalise(capfd.readouterr().out, mode) == normalise(expected, mode)
