"""Partitioners: how the records of an edge are distributed over the subtasks of its target.

These are immutable descriptions; the writers in `flintstream.runtime` implement them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from flintstream.common.typeinfo import TypeInformation


@dataclass(frozen=True)
class StreamPartitioner:
    """Base class of partitioners.

    `ship_strategy` is the name shown in execution plans. `is_pointwise` is whether a source subtask is connected to
    only some target subtasks instead of all.
    """

    ship_strategy: ClassVar[str]
    is_pointwise: ClassVar[bool] = False

    def __str__(self) -> str:
        return self.ship_strategy


@dataclass(frozen=True)
class ForwardPartitioner(StreamPartitioner):
    """Subtask i sends to subtask i. The only partitioner whose edges can be chained."""

    ship_strategy: ClassVar[str] = "FORWARD"
    is_pointwise: ClassVar[bool] = True


@dataclass(frozen=True)
class RebalancePartitioner(StreamPartitioner):
    """Round robin over all target subtasks."""

    ship_strategy: ClassVar[str] = "REBALANCE"


@dataclass(frozen=True)
class RescalePartitioner(StreamPartitioner):
    """Round robin over the connected target subtasks."""

    ship_strategy: ClassVar[str] = "RESCALE"
    is_pointwise: ClassVar[bool] = True


@dataclass(frozen=True)
class ShufflePartitioner(StreamPartitioner):
    """A random target subtask for each record."""

    ship_strategy: ClassVar[str] = "SHUFFLE"


@dataclass(frozen=True)
class BroadcastPartitioner(StreamPartitioner):
    """Each record to every target subtask."""

    ship_strategy: ClassVar[str] = "BROADCAST"


@dataclass(frozen=True)
class GlobalPartitioner(StreamPartitioner):
    """Every record to target subtask 0."""

    ship_strategy: ClassVar[str] = "GLOBAL"


@dataclass(frozen=True)
class KeyGroupPartitioner(StreamPartitioner):
    """By the key group of the record's key; created by `key_by`.

    `key_selector` maps a record to its key; `key_type` is the declared type of the key, if any; `call_site` is the file
    and line of the call in the program.
    """

    key_selector: Callable[[Any], Any]
    key_type: TypeInformation | None = None
    call_site: str | None = field(default=None, compare=False)

    ship_strategy: ClassVar[str] = "HASH"

    @property
    def name(self) -> str:
        """Returns the name shown in errors about keys."""
        return "key_by" if self.call_site is None else f"key_by at {self.call_site}"


@dataclass(frozen=True)
class CustomPartitioner(StreamPartitioner):
    """By the user's function: `partitioner(key, number_of_target_subtasks)` returns the target's index."""

    partitioner: Callable[[Any, int], int]
    key_selector: Callable[[Any], Any]

    ship_strategy: ClassVar[str] = "CUSTOM"
