"""JobContext: the objects of a job that outlive its attempts."""

from __future__ import annotations

from dataclasses import dataclass

from flintstream.graph.execution_graph import ExecutionGraph
from flintstream.jobmaster.control import JobControl
from flintstream.jobmaster.deliveries import Deliveries
from flintstream.jobmaster.executions import Executions
from flintstream.jobmaster.progress import Progress
from flintstream.jobmaster.queryable_states import QueryableStates
from flintstream.jobmaster.settings import JobSettings
from flintstream.jobmaster.source_factory import SourceFactory
from flintstream.jobmaster.statistics import JobStatistics
from flintstream.runtime.checkpoint.coordinator import CheckpointCoordinator
from flintstream.runtime.deployment import JobDeployment


@dataclass(frozen=True)
class JobContext:
    """The objects of a job that outlive its attempts."""

    job_id: str
    graph: ExecutionGraph
    deployment: JobDeployment
    settings: JobSettings
    control: JobControl
    coordinator: CheckpointCoordinator
    deliveries: Deliveries
    progress: Progress
    source_factory: SourceFactory
    executions: Executions
    statistics: JobStatistics
    queryable: QueryableStates

    def check_lease(self) -> None:
        """Verifies, right before a commit, that this driver still owns the job."""
        if self.coordinator.storage is None:
            return  # No other driver can take over a job in this driver's own memory.
        seconds = self.coordinator.settings.timeout
        self.control.within(seconds, "checking the job's lease", self.coordinator.lease.check)
