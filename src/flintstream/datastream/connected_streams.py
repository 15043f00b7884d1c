"""ConnectedStreams: two streams processed by one function; and streams connected with a broadcast stream.

Imported from `flintstream.datastream`.
"""

from __future__ import annotations

from typing import Any, Generic

from flintstream.common.type_variables import A_co, B_co, K, R
from flintstream.common.typeinfo import TypeInformation
from flintstream.datastream.basic_functions import Selector
from flintstream.datastream.data_stream import DataStream, OutputType
from flintstream.datastream.functions import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
)
from flintstream.datastream.keyed_stream import KeyedStream
from flintstream.datastream.settings import declared_output_type
from flintstream.datastream.state import MapStateDescriptor
from flintstream.graph.transformations import TwoInputTransformation
from flintstream.runtime.operators.broadcast import BroadcastProcessOperator
from flintstream.runtime.operators.keyed import RichOperator
from flintstream.runtime.operators.process import CoProcessOperator


class ConnectedStreams(Generic[A_co, B_co]):
    """Two streams, possibly of different types, processed by functions with two inputs.

        orders.connect(payments).key_by(lambda o: o.id, lambda p: p.order_id).process(Match())

    If both streams are keyed, both sides share the state of a key.
    """

    def __init__(self, stream1: DataStream[A_co], stream2: DataStream[B_co]) -> None:
        self.stream1 = stream1
        self.stream2 = stream2

    def key_by(
        self,
        key_selector1: Selector[A_co, K],
        key_selector2: Selector[B_co, K],
        key_type: TypeInformation | None = None,
    ) -> ConnectedStreams[A_co, B_co]:
        """Partitions both streams by key: `connected.key_by(lambda o: o.id, lambda p: p.order_id)`."""
        return ConnectedStreams(
            self.stream1.key_by(key_selector1, key_type), self.stream2.key_by(key_selector2, key_type)
        )

    def map(self, func: CoMapFunction[A_co, B_co, R], output_type: OutputType = None) -> DataStream[R]:
        """Maps each record of either stream to one result; None is dropped.

        Example::

            connected.map(Both(), Types.STRING())
        """
        if not isinstance(func, CoMapFunction):
            raise TypeError(f"map: connected streams need a CoMapFunction, got {func!r}")
        operator = RichOperator(func, "map", ("map1", "map2"), self._is_keyed_stream())
        return self._transform("Co-Map", operator, declared_output_type("map", output_type))

    def flat_map(self, func: CoFlatMapFunction[A_co, B_co, R], output_type: OutputType = None) -> DataStream[R]:
        """Maps each record of either stream to any number of results.

        Example::

            connected.flat_map(Merge(), Types.STRING())
        """
        if not isinstance(func, CoFlatMapFunction):
            raise TypeError(f"flat_map: connected streams need a CoFlatMapFunction, got {func!r}")
        operator = RichOperator(func, "flat_map", ("flat_map1", "flat_map2"), self._is_keyed_stream())
        return self._transform("Co-Flat Map", operator, declared_output_type("flat_map", output_type))

    def process(
        self,
        func: CoProcessFunction[A_co, B_co, R] | KeyedCoProcessFunction[Any, A_co, B_co, R],
        output_type: OutputType = None,
    ) -> DataStream[R]:
        """Maps each record to any number of results, with time and side outputs; on keyed streams, with state and
        timers.

        Example::

            connected.process(Match())
        """
        if not isinstance(func, (CoProcessFunction, KeyedCoProcessFunction)):
            raise TypeError(
                f"process: connected streams need a CoProcessFunction or a KeyedCoProcessFunction, got {func!r}"
            )
        keyed = self._is_keyed_stream()
        if isinstance(func, KeyedCoProcessFunction) and not keyed:
            raise TypeError(
                f"process: {type(func).__name__} is a KeyedCoProcessFunction, but the streams are not keyed: call "
                "key_by() first, or use a CoProcessFunction"
            )
        declared = declared_output_type("process", output_type)
        name = "Co-Keyed-Process" if keyed else "Co-Process"
        return self._transform(name, CoProcessOperator(func, keyed), declared)

    def _is_keyed_stream(self) -> bool:
        return isinstance(self.stream1, KeyedStream) and isinstance(self.stream2, KeyedStream)

    def _transform(self, name: str, operator: Any, output_type: TypeInformation | None) -> DataStream:
        env = self.stream1.get_execution_environment()
        recorded = TwoInputTransformation(
            self.stream1._transformation, self.stream2._transformation, name, operator, output_type
        )
        env._record(recorded)
        return DataStream(env, recorded)


class BroadcastStream(Generic[B_co]):
    """A broadcast stream with its state descriptors, created by `stream.broadcast(descriptor)`; other streams connect
    to it.
    """

    def __init__(self, input_stream: DataStream[B_co], broadcast_state_descriptors: list[MapStateDescriptor]) -> None:
        self.input_stream = input_stream
        self.broadcast_state_descriptors = broadcast_state_descriptors


class BroadcastConnectedStream(Generic[A_co, B_co]):
    """A stream connected with a broadcast stream: `events.connect(rules.broadcast(descriptor))`."""

    def __init__(
        self,
        non_broadcast_stream: DataStream[A_co],
        broadcast_stream: BroadcastStream[B_co],
        broadcast_state_descriptors: list[MapStateDescriptor],
    ) -> None:
        self.non_broadcast_stream = non_broadcast_stream
        self.broadcast_stream = broadcast_stream
        self.broadcast_state_descriptors = broadcast_state_descriptors

    def process(
        self,
        func: BroadcastProcessFunction[A_co, B_co, R] | KeyedBroadcastProcessFunction[Any, A_co, B_co, R],
        output_type: OutputType = None,
    ) -> DataStream[R]:
        """Processes both streams with a broadcast process function: `connected.process(Apply())`."""
        stream, broadcast = self.non_broadcast_stream, self.broadcast_stream.input_stream
        keyed = isinstance(stream, KeyedStream)
        kind = KeyedBroadcastProcessFunction if keyed else BroadcastProcessFunction
        if not isinstance(func, kind):
            described = "a keyed stream" if keyed else "a stream without keys"
            raise TypeError(f"process: {described} with a broadcast one needs a {kind.__name__}, got {func!r}")
        declared = declared_output_type("process", output_type)
        operator = BroadcastProcessOperator(func, self.broadcast_state_descriptors, keyed)
        name = "Keyed-Co-Process-Broadcast" if keyed else "Co-Process-Broadcast"
        env = stream.get_execution_environment()
        recorded = TwoInputTransformation(stream._transformation, broadcast._transformation, name, operator, declared)
        env._record(recorded)
        return DataStream(env, recorded)
