"""Runs a user's program in this process, as ``python program.py`` would.

The command line's settings reach the program through environment variables, since a program asks for its
environment by ``StreamExecutionEnvironment.get_execution_environment()`` wherever it likes.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from flintstream.common.environment_variables import environment_variables
from flintstream.common.pyflink_alias import pyflink_alias

__all__ = ["OVERRIDES_VARIABLE", "PLAN_ONLY_VARIABLE", "ScriptFailedError", "run_script"]

OVERRIDES_VARIABLE = "FLINT_CONF_OVERRIDES"
PLAN_ONLY_VARIABLE = "FLINT_PLAN_ONLY"


class ScriptFailedError(Exception):
    """The program raised; ``report`` is its traceback, beginning at the program's own first line."""

    def __init__(self, report: str) -> None:
        super().__init__(report)
        self.report = report


def run_script(
    script: Path,
    arguments: Sequence[str] = (),
    settings: Mapping[str, str] | None = None,
    *,
    pyflink: bool = False,
    plan_only: bool = False,
) -> None:
    """Runs ``script`` as ``__main__`` with ``arguments``, under ``settings``.

    ``pyflink`` lets its imports of ``pyflink`` find flintstream; ``plan_only`` makes ``execute`` print the
    plan instead of running the job. Raises :class:`ScriptFailedError` when the program does; its
    ``SystemExit`` passes through.
    """
    variables = {}
    if settings:
        variables[OVERRIDES_VARIABLE] = json.dumps({**_inherited_overrides(), **settings})
    if plan_only:
        variables[PLAN_ONLY_VARIABLE] = "1"
    with environment_variables(variables), _program(script, arguments), pyflink_alias(pyflink):
        try:
            runpy.run_path(str(script), run_name="__main__")
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise ScriptFailedError(_report(error, script)) from error


def _inherited_overrides() -> dict[str, str]:
    inherited: dict[str, str] = json.loads(os.environ.get(OVERRIDES_VARIABLE, "{}"))
    return inherited


def _report(error: BaseException, script: Path) -> str:
    """The traceback without the frames above the program: this module's and runpy's."""
    first: TracebackType | None = error.__traceback__
    while first is not None and first.tb_frame.f_code.co_filename != str(script):
        first = first.tb_next
    # A program that does not even compile has no frame of its own.
    return "".join(traceback.format_exception(type(error), error, first))


@contextmanager
def _program(script: Path, arguments: Sequence[str]) -> Iterator[None]:
    argv, path = sys.argv[:], sys.path[:]
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.resolve().parent))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, path
