"""OperatorTransformation: from data to the state of an operator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from flintstream.common.keys import UPPER_BOUND_MAX_PARALLELISM
from flintstream.common.time import Duration, Time
from flintstream.common.typeinfo import TypeInformation
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream.basic_functions import AggregateFunction, KeySelector, Reducer, Selector
from flintstream.datastream.data_stream import DataStream
from flintstream.datastream.settings import checked_function
from flintstream.datastream.window import Evictor, Trigger, WindowAssigner
from flintstream.datastream.windowed_stream import _Windows, window_operator
from flintstream.graph.partitioners import KeyGroupPartitioner
from flintstream.runtime.captured import capture
from flintstream.runtime.operators.base import Operator
from flintstream.runtime.windows.contents import WindowContents
from flintstream.state_processor.bootstrap_operators import BootstrapOperator, BroadcastBootstrapOperator
from flintstream.state_processor.functions import (
    BroadcastStateBootstrapFunction,
    KeyedStateBootstrapFunction,
    StateBootstrapFunction,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class StateBootstrapTransformation:
    """Data, and the operator that makes state from them: passed to `SavepointWriter.with_operator`."""

    data: Any
    """A DataFrame or a bounded DataStream."""
    operator: Operator
    partitioner: KeyGroupPartitioner | None = None
    """By key, if the state is keyed."""
    timestamps: Any = None
    """The captured TimestampAssigner, if any."""
    max_parallelism: int | None = None
    alone: bool = False
    """Whether all records go to one subtask."""


class OperatorTransformation:
    """Starts the bootstrap of an operator's state.

    Example::

        transformation = (OperatorTransformation.bootstrap_with(spark.read.parquet("accounts"))
                          .key_by(lambda account: account.id)
                          .transform(AccountState()))
    """

    @staticmethod
    def bootstrap_with(data: DataFrame | DataStream[Any]) -> OneInputStateTransformation:
        """Takes a Spark DataFrame, whose records are Rows with its column names, or a bounded stream.

        The records of a stream are collected on the driver first.
        """
        if not isinstance(data, DataStream) and not hasattr(data, "mapInArrow"):
            raise TypeError(f"bootstrap_with: expected a Spark DataFrame or a DataStream, got {data!r}")
        if getattr(data, "isStreaming", False):
            raise ValueError("bootstrap_with: the DataFrame is a streaming one; state is made from bounded data")
        return OneInputStateTransformation(data)


class _WithSettings:
    """The settings of a transformation."""

    def __init__(self, data: Any, timestamps: Any = None, max_parallelism: int | None = None) -> None:
        self._data = data
        self._timestamps = timestamps
        self._max_parallelism = max_parallelism

    def _made(self, operator: Operator, **settings: Any) -> StateBootstrapTransformation:
        return StateBootstrapTransformation(
            self._data, operator, timestamps=self._timestamps, max_parallelism=self._max_parallelism, **settings
        )


class OneInputStateTransformation(_WithSettings):
    """Data that are not keyed yet."""

    def set_max_parallelism(self, max_parallelism: int) -> OneInputStateTransformation:
        """Sets the number of key groups of this operator, instead of the savepoint's."""
        self._max_parallelism = checked_max_parallelism("set_max_parallelism", max_parallelism)
        return self

    def assign_timestamps(self, assigner: TimestampAssigner) -> OneInputStateTransformation:
        """Assigns timestamps to the records, e.g. for windows in event time."""
        if not isinstance(assigner, TimestampAssigner):
            raise TypeError(f"assign_timestamps: expected a TimestampAssigner, got {assigner!r}")
        self._timestamps = capture(assigner)
        return self

    def key_by(
        self, key_selector: Selector[Any, Any], key_type: TypeInformation | None = None
    ) -> KeyedStateTransformation:
        """Partitions the records by key, as `key_by` of the job's stream does."""
        if key_type is not None and not isinstance(key_type, TypeInformation):
            raise TypeError(f"key_by: key_type must be one of Types, such as Types.STRING(), got {key_type!r}")
        selector = checked_function("key_by", key_selector, KeySelector)
        partitioner = KeyGroupPartitioner(capture(selector), key_type)
        return KeyedStateTransformation(self._data, self._timestamps, self._max_parallelism, partitioner)

    def transform(
        self, function: StateBootstrapFunction[Any] | BroadcastStateBootstrapFunction[Any]
    ) -> StateBootstrapTransformation:
        """Makes list state with a StateBootstrapFunction, broadcast state with a BroadcastStateBootstrapFunction."""
        if isinstance(function, BroadcastStateBootstrapFunction):
            return self._made(BroadcastBootstrapOperator(function), alone=True)
        if isinstance(function, StateBootstrapFunction):
            return self._made(BootstrapOperator(function))
        hint = ": call key_by() before" if isinstance(function, KeyedStateBootstrapFunction) else ""
        raise TypeError(
            f"transform: expected a StateBootstrapFunction or a BroadcastStateBootstrapFunction, got {function!r}{hint}"
        )


