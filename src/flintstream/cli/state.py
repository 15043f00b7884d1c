"""The command ``flint state``: shows the state of savepoints and checkpoints, and writes it to files."""

from __future__ import annotations

import sys
from itertools import islice
from typing import TYPE_CHECKING

import click

from flintstream.cli.jobs import absolute, clear_errors
from flintstream.cli.output import make_table, moment, print_table, size
from flintstream.common.configuration import load_configuration
from flintstream.common.flint_options import SIGNING_KEY_FILE
from flintstream.runtime.slot.user_code import existing_path, import_entry

if TYPE_CHECKING:
    from flintstream.cli.state_report import StoredRows
    from flintstream.state_processor.savepoint import Savepoint, StoredOperator

__all__ = ["state"]

_TABLE_ROWS = 20


@click.group(short_help="Shows the state in savepoints and checkpoints.")
def state() -> None:
    """Shows the state in savepoints and checkpoints, and writes it to files."""


@state.command(short_help="Shows operators and states, or the rows of a state.")
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", help="Show at most N rows; unless given, a table has 20."
)
@click.option(
    "--csv",
    "csv_file",
    type=click.Path(dir_okay=False, allow_dash=True),
    is_flag=False,
    flag_value="-",
    metavar="[FILE]",
    help="Print the rows as CSV, or write them to FILE. At the end of the line, unless with a FILE.",
)
@click.option(
    "--parquet", "parquet_file", type=click.Path(dir_okay=False), metavar="FILE", help="Write the rows to Parquet."
)
@click.option(
    "-k",
    "--signing-key-file",
    "key_file",
    metavar="FILE",
    help=f"Refuse what was not signed with the keys in FILE; by default, {SIGNING_KEY_FILE.key} of the configuration file.",
)
@click.option(
    "-pyfs",
    "--pyFiles",
    "python_files",
    metavar="FILES",
    help="Modules with the classes of the state, separated by commas.",
)
@click.argument("path")
@click.argument("uid", required=False)
@click.argument("name", required=False, metavar="[STATE]")
def show(
    path: str,
    uid: str | None,
    name: str | None,
    limit: int | None,
    csv_file: str | None,
    parquet_file: str | None,
    key_file: str | None,
    python_files: str | None,
) -> None:
    """Shows the operators and states of the savepoint or checkpoint PATH, with their types, keys and sizes.

    With the UID of an operator, only that one; for an operator without a uid, its id of 32 digits. With the name of a
    STATE too, its rows. State is unpickled, which can run code: show only what you trust.
    """
    if name is None and (limit or csv_file or parquet_file):
        raise click.UsageError("--limit, --csv and --parquet need a UID and a STATE.")
    # Imported here because it loads all of the API, which other commands do not need.
    from flintstream.state_processor.savepoint import Savepoint, StateKindError, StateNotFoundError

    with clear_errors():
        for entry in (python_files or "").split(","):
            if entry.strip():
                sys.path.insert(0, import_entry(existing_path(entry, "--pyFiles")))
        configuration = load_configuration().to_dict()
        if key_file is not None:
            configuration[SIGNING_KEY_FILE.key] = key_file
        savepoint = Savepoint.read(absolute(path), configuration)
        try:
            if uid is None or name is None:
                _show_operators(savepoint, savepoint.operators() if uid is None else [_find(savepoint, uid)])
            else:
                _show_rows(_find(savepoint, uid), name, limit, csv_file, parquet_file)
        except (StateNotFoundError, StateKindError) as error:
            raise click.ClickException(str(error.args[0])) from error


def _find(savepoint: Savepoint, uid: str) -> StoredOperator:
    from flintstream.state_processor import OperatorIdentifier, StateNotFoundError

    if OperatorIdentifier.for_uid(uid).operator_id not in savepoint.metadata.operators:
        try:
            return savepoint.find(OperatorIdentifier.for_uid_hash(uid))
        except (ValueError, StateNotFoundError):
            pass  # It is no id either: the message is about uids.
    return savepoint.find(uid)


def _show_operators(savepoint: Savepoint, operators: list[StoredOperator]) -> None:
    from flintstream.cli.state_report import states_of

    metadata = savepoint.metadata
    kind = "savepoint" if metadata.savepoint else "checkpoint"
    click.echo(savepoint.location)
    click.echo(f"  {kind} {metadata.checkpoint_id} of job '{metadata.job_name}' ({metadata.job_id})")
    click.echo(f"  {moment(metadata.timestamp / 1000)}, {size(sum(each.size for each in savepoint.operators()))}")
    table = make_table(
        "OPERATOR", "UID", "PARALLELISM", "STATE", "KIND", "TYPE", "KEYS", "SIZE", right=("KEYS", "SIZE")
    )
    problems: dict[tuple[str, str], None] = {}
    for operator in operators:
        stored = operator.state
        parallelism = f"{stored.parallelism} of {stored.max_parallelism}"
        uid = stored.uid or operator.operator_id
        table.add_row(stored.name, uid, parallelism, "", "", "", "", size(operator.size), style="bold")
        for each in states_of(operator):
            count = "?" if each.count is None else str(each.count)
            table.add_row(
                "", "", "", each.name, each.kind, each.type, count, "-" if each.size is None else size(each.size)
            )
            if each.problem is not None:
                problems[operator.place, each.problem] = None
        if stored.source is not None:
            table.add_row("", "", "", "position", "source", "", "", size(len(stored.source)))
    print_table(table, indent=2)
    for place, problem in problems:
        click.echo(f"  {place}: its state cannot be read here: {problem}", err=True)
    if problems:
        click.echo("  Name the files of these classes with --pyFiles.", err=True)


def _show_rows(
    operator: StoredOperator, name: str, limit: int | None, csv_file: str | None, parquet_file: str | None
) -> None:
    from flintstream.cli.state_report import StoredRows

    try:
        if csv_file is None and parquet_file is None:
            _print_rows(StoredRows(operator, name), limit or _TABLE_ROWS)
        if csv_file is not None:
            with click.open_file(csv_file, "w", encoding="utf-8") as file:
                count = StoredRows(operator, name, limit).write_csv(file)
            if csv_file != "-":
                click.echo(f"{count} rows are in {csv_file}.", err=True)
        if parquet_file is not None:
            count = StoredRows(operator, name, limit).write_parquet(parquet_file)
            click.echo(f"{count} rows are in {parquet_file}.", err=True)
    except (AttributeError, ImportError) as error:
        raise click.ClickException(
            f"{operator.place}: state '{name}' cannot be read here: {error}: name the files of its classes with --pyFiles"
        ) from error


def _print_rows(rows: StoredRows, limit: int) -> None:
    table = make_table(*(each.upper() for each in rows.names))
    shown = list(islice(iter(rows), limit + 1))
    for row in shown[:limit]:
        table.add_row(*map(repr, row))
    print_table(table)
    if len(shown) > limit:
        click.echo(f"Only the first {limit} rows are shown: see --limit, --csv, --parquet.", err=True)
