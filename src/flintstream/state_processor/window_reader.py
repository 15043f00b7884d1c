"""WindowSavepointReader: the open windows of an operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from flintstream.common.arguments import millis
from flintstream.common.pickling import dumps_by_value
from flintstream.common.time import Duration, Time
from flintstream.common.typeinfo import TypeInformation, Types
from flintstream.datastream.basic_functions import AggregateFunction, ReduceFunction, Reducer
from flintstream.datastream.settings import checked_function
from flintstream.datastream.window import WindowAssigner
from flintstream.datastream.windowed_stream import window_operator
from flintstream.runtime.windows.base import ALIGNED_TABLE, EVICTED_TABLE, GENERAL_TABLE
from flintstream.runtime.windows.contents import AggregatedContents, ListContents, ReducedContents, WindowContents
from flintstream.runtime.windows.functions import PassOn
from flintstream.runtime.windows.operator import WindowOperator
from flintstream.runtime.windows.spec import WindowSpec
from flintstream.state_processor.functions import WindowReaderFunction
from flintstream.state_processor.readings import WindowReaderOperator, WindowReading
from flintstream.state_processor.savepoint import StateKindError

if TYPE_CHECKING:
    from flintstream.state_processor.reader import Identifier, _Reader

_Result = TypeVar("_Result")


class _ReadBy(PassOn):
    """Carries the user's function, so that it is opened and closed as a window function is."""

    def __init__(self, function: Any) -> None:
        self.function = function


class _AnyEvictor:
    """Stands for the evictor of the job, which reading does not call."""


class WindowSavepointReader(Generic[_Result]):
    """Reads the windows of one assigner. Without a reader function, results are pairs of key and value."""

    def __init__(self, reader: _Reader[_Result], assigner: WindowAssigner[Any, Any]) -> None:
        if not isinstance(assigner, WindowAssigner):
            raise TypeError(f"window: expected a WindowAssigner, got {assigner!r}")
        self._reader = reader
        self._assigner = assigner
        self._evicts = False
        self._lateness = 0

    def evictor(self) -> WindowSavepointReader[_Result]:
        """Says that the windows have an evictor, and so keep all their records."""
        self._evicts = True
        return self

    def allowed_lateness(self, time_ms: int | Time | Duration) -> WindowSavepointReader[_Result]:
        """Sets the allowed lateness of the job: windows that have ended and wait for late records are read too."""
        self._lateness = millis("allowed_lateness", "time_ms", time_ms)
        return self

    def reduce(
        self,
        identifier: Identifier,
        function: Reducer[Any],
        reader_function: WindowReaderFunction[Any, Any, Any, Any] | None = None,
        key_type: TypeInformation | None = None,
        reduce_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> _Result:
        """Reads windows of `reduce(function)`; the reader function receives the one reduced record."""
        contents = ReducedContents(checked_function("reduce", function, ReduceFunction))
        return self._read("reduce", identifier, contents, reader_function, key_type, reduce_type, output_type)

    def aggregate(
        self,
        identifier: Identifier,
        function: AggregateFunction[Any, Any, Any],
        reader_function: WindowReaderFunction[Any, Any, Any, Any] | None = None,
        key_type: TypeInformation | None = None,
        result_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> _Result:
        """Reads windows of `aggregate(function)`; the reader function receives the one result."""
        if not isinstance(function, AggregateFunction):
            raise TypeError(f"aggregate: expected an AggregateFunction, got {function!r}")
        contents = AggregatedContents(function)
        return self._read("aggregate", identifier, contents, reader_function, key_type, result_type, output_type)

    def process(
        self,
        identifier: Identifier,
        reader_function: WindowReaderFunction[Any, Any, Any, Any],
        key_type: TypeInformation | None = None,
        state_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> _Result:
        """Reads windows of `process(...)` or `apply(...)`; the reader function receives all their records."""
        if reader_function is None:
            raise TypeError("process: expected a WindowReaderFunction, got None")
        return self._read("process", identifier, ListContents(), reader_function, key_type, state_type, output_type)

    def _read(
        self,
        method: str,
        identifier: Identifier,
        contents: WindowContents,
        function: Any,
        key_type: Any,
        value_type: Any,
        output_type: Any,
    ) -> _Result:
        if function is not None and not isinstance(function, WindowReaderFunction):
            raise TypeError(f"{method}: expected a WindowReaderFunction, got {function!r}")
        reader = self._reader
        operator = reader._savepoint.find(identifier)
        self._check_tables(method, operator)
        spec = WindowSpec(
            self._assigner,
            self._assigner.get_default_trigger(None),
            contents,
            _ReadBy(function),
            _AnyEvictor() if self._evicts else None,
            self._lateness,
        )
        made: Any = window_operator(spec, in_memory=False)
        assert isinstance(made, WindowOperator)
        reading = WindowReading(
            dumps_by_value(WindowReaderOperator(made.function, made._make_window)), *reader._place.backend
        )
        names: tuple[str, ...] = ()
        if function is None and output_type is None:
            output_type = None if key_type is None or value_type is None else Types.TUPLE([key_type, value_type])
            names = ("key", "value")
        what = f"window(...).{method}: {operator.place}"
        return reader._returned(reader._keyed_shares(operator), reading, output_type, what, *names)

    def _check_tables(self, method: str, operator: Any) -> None:
        states = operator.keyed_states()
        plain = ALIGNED_TABLE in states or GENERAL_TABLE in states
        evicted = EVICTED_TABLE in states
        if not plain and not evicted:
            raise StateKindError(f"{method}: {operator.place} has no windows; it has {', '.join(states) or 'no state'}")
        if evicted and not plain and not self._evicts:
            raise StateKindError(f"{method}: the windows of {operator.place} have an evictor: call evictor() before")
        if plain and not evicted and self._evicts:
            raise StateKindError(f"{method}: the windows of {operator.place} have no evictor: leave out evictor()")
