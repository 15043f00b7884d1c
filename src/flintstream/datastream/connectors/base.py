"""Source and Sink: the base classes of what `env.from_source` and `stream.sink_to` accept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Generic, NoReturn

from flintstream.common.java import get_gateway, java_only
from flintstream.common.type_variables import IN, T_co
from flintstream.common.watermark_strategy import WatermarkStrategy
from flintstream.graph.partitioners import StreamPartitioner
from flintstream.runtime.operators.base import Operator
from flintstream.runtime.operators.source import SourceHead, SourceOperator
from flintstream.runtime.source import SourceError, SourceReader, Split, SplitEnumerator, SplitRecords, SplitSource

if TYPE_CHECKING:
    from flintstream.common.typeinfo import TypeInformation
    from flintstream.datastream.data_stream import DataStream

__all__ = [
    "DeliveryGuarantee",
    "JavaFunctionWrapper",
    "SecondStage",
    "Sink",
    "Source",
    "SourceError",
    "SourceReader",
    "Split",
    "SplitBasedSource",
    "SplitEnumerator",
    "SplitRecords",
    "StreamTransformer",
    "SupportsPreprocessing",
    "get_gateway",
]


class DeliveryGuarantee(Enum):
    """The delivery guarantee of a sink after a restart.

    Example::

        DeliveryGuarantee.AT_LEAST_ONCE
    """

    EXACTLY_ONCE = 0
    """Each record arrives exactly once, even after a failure. Needs checkpoints."""
    AT_LEAST_ONCE = 1
    """Each record arrives; some may arrive again after a failure."""
    NONE = 2
    """Records may be lost or arrive again after a failure."""


class JavaFunctionWrapper:
    """PyFlink's base class of connectors. Those of Flintstream have no Java object."""

    def get_java_function(self) -> NoReturn:
        """Not supported: Flintstream's connectors are written in Python."""
        java_only(f"{type(self).__name__}.get_java_function()", "Pass the connector itself.")


class Source(JavaFunctionWrapper, ABC, Generic[T_co]):
    """A source of records, for `env.from_source`.

    To write your own, inherit from :class:`flintstream.datastream.connectors.source.PythonSource`, or from
    :class:`SplitBasedSource` if one reader reads all splits of a subtask, or if their discovery needs an enumerator.
    """

    bounded: bool = True
    """Whether the source is bounded."""

    replayable: bool = True
    """Whether the source can be replayed from an earlier position after a failure."""

    parallel: bool = True
    """Whether the source can have more than one subtask."""

    exact: bool = False
    """Whether every record is of `produced_type` by construction, and need not be checked."""

    @abstractmethod
    def create_operator(self, watermark_strategy: WatermarkStrategy | None) -> SourceHead:
        """Returns the operator that reads this source in a slot."""

    @property
    def produced_type(self) -> TypeInformation | None:
        """Returns the type of the records, if the source knows it."""
        return None


class SplitBasedSource(SplitSource, Source[T_co]):
    """A source made of splits: a :class:`SplitEnumerator` on the driver finds them, a :class:`SourceReader` in each subtask
    reads them.

    Example::

        class Queues(SplitBasedSource):
            bounded = False
            discovery_interval = 10.0

            def create_enumerator(self, parallelism):
                return QueueEnumerator()

            def create_source_reader(self, runtime_context):
                return QueueReader()
    """

    def create_operator(self, watermark_strategy: WatermarkStrategy | None) -> SourceHead:
        for one, other in (("create_enumerator", "discover"), ("create_source_reader", "create_reader")):
            if all(getattr(type(self), name) is getattr(SplitSource, name) for name in (one, other)):
                raise TypeError(f"{type(self).__name__} defines neither {one} nor {other}")
        return SourceOperator(self, watermark_strategy)


@dataclass(frozen=True)
class SecondStage:
    """The second operator of a sink, and the partitioning of the writer's results over its subtasks."""

    name: str
    operator: Operator
    partitioner: StreamPartitioner


class Sink(JavaFunctionWrapper, ABC, Generic[IN]):
    """A sink of records, for `stream.sink_to`."""

    @abstractmethod
    def create_operator(self, input_type: TypeInformation | None) -> Operator:
        """Returns the operator that writes to this sink in a slot."""

    def create_second_stage(self) -> SecondStage | None:
        """Returns the stage that commits the writer's results; None if the writer commits itself."""
        return None


class StreamTransformer(ABC):
    """Transforms a stream before it enters a sink."""

    @abstractmethod
    def apply(self, ds: DataStream) -> DataStream:
        """Returns the stream that the sink receives instead of `ds`."""


class SupportsPreprocessing(ABC):
    """A sink that transforms its stream first."""

    @abstractmethod
    def get_transformer(self) -> StreamTransformer | None:
        """Returns the transformer; None to leave the stream unchanged."""
