"""Cancels a Spark job of short tasks that hang: Spark hands a task to an idle Python worker without asking whether it is
alive, and would wait for ever.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from flintstream.spark.jvm import cancel_jobs

if TYPE_CHECKING:
    from pyspark import SparkContext

_POLL_SECONDS = 1.0


@contextmanager
def cancelled_if_hanging(context: SparkContext, group: str, seconds: float) -> Iterator[threading.Event]:
    """Cancels the jobs of a group if tasks of theirs run for longer, upon which Spark kills their workers. The time in which
    they wait for cores does not count. The event says whether it has happened.
    """
    hung, over = threading.Event(), threading.Event()

    def watch() -> None:
        since: float | None = None
        while not over.wait(_POLL_SECONDS):
            if not _runs(context, group):
                since = None
                continue
            now = time.monotonic()
            since = now if since is None else since
            if now - since >= seconds:
                hung.set()
                cancel_jobs(context, group, "its tasks hang")
                return

    threading.Thread(target=watch, name=f"tasks of {group}", daemon=True).start()
    try:
        yield hung
    finally:
        over.set()


def _runs(context: SparkContext, group: str) -> bool:
    """Returns whether a task of the group runs."""
    tracker = context.statusTracker()
    with suppress(Py4JError, OSError):  # Without a JVM nothing runs any more.
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
        return any(stage is not None and stage.numActiveTasks > 0 for stage in stages)
    return False
