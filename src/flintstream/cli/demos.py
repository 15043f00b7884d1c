"""The programs that ``flint demo`` runs: those of ``examples/``, shipped with the package.

``demo_programs`` is a link to that folder; a wheel contains the files themselves. Files whose names begin with an
underscore are shared code, not programs.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Demo", "find_demos"]

_FOLDER = Path(__file__).parent / "demo_programs"
_FIRST = "live_dashboard"


@dataclass(frozen=True)
class Demo:
    """A program, its name on the command line, and the first line of its docstring."""

    name: str
    summary: str
    path: Path


def find_demos(folder: Path = _FOLDER) -> dict[str, Demo]:
    """Returns the programs by name, starting with the default of `flint demo`."""
    paths = [path for path in folder.glob("*.py") if not path.name.startswith("_")]
    paths.sort(key=lambda path: (path.stem != _FIRST, path.stem))
    demos = [Demo(path.stem, _summary(path), path) for path in paths]
    return {each.name: each for each in demos}


def _summary(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0]
