"""docs/limits.md names what is accepted without an effect."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PUBLIC = ("common", "datastream", "connectors", "table", "cep", "state_processor", "queryable_state")
NO_EFFECT = re.compile(r"^(Accepted for compatibility, without|No) effect\b")


def _without_effect(node: ast.AST, within: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yields the names of the functions and classes whose docstrings say that they have no effect."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.ClassDef, ast.FunctionDef)):
            names = (*within, child.name)
            if NO_EFFECT.match(ast.get_docstring(child) or ""):
                yield names
            yield from _without_effect(child, names)
        else:
            yield from _without_effect(child, within)


def test_every_name_without_an_effect_is_listed():
    limits = (ROOT / "docs/limits.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"\w+", " ".join(re.findall(r"`[^`]+`", limits))))
    found = [
        names
        for package in PUBLIC
        for path in sorted((ROOT / "src/flintstream" / package).rglob("*.py"))
        for names in _without_effect(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert len(found) > 10
    # A method of a class that is listed is listed with it.
    assert [".".join(names) for names in found if not listed.intersection(names[-2:])] == []
