"""JobExecutionResult: the result of a finished job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .job_id import JobID

__all__ = ["JobExecutionResult"]


class JobExecutionResult:
    """The result of a finished job: its id, its run time and its accumulators.

    Example::

        >>> result = JobExecutionResult(JobID(), 1500, {"lines": 3})
        >>> result.get_net_runtime(), result.get_accumulator_result("lines")
        (1500, 3)
    """

    def __init__(
        self, job_id: JobID | None = None, net_runtime: int = 0, accumulators: Mapping[str, Any] | None = None
    ) -> None:
        self._job_id = JobID() if job_id is None else job_id
        self._net_runtime = net_runtime
        self._accumulators = dict(accumulators or {})

    def get_job_id(self) -> JobID:
        """Returns the job's id."""
        return self._job_id

    def get_net_runtime(self) -> int:
        """Returns how long the job ran, in milliseconds."""
        return self._net_runtime

    def get_accumulator_result(self, accumulator_name: str) -> Any:
        """Returns the value of an accumulator; None if the job has none of that name."""
        return self._accumulators.get(accumulator_name)

    def get_all_accumulator_results(self) -> dict[str, Any]:
        """Returns the values of all accumulators, by name."""
        return dict(self._accumulators)

    def is_job_execution_result(self) -> bool:
        """Returns True: the job ran within this call, rather than only being submitted."""
        return True

    def __str__(self) -> str:
        lines = [
            "Program execution finished",
            f"Job with JobID {self._job_id} has finished.",
            f"Job Runtime: {self._net_runtime} ms",
        ]
        lines += [f"- {name}: {value}" for name, value in sorted(self._accumulators.items())]
        return "\n".join(lines) + "\n"
