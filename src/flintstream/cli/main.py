"""The ``flint`` command: runs programs, shows their plans, runs the demonstrations, and controls running jobs."""

from __future__ import annotations

import sys

import click
from rich.console import Console
from rich.table import Table

from flintstream import __version__
from flintstream.cli.checkpoints import checkpoints
from flintstream.cli.demos import Demo, find_demos
from flintstream.cli.jobs import cancel, clear_errors, list_jobs, savepoint, stop
from flintstream.cli.program_options import ProgramCommand, ProgramOptions, program_options
from flintstream.cli.runner import Program, ProgramFailedError, run_program
from flintstream.cli.server import server
from flintstream.cli.server_client import choose_server
from flintstream.cli.state import state
from flintstream.cli.submission import submit_program
from flintstream.cli.top import top
from flintstream.runtime import columns

__all__ = ["cli", "main"]

_SPEED = "compiled" if columns.decode is not columns.decode_in_python else "not compiled"

_PASS_ON = {"ignore_unknown_options": True, "allow_interspersed_args": False}


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="flint", message=f"%(prog)s, version %(version)s ({_SPEED})")
def cli() -> None:
    """Runs Flink's DataStream programs in Python on Spark."""


@cli.command(cls=ProgramCommand)
@program_options
def run(options: ProgramOptions) -> None:
    """Runs the program SCRIPT with ARGUMENTS. The options are those of `flink run`."""
    if options.detached:
        with clear_errors():
            server = choose_server(options.server, options.settings)
            job_id = submit_program(server, options.program, options.settings, options.pyflink)
        click.echo(f"Job has been submitted with JobID {job_id}")
        return
    if options.server is not None:
        raise click.UsageError("-m names a job server, which runs programs detached: use -d with it.")
    _run(options.program, options.settings, pyflink=options.pyflink)


@cli.command(cls=ProgramCommand, short_help="Prints the plan of the program SCRIPT.")
@program_options
def info(options: ProgramOptions) -> None:
    """Prints the plan of the program SCRIPT without running its job.

    With -s, state that the job could not restore is refused as `flint run` would refuse it. The plan is made here, and is
    the same on the job server that -m names.
    """
    if options.detached:
        raise click.UsageError("-d: the plan is printed at once; there is nothing to detach from.")
    _run(options.program, options.settings, pyflink=options.pyflink, plan_only=True)


@cli.command(context_settings=_PASS_ON)
@click.option("-l", "--list", "list_only", is_flag=True, help="Only list the demonstrations.")
@click.argument("name", required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def demo(name: str | None, arguments: tuple[str, ...], list_only: bool) -> None:
    """Runs the demonstration NAME with ARGUMENTS; without NAME, the first one. The beginning of its name is enough."""
    demos = find_demos()
    if not demos:
        raise click.ClickException("no demonstration is installed.")
    if list_only:
        _print_demos(demos)
        return
    chosen = name or next(iter(demos))
    matching = [chosen] if chosen in demos else [each for each in demos if each.startswith(chosen)]
    if len(matching) != 1:
        said = f"there is no demonstration {chosen!r}" if not matching else f"{chosen!r} begins several names"
        raise click.ClickException(f"{said}; choose one of: {', '.join(matching or demos)}.")
    _run(Program(demos[matching[0]].path, arguments=arguments), {})


def _print_demos(demos: dict[str, Demo]) -> None:
    table = Table(box=None, show_header=False)
    for each in demos.values():
        table.add_row(each.name, each.summary)
    Console().print(table)


def _run(program: Program, settings: dict[str, str], *, pyflink: bool = False, plan_only: bool = False) -> None:
    try:
        run_program(program, settings, pyflink=pyflink, plan_only=plan_only)
    except ProgramFailedError as failure:
        sys.stderr.write(failure.report)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


for command in (list_jobs, top, savepoint, stop, cancel, checkpoints, state, server):
    cli.add_command(command)


def main() -> None:
    """The entry point of the ``flint`` command."""
    cli(prog_name="flint")
