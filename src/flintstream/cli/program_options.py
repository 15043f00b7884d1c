"""The options of ``flint run`` and ``flint info``: those of ``flink run``, with the same names.

Options that need Flink's cluster are refused with a message that says what to do instead.
"""

from __future__ import annotations

import difflib
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from flintstream.cli.jobs import absolute, clear_errors
from flintstream.cli.runner import Program
from flintstream.common.known_keys import refusal
from flintstream.jobmaster.settings import check_claim_mode
from flintstream.runtime.checkpoint.settings import RESTORE_PATH, UNCLAIMED
from flintstream.runtime.checkpoint.store import read_checkpoint

__all__ = ["ProgramCommand", "ProgramOptions", "program_options", "settings_option"]

_FILE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)


@dataclass(frozen=True)
class ProgramOptions:
    """The settings of a program from the command line."""

    program: Program
    settings: dict[str, str]
    pyflink: bool
    detached: bool = False
    server: str | None = None
    """The job server named by `-m`."""


class ProgramCommand(click.Command):
    """A command whose options end where the program begins: everything after it belongs to the program.

    The program begins with SCRIPT. If ``-py`` or ``-pym`` names it, its arguments begin with the first word that is not
    an option of the command, as in Flink.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end, named = self._own_options(ctx, args)
        if not named and end < len(args) and args[end].startswith("-") and args[end] != "--":
            close = difflib.get_close_matches(args[end], self._names(ctx), 1)
            raise click.UsageError(
                f"No such option: {args[end]}." + "".join(f" Did you mean {name}?" for name in close), ctx
            )
        if end < len(args):
            rest = args[end + 1 :] if args[end] == "--" else args[end:]
            args = [*args[:end], "--", *rest]
        return super().parse_args(ctx, args)

    def _own_options(self, ctx: click.Context, args: Sequence[str]) -> tuple[int, bool]:
        """Returns how many of the words belong to the command, and whether they name the program."""
        options = {name: option for option in self._options(ctx) for name in option.opts}
        index, named = 0, False
        while index < len(args):
            word = args[index]
            name = word.partition("=")[0] if word.startswith("--") else word
            if name not in options and (word[:2] in ("-D", "-s") or (word[:2] == "-p" and word[2:].isdigit())):
                name = word[:2]  # The value is attached to the option.
            if name not in options:
                break
            named = named or options[name].name in ("python", "module")
            attached = name != word
            index += 1 if attached or options[name].is_flag or options[name].is_eager else 2
        return min(index, len(args)), named

    def _options(self, ctx: click.Context) -> list[click.Option]:
        return [parameter for parameter in self.get_params(ctx) if isinstance(parameter, click.Option)]

    def _names(self, ctx: click.Context) -> list[str]:
        return [name for option in self._options(ctx) if not option.hidden for name in option.opts]


def program_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of a program to a command, which receives them as `options`."""

    def run(
        words: tuple[str, ...],
        python: Path | None,
        module: str | None,
        parallelism: int | None,
        settings: dict[str, str],
        pyflink: bool,
        restored: str | None,
        allow_unclaimed: bool,
        claim_mode: str | None,
        detached: bool,
        server: str | None,
        **others: Any,
    ) -> None:
        if python is not None and module is not None:
            raise click.UsageError("-py and -pym exclude each other.")
        if python is None and module is None:
            if not words:
                raise click.UsageError("Missing argument 'SCRIPT'.")
            python, words = _FILE.convert(words[0], None, click.get_current_context()), words[1:]
        restore = _restore_settings(restored, allow_unclaimed, claim_mode, detached)
        chosen = {**settings, **_python_settings(others), **restore}
        if parallelism is not None:
            chosen["parallelism.default"] = str(parallelism)
        files = chosen.get("python.files", "")
        program = Program(python, module, words, tuple(filter(None, files.split(","))))
        command(options=ProgramOptions(program, chosen, pyflink, detached, server), **others)

    decorated: Any = run
    for decorate in reversed(_OPTIONS):
        decorated = decorate(decorated)
    decorated.__doc__ = command.__doc__
    decorated.__name__ = command.__name__
    decorated.__click_params__ += getattr(command, "__click_params__", [])
    return decorated  # type: ignore[no-any-return]


def _restore_settings(
    restored: str | None, allow_unclaimed: bool, claim_mode: str | None, detached: bool
) -> dict[str, str]:
    settings = {}
    with clear_errors():
        if restored is not None:
            settings[RESTORE_PATH] = absolute(restored)
            if not detached:  # The server's machine may reach what this one does not.
                read_checkpoint(settings[RESTORE_PATH])
        if claim_mode is not None:
            check_claim_mode(claim_mode, "--claimMode")
    if allow_unclaimed:
        settings[UNCLAIMED] = "true"
    return settings


_PYTHON_KEYS = {
    "python_files": "python.files",
    "requirements": "python.requirements",
    "archives": "python.archives",
    "executable": "python.executable",
    "python_path": "python.pythonpath",
}


