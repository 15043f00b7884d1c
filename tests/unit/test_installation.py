"""The installation compiles the record path, all of it or nothing, and goes on where that fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMPILER = shutil.which("cc")


def installed(project: Path, compiler: str) -> tuple[set[str], str]:
    """Builds a project with two modules as an editable installation does; returns what is compiled, and the output."""
    for name in ("first", "second"):
        module = project / "src" / "tiny" / name
        module.parent.mkdir(parents=True, exist_ok=True)
        module.with_suffix(".py").write_text("def twice(number):\n    return 2 * number\n")
        module.with_suffix(".pxd").write_text("cpdef twice(number)\n")
    (project / "src" / "tiny" / "__init__.py").touch()
    shutil.copy(ROOT / "setup.py", project)
    (project / "setup.cfg").write_text(
        "[metadata]\nname = tiny\n[options]\npackages = tiny\npackage_dir =\n    = src\n"
    )
    done = subprocess.run(
        [sys.executable, "setup.py", "build_ext", "--inplace"],
        cwd=project,
        env={**os.environ, "CC": compiler, "FLINT_PURE_PYTHON": "0"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return {path.name.split(".")[0] for path in (project / "src").rglob("*.so")}, done.stdout + done.stderr


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
def test_all_modules_are_compiled(tmp_path: Path) -> None:
    found, output = installed(tmp_path, str(COMPILER))
    assert found == {"first", "second"}
    assert "runs as Python" not in output


@pytest.mark.parametrize("compiler", ["/nowhere/cc", "false"])
def test_without_a_compiler_that_works_the_installation_goes_on(tmp_path: Path, compiler: str) -> None:
    found, output = installed(tmp_path, compiler)
    assert found == set()
    assert "runs as Python" in output


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
def test_where_one_module_cannot_be_compiled_none_is(tmp_path: Path) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text(f'#!/bin/sh\ncase "$*" in *second.c*) exit 1;; esac\nexec {COMPILER} "$@"\n')
    compiler.chmod(0o755)
    found, output = installed(tmp_path / "project", str(compiler))
    assert found == set()
    assert "tiny.second" in output
