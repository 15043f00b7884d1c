"""JobContext: what belongs to a job and outlives its attempts."""

from __future__ import annotations

from dataclasses import dataclass

from flintstream.graph.execution_graph import ExecutionGraph
from flintstream.jobmaster.control import JobControl
from flintstream.jobmaster.deliveries import Deliveries
from flintstream.jobmaster.progress import Progress
from flintstream.jobmaster.settings import JobSettings
from flintstream.jobmaster.source_factory import SourceFactory
from flintstream.runtime.checkpoint.coordinator import CheckpointCoordinator
from flintstream.runtime.deployment import JobDeployment


@dataclass(frozen=True)
class JobContext:
    """See the module."""

    job_id: str
    graph: ExecutionGraph
    deployment: JobDeployment
    settings: JobSettings
    control: JobControl
    coordinator: CheckpointCoordinator
    deliveries: Deliveries
    progress: Progress
    source_factory: SourceFactory

    def check_lease(self) -> None:
        """Right before anything is committed: the job must still be this driver's."""
        if self.coordinator.storage is None:
            return  # In the driver's own memory nobody else can take the job over.
        seconds = self.coordinator.settings.timeout
        self.control.within(seconds, "looking at the job's lease", self.coordinator.lease.check)
