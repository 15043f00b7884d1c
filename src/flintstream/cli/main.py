"""The ``flint`` command: runs programs, shows their plans, runs the demonstrations, and speaks to running jobs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from flintstream import __version__
from flintstream.cli.checkpoints import checkpoints
from flintstream.cli.demos import Demo, find_demos
from flintstream.cli.jobs import absolute, cancel, clear_errors, list_jobs, savepoint, stop
from flintstream.cli.runner import ScriptFailedError, run_script
from flintstream.common.known_keys import refusal
from flintstream.jobmaster.checkpoints.settings import RESTORE_PATH, UNCLAIMED
from flintstream.jobmaster.checkpoints.store import read_checkpoint

__all__ = ["cli", "main"]

_PASS_ON = {"ignore_unknown_options": True, "allow_interspersed_args": False}
_SCRIPT = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="flint")
def cli() -> None:
    """Runs Flink's DataStream programs in Python on Spark."""


def _parse_settings(_context: click.Context, _parameter: click.Parameter, pairs: Sequence[str]) -> dict[str, str]:
    settings = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key.strip():
            raise click.BadParameter(f"{pair!r} is not of the form key=value")
        wrong = refusal(key.strip())
        if wrong is not None:
            raise click.BadParameter(wrong)
        settings[key.strip()] = value.strip()
    return settings


def _program_options(command: click.decorators.FC) -> click.decorators.FC:
    """The options that ``run`` and ``info`` share."""
    for decorate in (
        click.argument("arguments", nargs=-1, type=click.UNPROCESSED),
        click.argument("script", type=_SCRIPT),
        click.option("--pyflink", is_flag=True, help="Let the program's `import pyflink` import flintstream."),
        click.option(
            "-D",
            "settings",
            multiple=True,
            metavar="KEY=VALUE",
            callback=_parse_settings,
            help="Set an option.",
        ),
        click.option(
            "-p", "--parallelism", type=click.IntRange(min=1), help="Parallelism, unless the program sets it."
        ),
    ):
        command = decorate(command)
    return command


@cli.command(context_settings=_PASS_ON)
@click.option(
    "-s", "--fromSavepoint", "restored", metavar="PATH", help="Go on from the checkpoint or savepoint at PATH."
)
@click.option(
    "-n",
    "--allowNonRestoredState",
    "allow_unclaimed",
    is_flag=True,
    help="Drop state of operators that the program no longer has.",
)
@_program_options
def run(
    script: Path,
    arguments: tuple[str, ...],
    parallelism: int | None,
    settings: dict[str, str],
    pyflink: bool,
    restored: str | None,
    allow_unclaimed: bool,
) -> None:
    """Runs the program SCRIPT with ARGUMENTS."""
    settings = _with_parallelism(settings, parallelism)
    if restored is not None:
        with clear_errors():
            read_checkpoint(absolute(restored))
        settings[RESTORE_PATH[0]] = absolute(restored)
    if allow_unclaimed:
        settings[UNCLAIMED[0]] = "true"
    _run(script, arguments, settings, pyflink=pyflink)


@cli.command(context_settings=_PASS_ON)
@_program_options
def info(
    script: Path, arguments: tuple[str, ...], parallelism: int | None, settings: dict[str, str], pyflink: bool
) -> None:
    """Prints the plan of the program SCRIPT without running its job."""
    _run(script, arguments, _with_parallelism(settings, parallelism), pyflink=pyflink, plan_only=True)


@cli.command(context_settings=_PASS_ON)
@click.option("-l", "--list", "list_only", is_flag=True, help="Only list the demonstrations.")
@click.argument("name", required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def demo(name: str | None, arguments: tuple[str, ...], list_only: bool) -> None:
    """Runs the demonstration NAME with ARGUMENTS, or the first one."""
    demos = find_demos()
    if not demos:
        raise click.ClickException("no demonstration is installed.")
    if list_only:
        _print_demos(demos)
        return
    chosen = name or next(iter(demos))
    if chosen not in demos:
        raise click.ClickException(f"there is no demonstration {chosen!r}; there are: {', '.join(demos)}.")
    _run(demos[chosen].path, arguments, {})


def _print_demos(demos: dict[str, Demo]) -> None:
    table = Table(box=None, show_header=False)
    for each in demos.values():
        table.add_row(each.name, each.summary)
    Console().print(table)


def _with_parallelism(settings: dict[str, str], parallelism: int | None) -> dict[str, str]:
    return {**settings} if parallelism is None else {**settings, "parallelism.default": str(parallelism)}


def _run(
    script: Path,
    arguments: Sequence[str],
    settings: dict[str, str],
    *,
    pyflink: bool = False,
    plan_only: bool = False,
) -> None:
    try:
        run_script(script, arguments, settings, pyflink=pyflink, plan_only=plan_only)
    except ScriptFailedError as failure:
        sys.stderr.write(failure.report)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


for command in (list_jobs, savepoint, stop, cancel, checkpoints):
    cli.add_command(command)


def main() -> None:
    """The entry point of the ``flint`` command."""
    cli(prog_name="flint")
