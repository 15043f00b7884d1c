"""The commands for running jobs: ``flint list``, ``savepoint``, ``stop`` and ``cancel``.

The directory of a savepoint, for scripts, goes to standard output; everything else goes to standard error.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from flintstream.cli.output import cut_to_fit, duration, make_table, moment, print_table, time_of_day
from flintstream.cli.remote_jobs import dispose_savepoint, find_remote_jobs
from flintstream.cli.running_jobs import choose_job
from flintstream.cli.server_client import choose_server, server_option
from flintstream.jobmaster.registry_client import Job, find_jobs
from flintstream.jobmaster.registry_files import RegistryError
from flintstream.runtime.checkpoint.metadata import METADATA
from flintstream.runtime.checkpoint.store import read_checkpoint

__all__ = ["absolute", "cancel", "clear_errors", "list_jobs", "savepoint", "stop"]

_DEFAULT = ""
"""The value of an option given without one."""


def absolute(location: str) -> str:
    """Returns a directory as an absolute path, since the driver has another working directory; URLs are unchanged."""
    return location if "://" in location else os.path.abspath(Path(location).expanduser())


@contextmanager
def clear_errors() -> Iterator[None]:
    """Reports errors of jobs and files as messages, without tracebacks."""
    try:
        yield
    except (RegistryError, OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error


@click.command("list")
@click.option("-r", "--running", is_flag=True, help="Only jobs that have started.")
@click.option(
    "-a", "--all", "everything", is_flag=True, help="Include jobs that have ended while their program still runs."
)
@server_option
def list_jobs(running: bool, everything: bool, server: str | None) -> None:
    """Lists the running jobs of this user's programs, or of a job server."""
    if running and everything:
        raise click.UsageError("-r and -a exclude each other.")
    if server is not None:
        _list_remote(server, running, everything)
        return
    with clear_errors():
        jobs = [job for job in find_jobs() if everything or not job.ended]
    if running:
        jobs = [job for job in jobs if job.status != "CREATED"]
    if not jobs:
        click.echo("There are no jobs." if everything else "No jobs are running.")
        return
    _print_jobs(jobs, on_terminal=sys.stdout.isatty())
    for job in jobs:
        if job.file.failure is not None:
            click.echo(f"{job} is {job.status}: {job.file.failure}", err=True)


def _list_remote(server: str, running: bool, everything: bool) -> None:
    with clear_errors():
        found = find_remote_jobs(choose_server(server))
    jobs = [job for job in found if everything or not job.ended]
    if running:
        jobs = [job for job in jobs if job.status not in ("CREATED", "INITIALIZING")]
    if not jobs:
        click.echo("There are no jobs." if everything else "No jobs are running.")
        return
    on_terminal = sys.stdout.isatty()
    columns = ("JOB", "NAME", "STATUS", "STARTED", "DURATION", "TASKS")
    digits = _distinct_digits([job.job_id for job in jobs]) if on_terminal else None
    table = make_table(*columns, right=("DURATION", "TASKS"))
    for job in jobs:
        started = time_of_day(job.started) if on_terminal else moment(job.started)
        table.add_row(job.job_id[:digits], job.name, job.status, started, duration(job.seconds), str(job.tasks))
    print_table(table)


def _print_jobs(jobs: list[Job], on_terminal: bool) -> None:
    """Prints a line per job: with the full id in a pipe, for programs, and with a unique prefix on a terminal."""
    columns = ("JOB", "NAME", "STATUS", "STARTED", "DURATION", "PARALLELISM", "PID", "PROGRAM")
    digits = _distinct_digits([job.file.job_id for job in jobs]) if on_terminal else None
    rows = [
        [
            job.file.job_id[:digits],
            job.file.name,
            job.status,
            time_of_day(job.file.started) if on_terminal else moment(job.file.started),
            duration(job.seconds),
            str(job.file.parallelism or "?"),
            str(job.file.pid),
            _program(job.file.program, on_terminal),
        ]
        for job in jobs
    ]
    if on_terminal:
        cut_to_fit(columns, rows, "NAME", "PROGRAM")
    table = make_table(*columns, right=("DURATION", "PARALLELISM", "PID"))
    for row in rows:
        table.add_row(*row)
    print_table(table)


