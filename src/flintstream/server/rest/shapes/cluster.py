"""The shapes of the cluster and its log files."""

from __future__ import annotations

from typing_extensions import TypedDict

Features = TypedDict("Features", {"web-submit": bool, "web-cancel": bool, "web-rescale": bool, "web-history": bool})
DashboardConfiguration = TypedDict(
    "DashboardConfiguration",
    {
        "refresh-interval": int,
        "timezone-name": str,
        "timezone-offset": int,
        "flink-version": str,
        "flink-revision": str,
        "features": Features,
    },
)
ClusterOverview = TypedDict(
    "ClusterOverview",
    {
        "taskmanagers": int,
        "slots-total": int,
        "slots-available": int,
        "jobs-running": int,
        "jobs-finished": int,
        "jobs-cancelled": int,
        "jobs-failed": int,
        "flink-version": str,
        "flink-commit": str,
    },
)


class Setting(TypedDict):
    """A key of a configuration."""

    key: str
    value: str


class Interpreter(TypedDict):
    """What runs the server; Flink has a Java virtual machine here."""

    version: str
    arch: str
    options: list[str]


class Environment(TypedDict):
    """The interpreter of the server and its import path."""

    jvm: Interpreter
    classpath: list[str]


class LogFile(TypedDict):
    """A log file."""

    name: str
    size: int
    mtime: int


class LogFiles(TypedDict):
    """Log files."""

    logs: list[LogFile]


class LogUrl(TypedDict):
    """Where a log is."""

    url: str


class ThreadInfo(TypedDict):
    """A thread and its stack."""

    threadName: str
    stringifiedThreadInfo: str


class ThreadDump(TypedDict):
    """The threads of a process."""

    threadInfos: list[ThreadInfo]
