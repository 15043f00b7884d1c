"""The command line: `python -m bench [NAMES] [--quick] [--json PATH] [--no-check]`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import click
from rich.console import Console

from bench import BENCHMARKS
from bench.report import Result, as_json, machine, show

ROOT = Path(__file__).resolve().parent
LATEST = ROOT / "results" / "latest.json"
BUSY_LOAD = 1.0
"""A machine with a higher load than this is doing something else."""


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(BENCHMARKS), metavar="[NAMES]...")
@click.option("--quick", is_flag=True, help="Small sizes, once each: two minutes, to see that all works.")
@click.option("--json", "path", type=click.Path(path_type=Path), default=LATEST, help="Where the numbers go.")
@click.option("--no-check", is_flag=True, help="Missed targets are no failure.")
def main(names: tuple[str, ...], quick: bool, path: Path, no_check: bool) -> None:
    """Measures Flintstream beside its peers.

    NAMES are keyed_count, many_keys, state_access, timers, windows, cep, chain, scale, transports, latency, epoch_latency,
    startup, memory, async_io, checkpoints, recovery, rocksdb, state_processor, expiry, queryable, kafka and server;
    all of them unless given.
    """
    console = Console(width=None if sys.stdout.isatty() else 130)
    where = machine()
    console.print(f"{where['cores']} cores, Python {where['python']}, Spark {where['pyspark']}")
    if where["load_before"] > BUSY_LOAD:
        console.print(f"[yellow]The machine is busy (load {where['load_before']}): expect noise.[/]")
    results = []
    for name in names or BENCHMARKS:
        with console.status(f"{name} …"):
            result = _run(name, quick)
        show(console, result)
        results.append(result)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(as_json(results, where), indent=1) + "\n")
    missed = [line for result in results for line in result.missed]
    for line in missed:
        console.print(f"[bold red]missed:[/] {line}", highlight=False)
    if missed and not no_check:
        sys.exit(1)


def _run(name: str, quick: bool) -> Result:
    """Runs a benchmark in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="flint-bench-") as directory:
        path = Path(directory) / "result.json"
        command = [sys.executable, "-m", "bench.single", name, str(path), "quick" if quick else "full"]
        environment = dict(os.environ, FLINT_PROGRESS="0")
        if subprocess.run(command, cwd=ROOT.parent, env=environment).returncode:
            raise click.ClickException(f"{name} failed; what went wrong stands above")
        return Result.from_json(json.loads(path.read_text()))


if __name__ == "__main__":
    main()
