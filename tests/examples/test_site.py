"""The documentation builds as a site, complete and without anything that is fetched from elsewhere."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from tests.examples.test_docs import BLOCKS

ROOT = Path(__file__).parents[2]
_PUBLIC = re.compile(r"flintstream\.(?!runtime\.)")
_FOREIGN = {
    "*.html": re.compile(
        r"<(?:script|link|img|iframe|source|object|embed|video|audio)\b[^>]*(?:src|href|data)=[\"']?(?:https?:)?//"
    ),
    "*.css": re.compile(r"(?:url\([\"']?|@import\s+[\"'])(?:https?:)?//"),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    directory = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(directory)]
    built = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=280)
    assert built.returncode == 0, built.stdout + built.stderr
    return directory


@pytest.mark.parametrize("files", _FOREIGN)
def test_nothing_is_fetched_from_elsewhere(site, files):
    paths = list(site.rglob(files))
    assert paths
    found = {path: _FOREIGN[files].findall(path.read_text(encoding="utf-8")) for path in paths}
    assert {str(path.relative_to(site)): hits for path, hits in found.items() if hits} == {}


def test_browsers_are_told_to_fetch_nothing_from_elsewhere(site):
    policy = "default-src 'self' 'unsafe-inline' data: blob:"
    assert [path for path in site.rglob("*.html") if policy not in path.read_text(encoding="utf-8")] == []


def test_the_reference_has_every_name_that_programs_import(site):
    inventory = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    documented = {line.split(" ")[0] for line in zlib.decompress(inventory).decode().splitlines()}
    sources = [block.text for block in BLOCKS]
    for folder in ("examples", "tests/conformance"):
        sources += [path.read_text(encoding="utf-8") for path in (ROOT / folder).rglob("*.py")]
    names = {name for source in sources for name in imported(source)}
    assert len(names) > 100
    assert sorted(names - documented) == []


def test_pictures_are_in_their_page_as_they_are(site):
    page = (site / "design" / "index.html").read_text(encoding="utf-8")
    pictures = sorted((ROOT / "docs" / "assets" / "design").glob("*.svg"))
    assert pictures
    assert [picture.name for picture in pictures if picture.read_text(encoding="utf-8") not in page] == []
    speed = (ROOT / "docs" / "assets" / "speed.svg").read_text(encoding="utf-8")
    assert speed in (site / "benchmarks" / "index.html").read_text(encoding="utf-8")


def imported(source: str) -> list[str]:
    """The names that a program takes from the public packages."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and _PUBLIC.match(node.module or ""):
            found += [f"{node.module}.{alias.name}" for alias in node.names if alias.name != "*"]
    return found
