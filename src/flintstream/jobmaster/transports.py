"""The choice of a job's transport: pipelined, or a Spark job per epoch."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from flintstream.common.flint_options import wanted_transport
from flintstream.jobmaster.job_context import JobContext
from flintstream.runtime.operators.cache import CacheSourceOperator
from flintstream.runtime.operators.iteration import IterationHead
from flintstream.runtime.operators.source import SparkSourceOperator
from flintstream.spark.standing import missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIPELINED, EPOCHS = "pipelined", "epochs"
_log = logging.getLogger(__name__)


def choose_transport(job: JobContext, spark: SparkSession) -> str:
    """Returns the transport of a job. If it should be pipelined and cannot, the reason is logged."""
    if wanted_transport(job.settings.configuration) != PIPELINED:
        return EPOCHS
    reason = why_not(job) or missing(spark, job.graph.slots_count, job.control.check)
    if reason is None:
        return PIPELINED
    _log.warning("job '%s' runs in epochs, not pipelined: %s", job.settings.job_name, reason)
    return EPOCHS


def why_not(job: JobContext) -> str | None:
    """Returns why a job must run in epochs; None if it need not."""
    if job.settings.batch_mode:
        return "in batch mode each level needs the whole input"
    for node in job.graph.job_graph.nodes.values():
        if isinstance(node.operator, SparkSourceOperator):
            return f"Spark reads the DataFrame of source '{node.name}', epoch by epoch"
        if isinstance(node.operator, CacheSourceOperator):
            return f"Spark reads the cached stream of source '{node.name}', epoch by epoch"
        if isinstance(node.operator, IterationHead):
            return f"records go round the iteration '{node.name}' epoch by epoch"
    return None
