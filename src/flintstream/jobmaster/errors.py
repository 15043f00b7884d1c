"""The errors raised by `execute` when a job does not finish."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import TracebackType

from flintstream.common.tracebacks import fill_in_source, is_internal_frame, tidy_traceback
from flintstream.runtime.faults import Fault


class JobEndedError(RuntimeError):
    """A job has not finished. Shown without the frames of Flintstream, in IPython too."""

    def report(self, frames: TracebackType | None = None) -> str:
        """Returns the full report: the program's frames, and why the job has ended."""
        return tidy_traceback(self, is_internal_frame, frames)

    def _render_traceback_(self) -> list[str]:
        """The method by which IPython renders an exception."""
        return self.report().rstrip("\n").split("\n")


class JobExecutionError(JobEndedError):
    """The job failed. The message has the user's traceback, the operator and the record at fault.

    `__cause__` is the user's own exception, if it could be sent to the driver.
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
    """Makes a program that ends with a failed job show its own frames only, unless it has its own exception hook."""
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _show


def _show(kind: type[BaseException], error: BaseException, frames: TracebackType | None) -> None:
    if isinstance(error, JobEndedError):
        sys.stderr.write(error.report(frames))
    else:
        sys.__excepthook__(kind, error, frames)
