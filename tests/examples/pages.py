"""The pages of the documentation, and the code in them.

A block of Python behind `<!-- program -->` is a whole program, behind `<!-- program redis -->` one that talks to a server;
the text behind `<!-- output -->` is what it prints, in any order of the lines. The other blocks of Python of a page are
pieces, each of which goes on from those before it; they only build graphs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
_MARK = r"(?:<!-- (?P<mark>\w+)(?: (?P<server>\w+))? -->\n)?"
_BLOCK = re.compile(_MARK + r"```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S)


@dataclass
class Block:
    """A piece of code in a page."""

    page: Path
    line: int
    mark: str | None
    text: str
    server: str | None = None
    """The server that a program needs."""
    output: str | None = None

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    def run(self, capsys: pytest.CaptureFixture[str], text: str | None = None) -> None:
        """Runs the program, or `text` in its place, and compares what it prints."""
        exec(compile(text or self.text, str(self), "exec"), {"__name__": "__main__"})
        printed = capsys.readouterr().out
        if self.output is not None:
            assert sorted(printed.splitlines()) == sorted(self.output.splitlines())


def blocks() -> list[Block]:
    """All Python of all pages, in order."""
    found: list[Block] = []
    for page in PAGES:
        content = page.read_text(encoding="utf-8")
        for match in _BLOCK.finditer(content):
            line = content[: match.start("text")].count("\n") + 1
            block = Block(page, line, match["mark"], match["text"], match["server"])
            if match["mark"] == "output":
                assert found and found[-1].mark == "program", f"{block}: an output without a program"
                found[-1].output = match["text"]
            elif match["language"] == "python":
                found.append(block)
    return found


BLOCKS = blocks()
