"""Task managers: the hosts of the slots of running jobs, and the host of the server."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from flintstream.jobmaster.details import JobDetails, SlotDetails
from flintstream.server.rest import shapes
from flintstream.server.rest.views.metrics import text_of

__all__ = ["Host", "hosts", "metrics", "task_manager", "task_manager_detail"]

_MEGABYTE = 1 << 20
_UNKNOWN_HARDWARE: shapes.Hardware = {"cpuCores": 0, "physicalMemory": 0, "freeMemory": 0, "managedMemory": 0}


@dataclass
class Host:
    """A host with the slots that running jobs have on it."""

    name: str
    local: bool
    slots: list[tuple[JobDetails, SlotDetails]] = field(default_factory=list)

    @property
    def memory(self) -> int:
        """Returns the resident bytes of its slots."""
        return sum(slot.memory for _, slot in self.slots)

    @property
    def most_memory(self) -> int:
        """Returns the bytes that its slots could have: those of the machine, if it is the server's."""
        return _hardware()["physicalMemory"] if self.local else self.memory

    @property
    def heartbeat(self) -> int:
        """Returns when a driver last reported about one of its slots."""
        return max((details.now for details, _ in self.slots), default=int(time.time() * 1000))

    @property
    def tasks(self) -> int:
        """Returns the number of subtasks in its slots."""
        return sum(_tasks(details, slot) for details, slot in self.slots)


def hosts(running: Iterable[JobDetails], local: str) -> dict[str, Host]:
    """Returns the hosts by name; the local one is always among them, and first."""
    found = {local: Host(local, True)}
    for details in running:
        for slot in details.slots:
            found.setdefault(slot.host, Host(slot.host, False)).slots.append((details, slot))
    return found


def _tasks(details: JobDetails, slot: SlotDetails) -> int:
    return sum(subtask.slot == slot.slot for vertex in details.vertices for subtask in vertex.subtasks)


def task_manager(host: Host) -> shapes.TaskManager:
    """Returns a host as a task manager."""
    slots = len(host.slots)
    return {
        "id": host.name,
        "path": f"spark://{host.name}",
        "dataPort": -1,
        "jmxPort": -1,
        "timeSinceLastHeartbeat": host.heartbeat,
        "slotsNumber": slots,
        "freeSlots": 0,
        "assignedTasks": host.tasks,
        "totalResource": _resource(slots, host.memory),
        "freeResource": _resource(0, 0),
        "hardware": _hardware() if host.local else _UNKNOWN_HARDWARE,
        "memoryConfiguration": {
            "frameworkHeap": 0,
            "taskHeap": host.memory,
            "frameworkOffHeap": 0,
            "taskOffHeap": 0,
            "networkMemory": 0,
            "managedMemory": 0,
            "jvmMetaspace": 0,
            "jvmOverhead": 0,
            "totalFlinkMemory": host.memory,
            "totalProcessMemory": host.memory,
        },
    }


def _resource(cores: float, memory: int) -> shapes.Resource:
    return {
        "cpuCores": float(cores),
        "taskHeapMemory": memory // _MEGABYTE,
        "taskOffHeapMemory": 0,
        "managedMemory": 0,
        "networkMemory": 0,
        "extendedResources": {},
    }


def _hardware() -> shapes.Hardware:
    page = os.sysconf("SC_PAGE_SIZE")
    return {
        "cpuCores": os.cpu_count() or 0,
        "physicalMemory": page * os.sysconf("SC_PHYS_PAGES"),
        "freeMemory": page * os.sysconf("SC_AVPHYS_PAGES"),
        "managedMemory": 0,
    }


def task_manager_detail(host: Host) -> shapes.TaskManagerDetail:
    """Returns a host with its slots."""
    return {
        **task_manager(host),
        "allocatedSlots": [
            {
                "jobId": details.job_id,
                "resource": _resource(1, slot.memory),
                "assignedTasks": _tasks(details, slot),
            }
            for details, slot in host.slots
        ],
        "metrics": {
            "heapUsed": host.memory,
            "heapCommitted": host.memory,
            "heapMax": host.most_memory,
            "nonHeapUsed": 0,
            "nonHeapCommitted": 0,
            "nonHeapMax": -1,
            "directCount": 0,
            "directUsed": 0,
            "directMax": 0,
            "mappedCount": 0,
            "mappedUsed": 0,
            "mappedMax": 0,
            "nettyShuffleMemorySegmentsAvailable": 0,
            "nettyShuffleMemorySegmentsUsed": 0,
            "nettyShuffleMemorySegmentsTotal": 0,
            "nettyShuffleMemoryAvailable": 0,
            "nettyShuffleMemoryUsed": 0,
            "nettyShuffleMemoryTotal": 0,
            "garbageCollectors": [],
        },
    }


def metrics(host: Host) -> dict[str, str]:
    """Returns the metrics of a host, under Flink's names where there are such."""
    found: dict[str, object] = {
        "Status.JVM.Memory.Heap.Used": host.memory,
        "Status.JVM.Memory.Heap.Committed": host.memory,
        "Status.JVM.Memory.Heap.Max": host.most_memory,
    }
    if host.local:
        found["System.CPU.Load1min"] = os.getloadavg()[0]
        found["System.Memory.Available"] = _hardware()["freeMemory"]
        found["System.Memory.Total"] = _hardware()["physicalMemory"]
    return {name: text_of(value) for name, value in found.items()}
