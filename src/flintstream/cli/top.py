"""The command ``flint top``: a live view of running jobs in the terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from flintstream.cli.jobs import clear_errors
from flintstream.cli.output import duration, make_table, size, time_of_day
from flintstream.cli.remote_jobs import find_remote_jobs
from flintstream.cli.server_client import ServerClient, choose_server, path_of, server_option
from flintstream.jobmaster.details import JobDetails, VertexDetails, from_json
from flintstream.jobmaster.registry_client import find_jobs
from flintstream.jobmaster.registry_files import RegistryError

__all__ = ["top"]

_DETAILS_SECONDS = 5.0
_BAR = 10
_NO_MARK = 1 << 62
"""A greater watermark, or one below its negative, is none: nothing has arrived, or the input has ended."""


@click.command(short_help="Shows running jobs, live.")
@click.argument("job", required=False)
@click.option("-d", "--delay", type=click.FloatRange(min=0.2), default=2.0, show_default=True, help="Seconds between.")
@click.option(
    "-n", "--iterations", type=click.IntRange(min=1), help="How often to show; in a pipe once, else for ever."
)
@server_option
def top(job: str | None, delay: float, iterations: int | None, server: str | None) -> None:
    """Shows jobs with their vertices, rates, busy time and last checkpoint, live.

    JOB is an id or a name, or the beginning of one; without it, all running jobs are shown. Ctrl-C ends the view.
    """
    on_terminal = sys.stdout.isatty()
    rounds = iterations if iterations is not None else None if on_terminal else 1
    console = Console(width=None if on_terminal else 120)
    with clear_errors():
        client = None if server is None else choose_server(server)
        try:
            if on_terminal:
                _show_live(console, client, job, delay, rounds)
            else:
                for number in range(rounds or 1):
                    if number:
                        time.sleep(delay)
                    console.print(view(_read(client, job)))
        except KeyboardInterrupt:
            pass


def _show_live(
    console: Console, client: ServerClient | None, job: str | None, delay: float, rounds: int | None
) -> None:
    with Live(view(_read(client, job)), console=console, screen=rounds is None, auto_refresh=False) as live:
        number = 1
        while rounds is None or number < rounds:
            time.sleep(delay)
            number += 1
            try:
                live.update(view(_read(client, job)), refresh=True)
            except RegistryError as error:
                if rounds is not None:
                    raise
                live.update(Text(f"{error}\nWaiting …"), refresh=True)  # A server that restarts comes back.


def _read(client: ServerClient | None, wanted: str | None) -> list[JobDetails | str]:
    """Returns the details of the running jobs that `wanted` names, or of all; of those that give none, why."""
    found: list[JobDetails | str] = []
    for job in find_jobs() if client is None else find_remote_jobs(client):
        if job.ended or (wanted and not (job.job_id.startswith(wanted.lower()) or job.name.startswith(wanted))):
            continue
        try:
            if client is None:
                found.append(job.details(_DETAILS_SECONDS))  # type: ignore[union-attr]
            else:
                found.append(from_json(JobDetails, client.get(path_of(job.job_id, "details"))))
        except (TimeoutError, ValueError, RegistryError, OSError) as error:
            found.append(f"{job} is {job.status}: {error}")
    if wanted and not found:
        raise RegistryError(f"no running job has an id or a name that begins with {wanted!r}")
    return found


# --- the view ---


def view(jobs: Iterable[JobDetails | str]) -> RenderableType:
    """Returns what is shown of jobs: their details, or a line about one that gives none."""
    parts: list[RenderableType] = []
    for job in jobs:
        if parts:
            parts.append(Text())
        if isinstance(job, str):
            parts.append(Text(job, "yellow"))
            continue
        parts += [_headline(job), _vertices(job)]
        if job.exceptions:
            latest = job.exceptions[0]
            parts.append(Text(f"last failure {time_of_day(latest.timestamp / 1000)}: {latest.exception}", "red"))
    return Group(*parts) if parts else Text("No jobs are running.")


def _headline(job: JobDetails) -> Text:
    since = job.start_time if job.start_time > 0 else job.now
    restarts = f"{job.restarts} restart{'' if job.restarts == 1 else 's'}"
    memory = sum(slot.memory for slot in job.slots)
    told = [
        duration((job.now - since) / 1000),
        f"{len(job.slots)} slots {size(memory)}",
        restarts,
        _checkpoint(job),
        *([job.phase] if job.phase else []),
    ]
    style = "green" if job.status == "RUNNING" else "yellow"
    return Text.assemble((job.name, "bold"), f" {job.job_id[:8]} ", (job.status, style), " · " + " · ".join(told))


def _checkpoint(job: JobDetails) -> str:
    if not job.checkpoints.enabled:
        return "no checkpoints"
    done, failed = job.checkpoints.latest_completed, job.checkpoints.failed_since
    if done is None:
        return "no checkpoint yet"
    ago = max(0, job.now - done.latest_ack_timestamp) / 1000
    text = f"checkpoint {done.checkpoint_id}: {size(done.state_size)} in {done.end_to_end_duration} ms, {ago:.0f} s ago"
    return text + (f", {failed} failed since" if failed else "")


def _vertices(job: JobDetails) -> Table:
    columns = ("VERTEX", "SUBTASKS", "IN/S", "OUT/S", "BUSY", "", "BACK-PRESSURED", "WATERMARK LAG")
    table = make_table(*columns, right=("SUBTASKS", "IN/S", "OUT/S", "", "BACK-PRESSURED", "WATERMARK LAG"))
    table.columns[0].overflow, table.columns[0].no_wrap, table.columns[0].max_width = "ellipsis", True, 48
    for vertex in job.vertices:
        busy = vertex.most("busyTimeMsPerSecond") / 1000
        table.add_row(
            vertex.name,
            str(vertex.parallelism),
            f"{vertex.total('numRecordsInPerSecond'):,.0f}",
            f"{vertex.total('numRecordsOutPerSecond'):,.0f}",
            _bar(busy),
            f"{busy:.0%}",
            f"{vertex.most('backPressuredTimeMsPerSecond') / 1000:.0%}",
            _lag(vertex, job.now),
        )
    return table


def _bar(share: float) -> Text:
    filled = round(min(share, 1.0) * _BAR)
    style = "red" if share > 0.8 else "yellow" if share > 0.5 else "green"
    return Text.assemble(("█" * filled, style), ("░" * (_BAR - filled), "dim"))


def _lag(vertex: VertexDetails, now: int) -> str:
    """Returns by how much the slowest subtask is behind the clock; nothing without watermarks."""
    marks = [int(mark) for each in vertex.subtasks if (mark := each.metrics.get("currentInputWatermark")) is not None]
    known = [mark for mark in marks if -_NO_MARK < mark < _NO_MARK]
    return f"{max(0, now - min(known)) / 1000:,.1f} s" if known else ""
