"""The map of the packages in CONTRIBUTING.md is complete, and fits one screen."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_map_has_every_package() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    drawn = page.partition("## The house")[2].partition("\n\n")[2].partition("\n\n")[0]
    source = ROOT / "src" / "flintstream"
    assert set(re.findall(r"^ {6}(\w+)/ ", drawn, re.M)) == packages(source)
    nested = {name for found in re.findall(r"^ {8}(\w+)/ .*?(?: (\w+)/ .*)?$", drawn, re.M) for name in found if name}
    assert nested == packages(source / "runtime")
    assert len(drawn.splitlines()) <= 30
    assert max(map(len, drawn.splitlines())) <= 120


def packages(folder: Path) -> set[str]:
    return {path.parent.name for path in folder.glob("*/__init__.py")}


def test_the_files_that_the_design_names_exist() -> None:
    source = ROOT / "src" / "flintstream"
    for name in ("design.md", "guide/how-it-works.md"):
        named = re.findall(r"`(\w+/[\w/]+(?:\.py|/))`", (ROOT / "docs" / name).read_text(encoding="utf-8"))
        assert named
        assert [path for path in named if not (source / path).exists()] == []
