"""The shapes of task managers."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict


class Resource(TypedDict):
    """Resources, in cores and megabytes."""

    cpuCores: float
    taskHeapMemory: int
    taskOffHeapMemory: int
    managedMemory: int
    networkMemory: int
    extendedResources: dict[str, Any]


class Hardware(TypedDict):
    """The machine; zeros for another one than the server's."""

    cpuCores: int
    physicalMemory: int
    freeMemory: int
    managedMemory: int


class MemoryConfiguration(TypedDict):
    """The memory of a task manager, in bytes; slots are no Java processes and have no such parts."""

    frameworkHeap: int
    taskHeap: int
    frameworkOffHeap: int
    taskOffHeap: int
    networkMemory: int
    managedMemory: int
    jvmMetaspace: int
    jvmOverhead: int
    totalFlinkMemory: int
    totalProcessMemory: int


class TaskManager(TypedDict):
    """A host with slots of running jobs."""

    id: str
    path: str
    dataPort: int
    jmxPort: int
    timeSinceLastHeartbeat: int
    slotsNumber: int
    freeSlots: int
    assignedTasks: int
    totalResource: Resource
    freeResource: Resource
    hardware: Hardware
    memoryConfiguration: MemoryConfiguration


class TaskManagers(TypedDict):
    """The hosts of slots; the server's own is always among them."""

    taskmanagers: list[TaskManager]


class AllocatedSlot(TypedDict):
    """A slot of a job."""

    jobId: str
    resource: Resource
    assignedTasks: int


class GarbageCollector(TypedDict):
    """What a garbage collector has done."""

    name: str
    count: int
    time: int


class TaskManagerMetrics(TypedDict):
    """`heapUsed` is the resident memory of the slots; the rest has no meaning outside Java."""

    heapUsed: int
    heapCommitted: int
    heapMax: int
    nonHeapUsed: int
    nonHeapCommitted: int
    nonHeapMax: int
    directCount: int
    directUsed: int
    directMax: int
    mappedCount: int
    mappedUsed: int
    mappedMax: int
    nettyShuffleMemorySegmentsAvailable: int
    nettyShuffleMemorySegmentsUsed: int
    nettyShuffleMemorySegmentsTotal: int
    nettyShuffleMemoryAvailable: int
    nettyShuffleMemoryUsed: int
    nettyShuffleMemoryTotal: int
    garbageCollectors: list[GarbageCollector]


class TaskManagerDetail(TaskManager):
    """A host with its slots."""

    allocatedSlots: list[AllocatedSlot]
    metrics: TaskManagerMetrics
