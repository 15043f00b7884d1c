"""Fixtures for the examples."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def beside_the_examples(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Examples import what they share from their own folder, which `python` and `flint` put on the path."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield
    for name in [path.stem for path in EXAMPLES.glob("*.py")]:
        sys.modules.pop(name, None)


@pytest.fixture
def run(
    spark: Any, beside_the_examples: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., list[str]]:
    """Runs an example as a program, on the shared Spark; gives the lines that it prints."""

    def run(name: str, *arguments: object) -> list[str]:
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out.splitlines()

    return run
