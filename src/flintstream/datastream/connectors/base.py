"""Source and Sink: what `env.from_source` and `stream.sink_to` take."""

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
    """What a sink promises when the job has to be restarted.

    Example::

        DeliveryGuarantee.AT_LEAST_ONCE
    """

    EXACTLY_ONCE = 0
    """Each record arrives once, also after a failure. Needs checkpoints."""
    AT_LEAST_ONCE = 1
    """Each record arrives; some may arrive again after a failure."""
    NONE = 2
    """Records may be lost or arrive again after a failure."""


class JavaFunctionWrapper:
    """What PyFlink's connectors have in common. There is no Java object behind those of Flintstream."""

    def get_java_function(self) -> NoReturn:
        """Not available: Flintstream's connectors are written in Python."""
        java_only(f"{type(self).__name__}.get_java_function()", "Pass the connector itself.")


class Source(JavaFunctionWrapper, ABC, Generic[T_co]):
    """Where records come from; given to `env.from_source`.

    To write your own, inherit from :class:`flintstream.datastream.connectors.source.PythonSource`, or from
    :class:`SplitBasedSource` where one reader reads all splits of a subtask, or where there is more to finding them.
    """

    bounded: bool = True
    """Whether the source ends."""

    replayable: bool = True
    """Whether the source can be read again from an earlier position, after a failure."""

    parallel: bool = True
    """Whether the source can have more than one subtask."""

    exact: bool = False
    """Whether every record is of `produced_type` by the way it is made, and need not be checked."""

    @abstractmethod
    def create_operator(self, watermark_strategy: WatermarkStrategy | None) -> SourceHead:
        """The operator that reads this source in a slot."""

    @property
    def produced_type(self) -> TypeInformation | None:
        """The type of the records, where the source knows it."""
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
    """The second operator of a sink, and how the results of the first are spread over its subtasks."""

    name: str
    operator: Operator
    partitioner: StreamPartitioner


class Sink(JavaFunctionWrapper, ABC, Generic[IN]):
    """Where records go; given to `stream.sink_to`."""

    @abstractmethod
    def create_operator(self, input_type: TypeInformation | None) -> Operator:
        """The operator that writes to this sink in a slot."""

    def create_second_stage(self) -> SecondStage | None:
        """What takes the results of the operator that writes and commits them; None if that one does it itself."""
        return None


class StreamTransformer(ABC):
    """Changes a stream before it enters a sink."""

    @abstractmethod
    def apply(self, ds: DataStream) -> DataStream:
        """The stream that the sink takes in place of `ds`."""


class SupportsPreprocessing(ABC):
    """A sink that wants its stream changed first."""

    @abstractmethod
    def get_transformer(self) -> StreamTransformer | None:
        """What changes the stream; None to leave it as it is."""
