"""Formats tables, sizes and times for the commands."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table

__all__ = ["cut_to_fit", "duration", "make_table", "moment", "print_table", "size", "time_of_day"]

_PIPE_WIDTH = 1000
"""Output into a pipe is read by programs line by line, so nothing is folded."""


def make_table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """Returns a table without lines; columns named in `right` are right-aligned."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return table


def cut_to_fit(columns: Sequence[str], rows: list[list[str]], first: str, second: str) -> None:
    """Shortens the cells of two columns so that each row fits one line of the terminal."""
    widths = [max(len(cell) for cell in cells) for cells in zip(columns, *rows)]
    one, other = columns.index(first), columns.index(second)
    room = Console().width - sum(widths) - 2 * len(columns) + widths[one] + widths[other]
    widths[one] = max(min(widths[one], max(room // 3, room - widths[other])), len(first))
    widths[other] = max(min(widths[other], room - widths[one]), len(second))
    for row in rows:
        for index in (one, other):
            if len(row[index]) > widths[index]:
                row[index] = f"{row[index][: widths[index] - 1]}…"


def print_table(table: Table, indent: int = 0) -> None:
    """Prints a table to standard output."""
    console = Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH)
    console.print(Padding(table, (0, 0, 0, indent), expand=False))


def size(bytes_count: int) -> str:
    """Formats a number of bytes: `812 B`, `1.5 MB`."""
    number, unit = float(bytes_count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if number < 1000:
            break
        number, unit = number / 1000, larger
    return f"{bytes_count} B" if unit == "B" else f"{number:.1f} {unit}"


def time_of_day(seconds: float) -> str:
    """Formats a time since 1970 in local time: without the date if it is today."""
    whole = moment(seconds)
    date, _, clock = whole.partition(" ")
    return clock if date == moment(time.time()).partition(" ")[0] else whole


def moment(seconds: float) -> str:
    """Formats a time since 1970 in local time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def duration(seconds: float) -> str:
    """Formats a length of time: `0:01:15`."""
    whole = int(max(0.0, seconds))
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
