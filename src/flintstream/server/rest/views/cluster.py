"""The cluster: its overview, and the server as Flink's JobManager."""

from __future__ import annotations

import os
import platform
import resource
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flintstream import __version__
from flintstream.server.jobs import JobSummary
from flintstream.server.rest import shapes
from flintstream.server.rest.views.metrics import text_of
from flintstream.server.rest.views.taskmanagers import Host

__all__ = ["dashboard", "environment", "log_files", "metrics", "overview", "thread_dump", "threads"]

_REVISION = "flintstream"


def dashboard(refresh_interval: int, submit: bool, cancel: bool) -> shapes.DashboardConfiguration:
    """Returns the answer of `/config`."""
    local = time.localtime()
    return {
        "refresh-interval": refresh_interval,
        "timezone-name": local.tm_zone,
        "timezone-offset": local.tm_gmtoff * 1000,
        "flink-version": __version__,
        "flink-revision": f"{_REVISION} @ {__version__}",
        "features": {"web-submit": submit, "web-cancel": cancel, "web-rescale": False, "web-history": False},
    }


def overview(summaries: Iterable[JobSummary], hosts: Mapping[str, Host]) -> shapes.ClusterOverview:
    """Returns the answer of `/overview`. Slots are started for each job, so none is ever free."""
    states = [job.status for job in summaries]
    ended = {state: states.count(state) for state in ("FINISHED", "CANCELED", "FAILED")}
    return {
        "taskmanagers": len(hosts),
        "slots-total": sum(len(host.slots) for host in hosts.values()),
        "slots-available": 0,
        "jobs-running": len(states) - sum(ended.values()),
        "jobs-finished": ended["FINISHED"],
        "jobs-cancelled": ended["CANCELED"],
        "jobs-failed": ended["FAILED"],
        "flink-version": __version__,
        "flink-commit": _REVISION,
    }


def environment() -> shapes.Environment:
    """Returns the answer of `/jobmanager/environment`: Python in the place of Java."""
    return {
        "jvm": {
            "version": f"{platform.python_implementation()} {platform.python_version()} - {platform.python_compiler()}",
            "arch": platform.machine(),
            "options": [str(option) for option in sys.orig_argv[1:2] if option.startswith("-")],
        },
        "classpath": [path for path in sys.path if path],
    }


def metrics(overview: shapes.ClusterOverview) -> dict[str, str]:
    """Returns the metrics of the server, under Flink's names."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    memory = _resident_bytes()
    found: dict[str, object] = {
        "numRunningJobs": overview["jobs-running"],
        "numRegisteredTaskManagers": overview["taskmanagers"],
        "taskSlotsTotal": overview["slots-total"],
        "taskSlotsAvailable": overview["slots-available"],
        "Status.JVM.CPU.Load": os.getloadavg()[0] / (os.cpu_count() or 1),
        "Status.JVM.CPU.Time": int((used.ru_utime + used.ru_stime) * 1e9),
        "Status.JVM.Memory.Heap.Used": memory,
        "Status.JVM.Memory.Heap.Committed": memory,
        "Status.JVM.Memory.Heap.Max": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "Status.JVM.Threads.Count": threading.active_count(),
    }
    return {name: text_of(value) for name, value in found.items()}


def _resident_bytes() -> int:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return pages * os.sysconf("SC_PAGE_SIZE")


def log_files(paths: Mapping[str, str]) -> shapes.LogFiles:
    """Returns log files with their sizes; those that do not exist yet are left out."""
    logs: list[shapes.LogFile] = []
    for name, path in sorted(paths.items()):
        try:
            found = os.stat(path)
        except OSError:
            continue
        logs.append({"name": name, "size": found.st_size, "mtime": int(found.st_mtime * 1000)})
    return {"logs": logs}


def threads() -> list[dict[str, Any]]:
    """Returns the threads of this process: `name` and `stack`."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return [
        {"name": names.get(ident, str(ident)), "stack": "".join(traceback.format_stack(frame))}
        for ident, frame in sys._current_frames().items()
    ]


def thread_dump(found: Sequence[Mapping[str, Any]]) -> shapes.ThreadDump:
    """Returns threads as Flink lists them."""
    infos: list[shapes.ThreadInfo] = []
    for thread in found:
        name, stack = str(thread.get("name", "")), thread.get("stack", "")
        text = stack if isinstance(stack, str) else "\n".join(map(str, stack))
        infos.append({"threadName": name, "stringifiedThreadInfo": f'"{name}"\n{text.rstrip()}\n\n'})
    return {"threadInfos": infos}
