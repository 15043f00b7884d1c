"""SlotSharingGroup: a group of operators whose subtasks share slots; and MemorySize."""

from __future__ import annotations

from functools import total_ordering
from typing import Any, NoReturn

from flintstream.common.java import java_only

__all__ = ["MemorySize", "SlotSharingGroup"]

_UNITS = ((4, "tb"), (3, "gb"), (2, "mb"), (1, "kb"))


@total_ordering
class MemorySize:
    """A number of bytes.

    >>> size = MemorySize.of_mebi_bytes(3)
    >>> size.get_bytes(), str(size)
    (3145728, '3 mb')
    """

    __slots__ = ("_bytes",)

    def __init__(self, bytes_size: int) -> None:
        if isinstance(bytes_size, bool) or not isinstance(bytes_size, int) or bytes_size < 0:
            raise ValueError(f"MemorySize: bytes_size must be an integer of at least 0, got {bytes_size!r}")
        self._bytes = bytes_size

    @staticmethod
    def of_mebi_bytes(mebi_bytes: int) -> MemorySize:
        """Returns a size in mebibytes (1,048,576 bytes)."""
        return MemorySize(mebi_bytes << 20)

    def get_bytes(self) -> int:
        """Returns the number of bytes."""
        return self._bytes

    def get_kibi_bytes(self) -> int:
        """Returns the number of whole kibibytes."""
        return self._bytes >> 10

    def get_mebi_bytes(self) -> int:
        """Returns the number of whole mebibytes."""
        return self._bytes >> 20

    def get_gibi_bytes(self) -> int:
        """Returns the number of whole gibibytes."""
        return self._bytes >> 30

    def get_tebi_bytes(self) -> int:
        """Returns the number of whole tebibytes."""
        return self._bytes >> 40

    def get_java_memory_size(self) -> NoReturn:
        """Not supported: there is no Java object."""
        java_only("MemorySize.get_java_memory_size()", "Use get_bytes().")

    def __eq__(self, other: object) -> bool:
        return self._bytes == other._bytes if isinstance(other, MemorySize) else NotImplemented

    def __lt__(self, other: object) -> bool:
        return self._bytes < other._bytes if isinstance(other, MemorySize) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._bytes)

    def __str__(self) -> str:
        for power, unit in _UNITS:
            if self._bytes and self._bytes % 1024**power == 0:
                return f"{self._bytes // 1024**power} {unit}"
        return f"{self._bytes} bytes"

    def __repr__(self) -> str:
        return f"MemorySize({self._bytes})"


