"""How a job's end is told to the caller of `execute`."""

from __future__ import annotations

from flintstream.runtime.faults import Fault


class JobExecutionError(RuntimeError):
    """The job failed. The message holds the user's traceback, the operator and the record at fault.

    `__cause__` is the user's own exception where it could be brought to the driver.
    """

    def __init__(self, job_name: str, job_id: str, fault: Fault):
        super().__init__(f"Job '{job_name}' ({job_id}) failed.\n{fault.describe()}")
        self.fault = fault
        self.__cause__ = fault.load_exception()


class JobCancelledError(RuntimeError):
    """The job was cancelled before it ended."""

    def __init__(self, job_name: str, job_id: str):
        super().__init__(f"Job '{job_name}' ({job_id}) was cancelled.")
