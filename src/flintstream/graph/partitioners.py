"""How the records of an edge are spread over the subtasks of its target.

These are descriptions only, small and immutable; `flintstream.runtime` has the writers that act on them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from flintstream.common.typeinfo import TypeInformation


@dataclass(frozen=True)
class StreamPartitioner:
    """What all partitioners share.

    `ship_strategy` is the name that execution plans print. `is_pointwise` tells whether a source subtask
    is connected to some target subtasks only; otherwise each one is connected to all.
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
    """Round robin over the few target subtasks that this source subtask is connected to."""

    ship_strategy: ClassVar[str] = "RESCALE"
    is_pointwise: ClassVar[bool] = True


@dataclass(frozen=True)
class ShufflePartitioner(StreamPartitioner):
    """A target subtask at random for each record."""

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
    """By the key group of the record's key: what `key_by` records.

    `key_selector` maps a record to its key; `key_type` is the declared type of the key, if any; `call_site` is the file and
    line of the program that it stems from.
    """

    key_selector: Callable[[Any], Any]
    key_type: TypeInformation | None = None
    call_site: str | None = field(default=None, compare=False)

    ship_strategy: ClassVar[str] = "HASH"

    @property
    def name(self) -> str:
        """What errors of keys are blamed on."""
        return "key_by" if self.call_site is None else f"key_by at {self.call_site}"


@dataclass(frozen=True)
class CustomPartitioner(StreamPartitioner):
    """By the user's function: `partitioner(key, number_of_target_subtasks)` is the target's index."""

    partitioner: Callable[[Any, int], int]
    key_selector: Callable[[Any], Any]

    ship_strategy: ClassVar[str] = "CUSTOM"