class SlotSharingGroup:
    """A name and the resources that the group's subtasks need; created by a builder.

    >>> group = SlotSharingGroup.builder("heavy").set_cpu_cores(2.0).set_task_heap_memory_mb(512).build()
    >>> group.get_name(), group.get_cpu_cores()
    ('heavy', 2.0)

    Subtasks of different groups never share a slot. The resources are informational: Spark configures its executors.
    """

    def __init__(
        self,
        name: str,
        cpu_cores: float | None = None,
        task_heap_memory: MemorySize | None = None,
        task_off_heap_memory: MemorySize | None = None,
        managed_memory: MemorySize | None = None,
        external_resources: dict[str, float] | None = None,
    ) -> None:
        if not isinstance(name, str) or not name:
            raise ValueError(f"SlotSharingGroup: name must be a non-empty string, got {name!r}")
        self._name = name
        self._cpu_cores = cpu_cores
        self._task_heap_memory = task_heap_memory
        self._task_off_heap_memory = task_off_heap_memory
        self._managed_memory = managed_memory
        self._external_resources = dict(external_resources or {})

    def get_name(self) -> str:
        """Returns the name of the group."""
        return self._name

    def get_managed_memory(self) -> MemorySize | None:
        """Returns the memory for state backends."""
        return self._managed_memory

    def get_task_heap_memory(self) -> MemorySize | None:
        """Returns the memory for user functions."""
        return self._task_heap_memory

    def get_task_off_heap_memory(self) -> MemorySize | None:
        """Returns the memory outside the heap."""
        return self._task_off_heap_memory

    def get_cpu_cores(self) -> float | None:
        """Returns the cores per slot."""
        return self._cpu_cores

    def get_external_resources(self) -> dict[str, float]:
        """Returns other resources by name, e.g. GPUs."""
        return dict(self._external_resources)

    def get_java_slot_sharing_group(self) -> NoReturn:
        """Not supported: there is no Java object."""
        java_only("SlotSharingGroup.get_java_slot_sharing_group()", "Use the object itself.")

    @staticmethod
    def builder(name: str) -> SlotSharingGroup.Builder:
        """Returns a builder for a group of that name."""
        return SlotSharingGroup.Builder(name)

    def _identity(self) -> tuple[Any, ...]:
        return (
            self._name,
            self._cpu_cores,
            self._task_heap_memory,
            self._task_off_heap_memory,
            self._managed_memory,
            tuple(sorted(self._external_resources.items())),
        )

    def __eq__(self, other: object) -> bool:
        return self._identity() == other._identity() if isinstance(other, SlotSharingGroup) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._identity())

    def __repr__(self) -> str:
        return f"SlotSharingGroup({self._name!r})"

    class Builder:
        """Builds a `SlotSharingGroup`; each method returns the builder."""

        def __init__(self, name: str) -> None:
            self._name = name
            self._cpu_cores: float | None = None
            self._memory: dict[str, MemorySize] = {}
            self._external_resources: dict[str, float] = {}

        def set_cpu_cores(self, cpu_cores: float) -> SlotSharingGroup.Builder:
            """Sets the cores per slot."""
            if not cpu_cores > 0:
                raise ValueError(f"{self._label()}: cpu_cores must be greater than zero, got {cpu_cores!r}")
            self._cpu_cores = float(cpu_cores)
            return self

        def set_task_heap_memory(self, task_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Sets the memory for user functions."""
            if isinstance(task_heap_memory, MemorySize) and task_heap_memory.get_bytes() == 0:
                raise ValueError(f"{self._label()}: the task heap memory should be positive, got 0 bytes")
            return self._set_memory("task_heap_memory", task_heap_memory)

        def set_task_heap_memory_mb(self, task_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            """Sets the memory for user functions, in mebibytes."""
            return self.set_task_heap_memory(MemorySize.of_mebi_bytes(task_heap_memory_mb))

        def set_task_off_heap_memory(self, task_off_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Sets the memory outside the heap."""
            return self._set_memory("task_off_heap_memory", task_off_heap_memory)

        def set_task_off_heap_memory_mb(self, task_off_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            """Sets the memory outside the heap, in mebibytes."""
            return self.set_task_off_heap_memory(MemorySize.of_mebi_bytes(task_off_heap_memory_mb))

        def set_managed_memory(self, managed_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Sets the memory for state backends."""
            return self._set_memory("managed_memory", managed_memory)

        def set_managed_memory_mb(self, managed_memory_mb: int) -> SlotSharingGroup.Builder:
            """Sets the memory for state backends, in mebibytes."""
            return self.set_managed_memory(MemorySize.of_mebi_bytes(managed_memory_mb))

        def set_external_resource(self, name: str, value: float) -> SlotSharingGroup.Builder:
            """Sets another resource by name: `set_external_resource("gpu", 1.0)`."""
            self._external_resources[name] = float(value)
            return self

        def build(self) -> SlotSharingGroup:
            """Returns the group. If any resource is set, cores and task heap memory must be set too."""
            memory = self._memory
            if self._cpu_cores is None or "task_heap_memory" not in memory:
                if self._cpu_cores is not None or memory or self._external_resources:
                    raise ValueError(
                        f"{self._label()}: cpu_cores and task_heap_memory are required if any resource is set"
                    )
                return SlotSharingGroup(self._name)
            zero = MemorySize(0)
            return SlotSharingGroup(
                self._name,
                self._cpu_cores,
                memory["task_heap_memory"],
                memory.get("task_off_heap_memory", zero),
                memory.get("managed_memory", zero),
                self._external_resources,
            )

        def _set_memory(self, option: str, size: MemorySize) -> SlotSharingGroup.Builder:
            if not isinstance(size, MemorySize):
                raise TypeError(f"{self._label()}: {option} must be a MemorySize, got {size!r}")
            self._memory[option] = size
            return self

        def _label(self) -> str:
            return f"slot sharing group {self._name!r}"
