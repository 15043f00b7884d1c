"""Source and Sink: what `env.from_source` and `stream.sink_to` take."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from flintstream.common.watermark_strategy import WatermarkStrategy
from flintstream.runtime.operators.base import Operator
from flintstream.runtime.operators.source import SourceOperator
from flintstream.runtime.source import SplitSource

if TYPE_CHECKING:
    from flintstream.common.typeinfo import TypeInformation


class Source(ABC):
    """Where records come from; given to `env.from_source`."""

    bounded: bool = True
    """Whether the source ends."""

    def get_java_function(self) -> Any:
        raise NotImplementedError("a source of Flintstream has no Java object behind it")

    @abstractmethod
    def create_operator(self, watermark_strategy: WatermarkStrategy | None) -> Operator:
        """The operator that reads this source in a slot."""

    @property
    def produced_type(self) -> TypeInformation | None:
        """The type of the records, where the source knows it."""
        return None


class SplitBasedSource(SplitSource, Source):
    """A source made of splits: it says which splits there are and how one is read."""

    def create_operator(self, watermark_strategy: WatermarkStrategy | None) -> Operator:
        return SourceOperator(self, watermark_strategy)


class Sink(ABC):
    """Where records go; given to `stream.sink_to`."""

    def get_java_function(self) -> Any:
        raise NotImplementedError("a sink of Flintstream has no Java object behind it")

    @abstractmethod
    def create_operator(self, input_type: TypeInformation | None) -> Operator:
        """The operator that writes to this sink in a slot."""