def _python_settings(given: dict[str, Any]) -> dict[str, str]:
    """Removes the options that map to configuration keys from `given`, and returns their settings."""
    texts = {key: given.pop(name) for name, key in _PYTHON_KEYS.items()}
    return {key: text for key, text in texts.items() if text is not None}


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


def _check_client(_context: click.Context, _parameter: click.Parameter, path: str | None) -> None:
    if path is None:
        return
    found = shutil.which(path)
    if found is None:
        raise click.BadParameter(f"there is no program {path!r}.")
    # A virtual environment's Python is a symbolic link: links are not resolved.
    if Path(found).absolute() != Path(sys.executable).absolute():
        raise click.BadParameter(
            f"the program runs in the Python that runs flint, {sys.executable}: call `{path} -m flintstream run …` "
            "instead."
        )


def _check_target(_context: click.Context, parameter: click.Parameter, target: str | None) -> None:
    if target not in (None, "local"):
        raise click.BadParameter(f"{target!r} is a Flink cluster: select the cluster with -D spark.master=URL.")


def _refused(*names: str, instead: str, takes_value: bool = True) -> Callable[[Any], Any]:
    def refuse(context: click.Context, _parameter: click.Parameter, value: Any) -> None:
        if value:
            raise click.UsageError(f"{'/'.join(names)}: {instead}", context)

    return click.option(
        *names,
        f"refused_{names[0].strip('-')}",
        is_flag=not takes_value,
        default=None,
        expose_value=False,
        hidden=True,
        callback=refuse,
    )


settings_option = click.option(
    "-D", "settings", multiple=True, metavar="KEY=VALUE", callback=_parse_settings, help="Set an option."
)

_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "-s",
        "--fromSavepoint",
        "restored",
        metavar="PATH",
        help="Restore the job from the checkpoint or savepoint at PATH. This executes the pickles stored there: "
        "restore only what you trust, or sign checkpoints (flint.checkpoints.signing-key-file).",
    ),
    click.option(
        "-n",
        "--allowNonRestoredState",
        "allow_unclaimed",
        is_flag=True,
        help="Drop state of operators that the program no longer has.",
    ),
    click.option(
        "-rm",
        "--restoreMode",
        "-cm",
        "--claimMode",
        "claim_mode",
        metavar="MODE",
        help="NO_CLAIM: the savepoint remains yours, and the job never removes it. This is the only mode.",
    ),
    click.option("-p", "--parallelism", type=click.IntRange(min=1), help="Default parallelism."),
    settings_option,
    click.option("--pyflink", is_flag=True, help="Redirect the program's `import pyflink` to flintstream."),
    click.option("-py", "--python", "python", type=_FILE, metavar="FILE", help="The program, as SCRIPT."),
    click.option(
        "-pym", "--pyModule", "module", metavar="MODULE", help="The program, as a module: `python -m MODULE`."
    ),
    click.option(
        "-pyfs",
        "--pyFiles",
        "python_files",
        metavar="FILES",
        help="Files, folders and archives (.zip, .whl, .egg) to import from, separated by commas.",
    ),
    click.option(
        "-pyreq",
        "--pyRequirements",
        "requirements",
        metavar="FILE[#FOLDER]",
        help="Requirements to install for functions, optionally from a folder of packages.",
    ),
    click.option(
        "-pyarch",
        "--pyArchives",
        "archives",
        metavar="ARCHIVES",
        help="Archives to unpack where functions run, separated by commas; `data.zip#name` into a folder of that name.",
    ),
    click.option(
        "-pyexec", "--pyExecutable", "executable", metavar="PATH", help="The Python interpreter that runs functions."
    ),
    click.option(
        "-pypath", "--pyPythonPath", "python_path", metavar="PATHS", help="Folders to import from, separated by colons."
    ),
    click.option(
        "-pyclientexec", "--pyClientExecutable", "client", hidden=True, expose_value=False, callback=_check_client
    ),
    click.option("-t", "--target", "target", hidden=True, expose_value=False, callback=_check_target),
    click.option("-e", "--executor", "executor", hidden=True, expose_value=False, callback=_check_target),
    # Accepted without effect: the job always ends with the program that started it.
    click.option("-sae", "--shutdownOnAttachedExit", "shutdown", is_flag=True, hidden=True, expose_value=False),
    _refused("-c", "--class", instead="programs are written in Python: name one with -py FILE or -pym MODULE."),
    _refused("-j", "--jarfile", instead="programs are written in Python: name one with -py FILE or -pym MODULE."),
    _refused("-C", "--classpath", instead="connectors need no jars; set jars for Spark with -D spark.jars=PATHS."),
    click.option(
        "-d", "--detached", "detached", is_flag=True, help="Hand the program to a job server, and return at once."
    ),
    click.option(
        "-m",
        "--jobmanager",
        "server",
        metavar="HOST:PORT",
        help="The job server for -d; by default that of this machine.",
    ),
    _refused("-yid", "--yarnapplicationId", instead="set -D spark.master=yarn to run on YARN."),
    _refused("-z", "--zookeeperNamespace", instead="ZooKeeper is not used: restart a job with -s PATH."),
    click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="SCRIPT [ARGUMENTS]..."),
)
