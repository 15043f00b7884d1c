"""The picture of throughput and latency in the README: `python -m bench.picture [JSON] [SVG]`, or `make picture`.

Everything in it comes from the file that `python -m bench` writes, or one of the same form. A side that was not measured is
left out. `picture.json`, which is used unless another file is named, holds what is published; `machine` may have a `note`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape
from math import ceil, floor, log10
from pathlib import Path
from typing import Any

import click

from bench.report import Result, Row

ROOT = Path(__file__).resolve().parents[1]
PUBLISHED = ROOT / "bench" / "picture.json"
PICTURE = ROOT / "docs" / "assets" / "speed.svg"

WIDTH = 860
BARS_FROM, BARS_TO = 290, 760
"""Where bars begin, and where the scale ends; the number of a bar stands behind it."""
LINE, BAR = 28, 18
LEAST_LOGARITHMIC_RATIO = 20
"""With a larger ratio of the greatest number to the least, the bars of a linear scale could not be compared."""


@dataclass(frozen=True)
class Side:
    """A row of a benchmark, and what it is called here."""

    row: str
    """How its name in the result begins, or all of it."""
    label: str
    kind: str
    """ours, peer, or limit."""


@dataclass(frozen=True)
class Panel:
    """One chart of bars."""

    benchmark: str
    title: str
    note: str
    unit: str
    sides: Sequence[Side]


PANELS = (
    Panel(
        "keyed_count",
        "Throughput",
        "a running count of 10,000 keys in a Python function, records a second: longer is better",
        "records/s",
        (
            Side("bare loop, process function with ValueState, 2 processes", "bare Python loop, the limit", "limit"),
            Side("Flintstream, process function with ValueState", "Flintstream", "ours"),
            Side("Bytewax, one worker", "Bytewax, one worker", "peer"),
            Side("PyFlink, thread mode", "PyFlink, thread mode", "peer"),
            Side("PySpark transformWithState", "PySpark transformWithState", "peer"),
            Side("PyFlink, process mode", "PyFlink, process mode", "peer"),
        ),
    ),
    Panel(
        "latency",
        "Latency",
        "median from source to sink with one exchange, 2,000 records a second: shorter is better",
        "ms",
        (
            Side("pipelined, 1 exchange, median", "Flintstream, pipelined", "ours"),
            Side("PyFlink, bundles of 10 ms, median", "PyFlink, process mode, bundles of 10 ms", "peer"),
            Side("epochs, 1 exchange, median", "Flintstream, epochs", "ours"),
            Side("Spark's micro-batches, transformWithState, median", "PySpark, micro-batches", "peer"),
        ),
    ),
)

STYLE = """\
<style>
svg.figure { --ink: #24292f; --soft: #57606a; --line: #8c959f; --box: #f6f8fa; --hot: #bc4c00; }
@media (prefers-color-scheme: dark) {
svg.figure { --ink: #e6edf3; --soft: #9da7b3; --line: #6e7681; --box: #21262d; --hot: #f0883e; }
}
svg.figure text { font: 13px system-ui, sans-serif; fill: var(--ink); }
svg.figure .soft { fill: var(--soft); font-size: 12px; }
svg.figure .head { font-weight: 600; font-size: 15px; }
svg.figure .side { text-anchor: end; }
svg.figure .mid { text-anchor: middle; }
svg.figure .strong { font-weight: 600; }
svg.figure rect.ours { fill: var(--hot); }
svg.figure rect.peer { fill: var(--line); }
svg.figure rect.limit { fill: var(--box); stroke: var(--line); stroke-dasharray: 4 3; }
svg.figure line { stroke: var(--line); stroke-opacity: 0.35; }
</style>"""
"""The colours of the other pictures in docs/assets. Without empty lines, at which Markdown would end a picture in a page."""


@dataclass(frozen=True)
class Bar:
    side: Side
    value: float
    note: str


@dataclass(frozen=True)
class Scale:
    """From numbers to places on the x axis."""

    least: float
    most: float
    logarithmic: bool

    @classmethod
    def of(cls, values: Sequence[float]) -> Scale:
        """Logarithmic if the ratios are large; then it begins at a power of ten below all values, so that each has a bar."""
        if max(values) < LEAST_LOGARITHMIC_RATIO * min(values):
            return cls(0.0, max(values), False)
        least = floor(log10(min(values)))
        return cls(10.0 ** (least - (min(values) == 10.0**least)), 10.0 ** ceil(log10(max(values))), True)

    def place(self, value: float) -> float:
        if self.logarithmic:
            share = log10(value / self.least) / log10(self.most / self.least)
        else:
            share = value / self.most
        return round(BARS_FROM + share * (BARS_TO - BARS_FROM), 1)

    def marks(self) -> list[float]:
        """The numbers that have a line: the powers of ten; on a linear scale only the length of a bar counts."""
        if not self.logarithmic:
            return []
        return [10.0**power for power in range(round(log10(self.least)), round(log10(self.most)) + 1)]


def picture(data: dict[str, Any]) -> str:
    """The SVG of what `report.as_json` gives."""
    results = {result["name"]: Result.from_json(result) for result in data["results"]}
    charts = [
        (panel, bars) for panel in PANELS if panel.benchmark in results and (bars := _bars(panel, results)) is not None
    ]
    if not charts:
        names = " nor ".join(panel.benchmark for panel in PANELS)
        raise ValueError(f"nothing to show: there are numbers of neither {names}")
    lines: list[str] = []
    top = 0
    for panel, bars in charts:
        lines += _chart(panel, bars, top)
        top += LINE * len(bars) + 92
    source = _source(data["machine"], [bar for _, bars in charts for bar in bars])
    lines += [
        f'<text class="soft" x="10" y="{top + 8 + 17 * number}">{escape(line)}</text>'
        for number, line in enumerate(source)
    ]
    described = " ".join(_described(panel, bars) for panel, bars in charts)
    height = top + 5 + 17 * len(source)
    head = (
        f'<svg class="figure" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        'aria-labelledby="speed-title speed-desc">'
    )
    return "\n".join(
        [
            head,
            '<title id="speed-title">Throughput and latency of Flintstream beside other systems</title>',
            f'<desc id="speed-desc">{escape(" ".join([described, *source]))}</desc>',
            STYLE,
            *lines,
            "</svg>\n",
        ]
    )


def _bars(panel: Panel, results: dict[str, Result]) -> list[Bar] | None:
    """The sides that were measured; None without Flintstream's own, to which they are compared."""
    rows = results[panel.benchmark].rows
    bars = [
        Bar(side, row.value, row.note) for side in panel.sides if (row := _row(rows, side)) is not None and row.value
    ]
    if not any(bar.side.kind == "ours" for bar in bars):
        return None
    return sorted(bars, key=lambda bar: bar.value, reverse=panel.unit == "records/s")


def _row(rows: Sequence[Row], side: Side) -> Row | None:
    return next((row for row in rows if row.what.startswith(side.row)), None)


def _chart(panel: Panel, bars: Sequence[Bar], top: int) -> Iterator[str]:
    scale = Scale.of([bar.value for bar in bars])
    first = top + 56
    last = first + LINE * len(bars)
    yield f'<text class="head" x="10" y="{top + 22}">{escape(panel.title)}</text>'
    note = f"{panel.note}{'; logarithmic scale' if scale.logarithmic else ''}"
    yield f'<text class="soft" x="10" y="{top + 42}">{escape(note)}</text>'
    for mark in scale.marks():
        place = scale.place(mark)
        yield f'<line x1="{place}" y1="{first}" x2="{place}" y2="{last}"/>'
        yield f'<text class="soft mid" x="{place}" y="{last + 15}">{_short(mark)}</text>'
    for number, bar in enumerate(bars):
        y = first + LINE * number + (LINE - BAR) // 2
        strong = " strong" if bar.side.kind == "ours" else ""
        end = scale.place(bar.value)
        yield f'<text class="side{strong}" x="{BARS_FROM - 10}" y="{y + 14}">{escape(bar.side.label)}</text>'
        yield (
            f'<rect class="{bar.side.kind}" x="{BARS_FROM}" y="{y}" width="{round(end - BARS_FROM, 1)}" '
            f'height="{BAR}" rx="2"/>'
        )
        value = _shown(bar.value, panel.unit) + ("*" if bar.note else "")
        yield f'<text class="{strong.strip() or "value"}" x="{end + 8}" y="{y + 14}">{value}</text>'


def _described(panel: Panel, bars: Sequence[Bar]) -> str:
    """What a chart shows, for those who do not see it."""
    values = "; ".join(f"{bar.side.label}: {_shown(bar.value, panel.unit)}" for bar in bars)
    return f"{panel.title}: {panel.note}. {values}."


def _source(machine: dict[str, Any], bars: Sequence[Bar]) -> list[str]:
    """When and where the numbers were measured, and what is special about some, as lines."""
    date = datetime.fromisoformat(machine["time"]).date()
    parts = [
        f"{date}: {machine['cores']} cores ({machine['processor']}), Python {machine['python']}, Spark {machine['pyspark']}"
    ]
    if machine.get("load_before") is not None:
        parts[0] += f", load {machine['load_before']:g} before"
    if machine.get("note"):
        parts.append(machine["note"])
    parts += dict.fromkeys(f"* {bar.note}" for bar in bars if bar.note)
    return [f"{part}." for part in parts]


def _shown(value: float, unit: str) -> str:
    if unit == "records/s":
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:,.0f} ms" if value >= 100 else f"{value:,.1f} ms"


def _short(number: float) -> str:
    """A power of ten: 1,000,000 as 1M."""
    return f"{number / 1e6:g}M" if number >= 1e6 else f"{number:,.6g}"


@click.command()
@click.argument("source", type=click.Path(exists=True, dir_okay=False, path_type=Path), default=PUBLISHED)
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path), default=PICTURE)
def main(source: Path, target: Path) -> None:
    """Draws the numbers of SOURCE, a JSON file of `python -m bench`, into TARGET."""
    try:
        drawn = picture(json.loads(source.read_text(encoding="utf-8")))
    except (KeyError, TypeError, ValueError) as error:
        raise click.ClickException(f"{source}: {error}") from error
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
