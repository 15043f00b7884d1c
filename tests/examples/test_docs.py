"""The code in the documentation runs, and gives the output that stands behind it."""

from __future__ import annotations

import ast
import re

import pytest

from .pages import BLOCKS, PAGES, ROOT

_LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")
PIECES = {
    block.page: [piece for piece in BLOCKS if piece.page == block.page and piece.mark is None] for block in BLOCKS
}


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block.mark == "program" and block.server is None], ids=str
)
def test_program(block, spark, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    block.run(capsys)


@pytest.mark.parametrize("page", PIECES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pieces(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for piece in PIECES[page]:
        exec(compile(piece.text, str(piece), "exec"), names)
    if "env" in names:
        names["env"].get_execution_plan()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    targets = [target for target in _LINK.findall(page.read_text(encoding="utf-8")) if ":" not in target]
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", ["design.md", "guide/how-it-works.md"])
def test_modules_that_a_page_names_exist(page):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z_]+(?:/[a-z_]+)*(?:\.py|/))`", text))
    assert named
    assert [path for path in sorted(named) if not list((ROOT / "src/flintstream").rglob(path.rstrip("/")))] == []


def test_messages_in_troubleshooting_are_those_of_the_code():
    text = (ROOT / "docs/guide/troubleshooting.md").read_text(encoding="utf-8")
    messages = re.findall(r"\*\*`(.+?)`\*\*", text)
    assert len(messages) > 20
    known = "\n".join(texts_of_the_code()) + "\nbdb.BdbQuit"
    pieces = [(message, piece.strip()) for message in messages for piece in message.split("…")]
    assert [message for message, piece in pieces if piece not in known] == []


def texts_of_the_code() -> list[str]:
    """All texts in the sources, with a line break in the place of each value."""
    found = []
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                found.append("".join(part.value if isinstance(part, ast.Constant) else "\n" for part in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return found
