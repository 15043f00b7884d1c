"""The command ``flint checkpoints``: shows the contents of checkpoints and savepoints, and verifies their files."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict

import click

from flintstream.cli.checkpoint_report import (
    COMPLETE,
    DAMAGED,
    UNSIGNED,
    CheckpointReport,
    OperatorReport,
    inspect_directory,
    sign_checkpoint,
)
from flintstream.cli.jobs import absolute, clear_errors
from flintstream.cli.output import make_table, moment, print_table, size
from flintstream.cli.remote_jobs import RemoteJob
from flintstream.cli.running_jobs import choose_job
from flintstream.cli.server_client import server_option
from flintstream.common.configuration import load_configuration
from flintstream.common.flint_options import SIGNING_KEY_FILE
from flintstream.jobmaster.registry_client import Job
from flintstream.jobmaster.registry_files import RegistryError
from flintstream.runtime.checkpoint.signing import SigningKeys

__all__ = ["checkpoints"]

_SIGNATURES = {
    "none": "",
    "unverified": ", signed (not verified: no key was given)",
    "valid": ", signed",
    "invalid": ", signature invalid",
}


@click.command(short_help="Shows checkpoints and savepoints.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, a list of checkpoints.")
@click.option(
    "-k",
    "--signing-key-file",
    "key_file",
    metavar="FILE",
    help=f"Verify signatures with the keys in FILE; by default, {SIGNING_KEY_FILE.key} of the configuration file.",
)
@click.option(
    "--sign",
    is_flag=True,
    help="Sign the checkpoint or savepoint in DIRECTORY, if you trust it; in a job's directory, the last one.",
)
@server_option
@click.argument("place", metavar="DIRECTORY|JOB")
def checkpoints(place: str, as_json: bool, key_file: str | None, sign: bool, server: str | None) -> None:
    """Shows the checkpoints and savepoints in DIRECTORY, or the completed checkpoints of a running JOB.

    DIRECTORY may hold many jobs, one job, or a single checkpoint or savepoint. Every file is read and verified against
    its checksum; the exit code is 1 if one is missing, truncated or altered or, if keys are given, not signed with one
    of them.
    """
    with clear_errors():
        if server is not None:
            _show_of_job(choose_job(place, server), as_json)
            return
        keys = SigningKeys.read_if(key_file or SIGNING_KEY_FILE.of(load_configuration().to_dict()))
        if sign:
            _sign(place, keys)
            return
        if "://" not in place and not os.path.exists(absolute(place)):
            _show_of_job(_find(place), as_json)
            return
        reports = inspect_directory(absolute(place), keys)
    if not reports:
        raise click.ClickException(f"{place} has no checkpoints or savepoints.")
    if as_json:
        click.echo(json.dumps([asdict(report) for report in reports], indent=2))
    else:
        for number, report in enumerate(reports):
            if number:
                click.echo()
            _show(report)
    if any(report.status in (DAMAGED, UNSIGNED) for report in reports):
        sys.exit(1)


def _sign(place: str, keys: SigningKeys | None) -> None:
    if keys is None:
        raise click.UsageError("--sign needs --signing-key-file")
    click.echo(f"{sign_checkpoint(absolute(place), keys)} is signed.")


def _find(text: str) -> Job | RemoteJob:
    try:
        return choose_job(text)
    except RegistryError as error:
        raise click.ClickException(f"there is no directory {text!r}, and {error}") from error


def _show_of_job(job: Job | RemoteJob, as_json: bool) -> None:
    found = job.checkpoints()
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    if not found:
        click.echo(f"Job {job} has no completed checkpoints.")
        return
    table = make_table("CHECKPOINT", "TIME", "SIZE", "LOCATION", right=("CHECKPOINT", "SIZE"))
    for each in found:
        location = each["location"] or "the driver's memory"
        table.add_row(str(each["id"]), moment(each["timestamp"] / 1000), size(each["size"]), location)
    print_table(table)


def _show(report: CheckpointReport) -> None:
    if report.kind is None:
        click.echo(f"{report.location}: {report.status}")
    else:
        click.echo(report.location if report.status == COMPLETE else f"{report.location}, {report.status}")
        click.echo(f"  {report.kind} {report.id} of job '{report.job_name}' ({report.job_id})")
        signature = _SIGNATURES[report.signature or "none"]
        click.echo(
            f"  {moment((report.timestamp or 0) / 1000)}, {size(report.size or 0)}, {report.files} files{signature}"
        )
        _show_operators(report.operators)
    for problem in report.problems:
        click.echo(f"  {problem}")


def _show_operators(operators: list[OperatorReport]) -> None:
    table = make_table("OPERATOR", "UID", "PARALLELISM", "STATE", "KIND", "SIZE", right=("SIZE",))
    for operator in operators:
        parallelism = f"{operator.parallelism} of {operator.max_parallelism}"
        table.add_row(operator.name, operator.uid or "-", parallelism, "", "", size(operator.size), style="bold")
        for state in operator.states:
            table.add_row("", "", "", state.name, state.kind, "-" if state.size is None else size(state.size))
    print_table(table, indent=2)
