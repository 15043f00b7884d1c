"""Runs a user's program in this process, as ``python program.py`` would.

The command line's settings reach the program through environment variables, since a program may call
``StreamExecutionEnvironment.get_execution_environment()`` anywhere.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from flintstream.common.environment_variables import CONF_OVERRIDES, PLAN_ONLY, environment_variables
from flintstream.common.pyflink_alias import pyflink_alias, pyflink_alias_installed
from flintstream.common.tracebacks import is_internal_frame, is_on_purpose, tidy_traceback
from flintstream.jobmaster.errors import JobEndedError
from flintstream.runtime.slot.user_code import import_entry

__all__ = ["Program", "ProgramFailedError", "run_program"]


class ProgramFailedError(Exception):
    """The program raised; ``report`` is its traceback, starting at the program's own first frame."""

    def __init__(self, report: str) -> None:
        super().__init__(report)
        self.report = report


@dataclass(frozen=True)
class Program:
    """A script or a module, its arguments, and its additional import paths."""

    script: Path | None = None
    module: str | None = None
    arguments: Sequence[str] = ()
    python_files: Sequence[str] = ()

    def run(self) -> None:
        """Runs it as ``__main__``."""
        if self.script is not None:
            runpy.run_path(str(self.script), run_name="__main__")
        elif self.module is not None:
            runpy.run_module(self.module, run_name="__main__", alter_sys=True)

    @property
    def search_path(self) -> list[str]:
        """Returns the first import path: the script's folder, or the current one for a module."""
        first = os.getcwd() if self.script is None else str(self.script.resolve().parent)
        return [first, *map(import_entry, self.python_files)]


def run_program(
    program: Program,
    settings: Mapping[str, str] | None = None,
    *,
    pyflink: bool = False,
    plan_only: bool = False,
) -> None:
    """Runs a program under ``settings``.

    ``pyflink`` redirects its imports of ``pyflink`` to flintstream; ``plan_only`` makes ``execute`` print the plan
    instead of running the job. Raises :class:`ProgramFailedError` if the program raises; a ``SystemExit`` is passed on.
    """
    variables = {}
    if settings:
        variables[CONF_OVERRIDES] = json.dumps({**_inherited_overrides(), **settings})
    if plan_only:
        variables[PLAN_ONLY] = "1"
    with environment_variables(variables), _surroundings(program), pyflink_alias(pyflink):
        try:
            program.run()
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise ProgramFailedError(_report(error)) from error


def _inherited_overrides() -> dict[str, str]:
    inherited: dict[str, str] = json.loads(os.environ.get(CONF_OVERRIDES, "{}"))
    return inherited


def _report(error: BaseException) -> str:
    """Returns the traceback of the program's own frames; with the frames below them too for an internal error of
    Flintstream.
    """
    if isinstance(error, JobEndedError):
        return error.report()
    first: TracebackType | None = error.__traceback__
    while first is not None and is_internal_frame(first.tb_frame.f_code.co_filename):
        first = first.tb_next
    frames = traceback.extract_tb(first)
    if frames and is_on_purpose(frames[-1].filename, frames[-1].lineno):
        report = tidy_traceback(error, is_internal_frame)
    else:
        # A program that does not compile has no frame of its own.
        report = "".join(traceback.format_exception(type(error), error, first))
    return report + _hint(error)


def _hint(error: BaseException) -> str:
    if pyflink_alias_installed():
        return ""
    if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "pyflink":
        return "For a PyFlink program: flint run --pyflink\n"
    return ""


@contextmanager
def _surroundings(program: Program) -> Iterator[None]:
    argv, path = sys.argv[:], sys.path[:]
    sys.argv = [str(program.script or program.module), *program.arguments]
    sys.path[:0] = program.search_path
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, path
