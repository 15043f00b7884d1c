"""The code of docs/guide/testing.md runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "testing.md"


def test_the_guides_code_runs() -> None:
    text = GUIDE.read_text()
    names: dict[str, Any] = {"__name__": "guide"}
    blocks = list(re.finditer(r"^```python\n(.*?)^```", text, re.M | re.S))
    assert len(blocks) >= 6
    for block in blocks:
        line = text[: block.start(1)].count("\n")
        # Blank lines in front, so that a failure names the guide's own line.
        exec(compile("\n" * line + block.group(1), str(GUIDE), "exec"), names)