class KeyedStateTransformation(_WithSettings):
    """Data partitioned by key."""

    def __init__(
        self, data: Any, timestamps: Any, max_parallelism: int | None, partitioner: KeyGroupPartitioner
    ) -> None:
        super().__init__(data, timestamps, max_parallelism)
        self._partitioner = partitioner

    def transform(self, function: KeyedStateBootstrapFunction[Any, Any]) -> StateBootstrapTransformation:
        """Makes keyed state and timers."""
        if not isinstance(function, KeyedStateBootstrapFunction):
            raise TypeError(f"transform: expected a KeyedStateBootstrapFunction, got {function!r}")
        return self._made(BootstrapOperator(function, keyed=True), partitioner=self._partitioner)

    def window(self, assigner: WindowAssigner[Any, Any]) -> WindowedStateTransformation:
        """Makes windows. They do not fire here, but in the job that restores them."""
        return WindowedStateTransformation(self._made(BootstrapOperator(None), partitioner=self._partitioner), assigner)


class _SpecsOfWindows(_Windows[Any, Any, Any]):
    """Returns what the methods of a windowed stream would record."""

    def __init__(self, assigner: WindowAssigner[Any, Any]) -> None:
        super().__init__(SimpleNamespace(_transformation=SimpleNamespace(output_type=None)), assigner)  # type: ignore[arg-type]

    def get_execution_environment(self) -> Any:
        return None

    def _windows(
        self,
        method: str,
        contents: WindowContents,
        window_function: Any,
        declared: TypeInformation | None,
        reducer: Any,
        mergeable: bool = False,
    ) -> Any:
        return self._spec(method, contents, window_function, mergeable)


class WindowedStateTransformation:
    """Data assigned to windows; set trigger, evictor and functions as in the job."""

    def __init__(self, transformation: StateBootstrapTransformation, assigner: WindowAssigner[Any, Any]) -> None:
        self._transformation = transformation
        self._windows = _SpecsOfWindows(assigner)

    def trigger(self, trigger: Trigger[Any, Any]) -> WindowedStateTransformation:
        """Sets the trigger of the job. It sees each record, but what it fires is dropped."""
        self._windows.trigger(trigger)
        return self

    def evictor(self, evictor: Evictor[Any, Any]) -> WindowedStateTransformation:
        """Sets the evictor of the job."""
        self._windows.evictor(evictor)
        return self

    def allowed_lateness(self, time_ms: int | Time | Duration) -> WindowedStateTransformation:
        """Sets the allowed lateness of the job."""
        self._windows.allowed_lateness(time_ms)
        return self

    def reduce(self, function: Reducer[Any], window_function: Any = None) -> StateBootstrapTransformation:
        """Makes windows of `reduce(function)`."""
        return self._made(self._windows.reduce(function, window_function))

    def aggregate(
        self, function: AggregateFunction[Any, Any, Any], window_function: Any = None
    ) -> StateBootstrapTransformation:
        """Makes windows of `aggregate(function)`."""
        return self._made(self._windows.aggregate(function, window_function))

    def apply(self, function: Any) -> StateBootstrapTransformation:
        """Makes windows of `apply(function)`."""
        return self._made(self._windows.apply(function))

    def process(self, function: Any) -> StateBootstrapTransformation:
        """Makes windows of `process(function)`."""
        return self._made(self._windows.process(function))

    def _made(self, spec: Any) -> StateBootstrapTransformation:
        # In memory, whatever the backend: both operators of windows restore this form.
        return replace(self._transformation, operator=window_operator(spec, in_memory=True))


def checked_max_parallelism(method: str, value: Any) -> int:
    """Returns a number of key groups; refuses one that no job could have."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= UPPER_BOUND_MAX_PARALLELISM:
        raise ValueError(
            f"{method}: the maximum parallelism must be an integer from 1 to {UPPER_BOUND_MAX_PARALLELISM}, got "
            f"{value!r}"
        )
    return value
