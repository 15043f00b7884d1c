"""How a job's end is told to the caller of `execute`."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import TracebackType

from flintstream.common.tracebacks import fill_in_source, is_internal_frame, tidy_traceback
from flintstream.runtime.faults import Fault


class JobEndedError(RuntimeError):
    """A job has not finished. Shown without the frames of Flintstream, in IPython too."""

    def report(self, frames: TracebackType | None = None) -> str:
        """The whole of it for a person: what the program did, and why the job has ended."""
        return tidy_traceback(self, is_internal_frame, frames)

    def _render_traceback_(self) -> list[str]:
        """By this name IPython asks an exception how it is to be shown."""
        return self.report().rstrip("\n").split("\n")


class JobExecutionError(JobEndedError):
    """The job failed. The message holds the user's traceback, the operator and the record at fault.

    `__cause__` is the user's own exception where it could be brought to the driver.
    """

    def __init__(self, job_name: str, job_id: str, fault: Fault):
        fault = replace(fault, traceback=fill_in_source(fault.traceback))
        super().__init__(f"Job '{job_name}' ({job_id}) failed.\n{fault.describe()}")
        self.fault = fault
        self.__cause__ = fault.load_exception()


class JobCancelledError(JobEndedError):
    """The job was cancelled before it ended."""

    def __init__(self, job_name: str, job_id: str):
        super().__init__(f"Job '{job_name}' ({job_id}) was cancelled.")


def show_failures_tidily() -> None:
    """A program that ends with a failed job shows its own frames only, unless it shows exceptions in its own way."""
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _show


def _show(kind: type[BaseException], error: BaseException, frames: TracebackType | None) -> None:
    if isinstance(error, JobEndedError):
        sys.stderr.write(error.report(frames))
    else:
        sys.__excepthook__(kind, error, frames)
