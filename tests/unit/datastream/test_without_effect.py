"""The guide lists every method and class that is accepted for compatibility and has no effect."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
_PHRASE = "Accepted for compatibility, without effect"


def test_the_guide_lists_what_has_no_effect() -> None:
    declared = {
        node.name
        for path in (ROOT / "src" / "flintstream").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and (ast.get_docstring(node) or "").startswith(_PHRASE)
    }
    page = (ROOT / "docs" / "guide" / "configuration.md").read_text(encoding="utf-8")
    table = page.partition("| method | because |")[2].partition("\n\n")[0]
    listed = {name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert declared
    assert declared == listed - {"DataTypes"}