def _program(command: str, shortened: bool) -> str:
    """Returns a program with its arguments, shortened, without its directory."""
    if not command:
        return "interactive"
    script, *arguments = shlex.split(command)
    return shlex.join([os.path.basename(script), *arguments]) if shortened else command


def _distinct_digits(job_ids: list[str]) -> int:
    """Returns how many digits make the ids unique."""
    ids = set(job_ids)
    return next(count for count in range(8, 33) if len({job_id[:count] for job_id in ids}) == len(ids))


@click.command()
@click.option("-d", "--dispose", "disposed", metavar="PATH", help="Remove the savepoint at PATH.")
@server_option
@click.argument("job", required=False)
@click.argument("directory", required=False)
def savepoint(job: str | None, directory: str | None, disposed: str | None, server: str | None) -> None:
    """Takes a savepoint of JOB below DIRECTORY, or removes one.

    JOB is an id or a name, or an unambiguous prefix of either. Without DIRECTORY the job's own
    execution.checkpointing.savepoint-dir is used.
    """
    if (job is None) == (disposed is None):
        raise click.UsageError("specify either a JOB, or -d with the PATH of a savepoint.")
    with clear_errors():
        if disposed is not None and server is not None:
            dispose_savepoint(choose_server(server), absolute(disposed))
            click.echo(f"Removed the savepoint {absolute(disposed)}.", err=True)
        elif disposed is not None:
            _dispose(disposed)
        elif job is not None:
            chosen = choose_job(job, server)
            click.echo(chosen.savepoint(None if directory is None else absolute(directory)))
            click.echo(f"Took a savepoint of job {chosen}.", err=True)


@click.command(short_help="Stops JOB with a savepoint.")
@click.option(
    "-d", "--drain", is_flag=True, help="Send the last watermark and the end of the input before the savepoint."
)
@click.option("-p", "--savepointPath", "directory", metavar="DIRECTORY", help="Where to put the savepoint.")
@server_option
@click.argument("job")
def stop(job: str, directory: str | None, drain: bool, server: str | None) -> None:
    """Stops JOB with a savepoint: everything it has read is processed and committed."""
    with clear_errors():
        chosen = choose_job(job, server)
        click.echo(chosen.stop(None if directory is None else absolute(directory), drain))
        click.echo(f"Stopped job {chosen}.", err=True)


@click.command()
@click.option(
    "-s",
    "--withSavepoint",
    "directory",
    metavar="[DIRECTORY]",
    is_flag=False,
    flag_value=_DEFAULT,
    help="Take a savepoint before.",
)
@server_option
@click.argument("job", required=False)
def cancel(job: str | None, directory: str | None, server: str | None) -> None:
    """Cancels JOB, optionally after taking a savepoint."""
    if job is None and directory:
        # `cancel -s JOB`: the word after the option is the job, as in Flink.
        job, directory = directory, _DEFAULT
    if job is None:
        raise click.UsageError("Missing argument 'JOB'.")
    with clear_errors():
        chosen = choose_job(job, server)
        location = chosen.cancel(directory is not None, absolute(directory) if directory else None)
    if location is not None:
        click.echo(location)
    click.echo(f"Cancelled job {chosen}.", err=True)


def _dispose(location: str) -> None:
    metadata, storage = read_checkpoint(absolute(location))
    if not metadata.savepoint:
        raise click.ClickException(
            f"{location} is not a savepoint: it is checkpoint {metadata.checkpoint_id} of job '{metadata.job_name}' "
            f"({metadata.job_id}), which the job owns."
        )
    own = metadata.files()
    # The metadata goes first: without it, the rest is no longer a savepoint.
    for path in (METADATA, *sorted(own)):
        storage.remove(path)
    others = sorted(set(storage.names()) - {path.partition("/")[0] for path in own})
    if others:
        click.echo(f"{storage.root} was not removed: it has other files ({', '.join(others[:3])}).", err=True)
    else:
        storage.remove("")
    click.echo(f"Removed the savepoint {storage.root}.", err=True)
