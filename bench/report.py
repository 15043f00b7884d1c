"""Results: what was measured, what it should have been, as a table and as JSON."""

from __future__ import annotations

import datetime
import os
import platform
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Row:
    """One line of a table."""

    what: str
    value: float | None
    """None where it was not measured; `note` says why."""
    unit: str = "records/s"
    ratio: float | None = None
    """Flintstream's number divided by this one; in `latency` the reverse, how many times lower Flintstream's is."""
    least_ratio: float | None = None
    """The target: the ratio must be at least this."""
    most: float | None = None
    """The target: the value must be at most this."""
    note: str = ""

    @property
    def target(self) -> str:
        """The target in words; empty where there is none."""
        if self.least_ratio is not None:
            return f"ratio ≥ {self.least_ratio:g}"
        return f"≤ {self.most:g} {self.unit}" if self.most is not None else ""

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None where there is none, or where nothing was measured."""
        if self.least_ratio is not None and self.ratio is not None:
            return self.ratio >= self.least_ratio
        if self.most is not None and self.value is not None:
            return self.value <= self.most
        return None


@dataclass
class Result:
    """What a benchmark found."""

    name: str
    title: str
    rows: list[Row]
    details: dict[str, Any] = field(default_factory=dict)
    """Raw numbers, for the JSON file only."""

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Result:
        """The reverse of `asdict`."""
        return cls(**{**data, "rows": [Row(**row) for row in data["rows"]]})

    @property
    def missed(self) -> list[str]:
        """A line for each target that was missed."""
        return [
            f"{self.name}: {row.what}: wanted {row.target}, got {_shown_ratio(row) or _shown_value(row)}"
            for row in self.rows
            if row.met is False
        ]


def machine() -> dict[str, Any]:
    """Where and when the numbers were taken."""
    import pyspark

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "cores": cores,
        "processor": platform.machine(),
        "python": platform.python_version(),
        "pyspark": pyspark.__version__,
        "load_before": round(os.getloadavg()[0], 2),
    }


def as_json(results: list[Result], where: dict[str, Any]) -> dict[str, Any]:
    """All of it, for a file."""
    return {"machine": where, "results": [asdict(result) for result in results]}


def show(console: Console, result: Result) -> None:
    """Prints a result as a table."""
    table = Table(title=result.title, title_justify="left", title_style="bold")
    table.add_column("what")
    table.add_column("value", justify="right")
    table.add_column("ratio", justify="right")
    table.add_column("target")
    for row in result.rows:
        verdict = {True: "[green]met[/]", False: "[bold red]missed[/]", None: ""}[row.met]
        table.add_row(
            row.what + (f" [dim]({row.note})[/]" if row.note else ""),
            _shown_value(row),
            _shown_ratio(row),
            f"{row.target} {verdict}".strip(),
        )
    console.print(table)


def _shown_value(row: Row) -> str:
    if row.value is None:
        return "-"
    size = abs(row.value)
    shown = f"{row.value:,.0f}" if size >= 100 else f"{row.value:,.1f}" if size >= 0.1 else f"{row.value:.2g}"
    return f"{shown} {row.unit}"


def _shown_ratio(row: Row) -> str:
    return "" if row.ratio is None else f"{row.ratio:,.2f}" if row.ratio < 10 else f"{row.ratio:,.0f}"
