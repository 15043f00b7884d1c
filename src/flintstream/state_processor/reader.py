"""SavepointReader: the state of a savepoint or checkpoint as Spark DataFrames, or as streams."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from flintstream.common.configuration import load_configuration
from flintstream.common.typeinfo import TypeInformation, Types
from flintstream.datastream.state import StateDescriptor
from flintstream.datastream.state_backend import StateBackend
from flintstream.datastream.stream_execution_environment import StreamExecutionEnvironment
from flintstream.datastream.window import WindowAssigner
from flintstream.runtime.state.operator_state import BROADCAST, SPLIT, UNION
from flintstream.state_processor.columns import Columns
from flintstream.state_processor.functions import KeyedStateReaderFunction
from flintstream.state_processor.operator_identifier import OperatorIdentifier
from flintstream.state_processor.readings import (
    EntryReading,
    KeyedReading,
    OperatorStateReading,
    Reading,
)
from flintstream.state_processor.savepoint import Savepoint, StoredOperator, declared_type
from flintstream.state_processor.shares import Share, declarations, keyed_shares, operator_shares
from flintstream.state_processor.state_task import HASHMAP

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from flintstream.datastream.data_stream import DataStream
    from flintstream.state_processor.window_reader import WindowSavepointReader

Identifier = str | OperatorIdentifier
"""An operator: its uid, or an OperatorIdentifier."""
_BACKEND = "state.backend.type"
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Place:
    """Where the state processor runs: a Spark session, or the environment whose session it uses; and how."""

    session: Any
    options: dict[str, str] = field(default_factory=dict)
    """The options of the state backend."""
    overrides: dict[str, str] = field(default_factory=dict)
    """Options that take precedence over the configuration."""

    @staticmethod
    def of(session: Any, state_backend: Any = None) -> Place:
        """Checks both."""
        if state_backend is not None and not isinstance(state_backend, StateBackend):
            raise TypeError(f"expected a state backend such as EmbeddedRocksDBStateBackend(), got {state_backend!r}")
        if not isinstance(session, StreamExecutionEnvironment) and not hasattr(session, "createDataFrame"):
            raise TypeError(f"expected a SparkSession or a StreamExecutionEnvironment, got {session!r}")
        return Place(session, {} if state_backend is None else state_backend._options())

    @property
    def configuration(self) -> dict[str, str]:
        """Returns the configuration: that of the environment, else the configuration file's."""
        if isinstance(self.session, StreamExecutionEnvironment):
            return {**self.session.get_configuration().to_dict(), **self.overrides}
        return {**load_configuration().to_dict(), **self.overrides}

    @property
    def backend(self) -> tuple[str, dict[str, str]]:
        """Returns the type of the state backend, and all its options."""
        return self.options.get(_BACKEND, HASHMAP), {**self.configuration, **self.options}

    @property
    def spark(self) -> SparkSession:
        """Returns the Spark session; starts one for an environment if there is none."""
        from flintstream.spark.session import check_session, get_or_create_session

        if isinstance(self.session, StreamExecutionEnvironment):
            return get_or_create_session(self.configuration)
        check_session(self.session)
        session: SparkSession = self.session
        return session


class _Reader(Generic[_Result]):
    """The part shared by both readers: they differ in what they return."""

    def __init__(self, savepoint: Savepoint, place: Place) -> None:
        self._savepoint = savepoint
        self._place = place

    def _returned(self, shares: list[Share], reading: Reading, type_info: Any, what: str, *names: str) -> _Result:
        raise NotImplementedError

    # --- operator state ---

    def read_list_state(self, identifier: Identifier, name: str, type_info: TypeInformation | None = None) -> _Result:
        """Returns the elements of a list state of an operator, of all its subtasks.

        :param type_info: the type of an element; by default the one with which the state was written.
        """
        return self._list_state("read_list_state", identifier, name, type_info, SPLIT)

    def read_union_state(self, identifier: Identifier, name: str, type_info: TypeInformation | None = None) -> _Result:
        """Returns the elements of a union list state of an operator, as each subtask has stored them."""
        return self._list_state("read_union_state", identifier, name, type_info, UNION)

    def read_broadcast_state(
        self,
        identifier: Identifier,
        name: str,
        key_type_info: TypeInformation | None = None,
        value_type_info: TypeInformation | None = None,
    ) -> _Result:
        """Returns the entries of a broadcast state, with the columns `key` and `value`."""
        operator = self._savepoint.find(identifier)
        subtask, state = operator.check_operator_state(name, BROADCAST)
        written: Any = declared_type(state.serializer)
        key = _checked("read_broadcast_state", key_type_info) or (written and written.key_type)
        value = _checked("read_broadcast_state", value_type_info) or (written and written.value_type)
        pair = None if key is None or value is None else Types.TUPLE([key, value])
        # It is the same in all subtasks that have it.
        shares = [share for share in operator_shares(operator) if subtask in share.operator.subtasks]
        what = f"read_broadcast_state: {operator.place}: state {name!r}"
        return self._returned(shares, OperatorStateReading(name, True), pair, what, "key", "value")

    def _list_state(self, method: str, identifier: Identifier, name: str, declared: Any, mode: str) -> _Result:
        operator = self._savepoint.find(identifier)
        _, state = operator.check_operator_state(name, mode)
        type_info = _checked(method, declared) or declared_type(state.serializer)
        what = f"{method}: {operator.place}: state {name!r}"
        return self._returned(operator_shares(operator), OperatorStateReading(name), type_info, what)

    # --- keyed state ---

    def read_keyed_state(
        self,
        identifier: Identifier,
        function: KeyedStateReaderFunction[Any, Any] | StateDescriptor[Any],
        key_type_info: TypeInformation | None = None,
        out_type_info: TypeInformation | None = None,
    ) -> _Result:
        """Returns the results of a function that is called for each key of an operator.

        Instead of a function, the descriptor of one state may be given: the results are its keys and entries, with the
        columns `key` and `value`.

        :param key_type_info: with a descriptor, the type of the keys.
        :param out_type_info: the type of the results; with a descriptor by default that of its entries.
        """
        operator = self._savepoint.find(identifier)
        key = _checked("read_keyed_state", key_type_info)
        out = _checked("read_keyed_state", out_type_info)
        if isinstance(function, StateDescriptor):
            return self._entries(operator, function, key, out)
        if not isinstance(function, KeyedStateReaderFunction):
            raise TypeError(
                f"read_keyed_state: expected a KeyedStateReaderFunction or a state descriptor, got {function!r}"
            )
        reading = KeyedReading.of(function, *self._place.backend)
        self._check_requested(operator, reading, type(function).__name__)
        what = f"read_keyed_state: {operator.place}: {type(function).__name__}"
        return self._returned(self._keyed_shares(operator), reading, out, what)

    def _entries(self, operator: StoredOperator, descriptor: Any, key: Any, out: Any) -> _Result:
        stored = operator.check_keyed_state(descriptor.name)
        # Declares the state against what is stored, without any entries: raises if they do not fit.
        list(EntryReading(descriptor.name, descriptor).chunks(declarations(operator)))
        written = declared_type(stored.serializer) if stored.kind != "aggregating" else None
        value = out or (descriptor.type_info if stored.kind != "aggregating" else None) or written
        pair = None if key is None or value is None else Types.TUPLE([key, value])
        what = f"read_keyed_state: {operator.place}: state {descriptor.name!r}"
        reading = EntryReading(descriptor.name, descriptor, *self._place.backend)
        return self._returned(self._keyed_shares(operator), reading, pair, what, "key", "value")

    def _check_requested(self, operator: StoredOperator, reading: KeyedReading, function: str) -> None:
        """Opens the function once here, so that what does not fit is refused at once."""
        for name in reading.requested(declarations(operator)):
            operator.check_keyed_state(name)

    def _keyed_shares(self, operator: StoredOperator) -> list[Share]:
        cores = self._place.spark.sparkContext.defaultParallelism if operator.in_databases else 1
        return keyed_shares(operator, cores)

    # --- windows ---

    def window(self, assigner: WindowAssigner[Any, Any]) -> WindowSavepointReader[_Result]:
        """Reads windows: `reader.window(TumblingEventTimeWindows.of(Time.minutes(1))).reduce("sums", add, ...)`."""
        from flintstream.state_processor.window_reader import WindowSavepointReader

        return WindowSavepointReader(self, assigner)


class SavepointReader(_Reader["DataFrame"]):
    """Reads the state of a savepoint or retained checkpoint as Spark DataFrames.

    Example::

        savepoint = SavepointReader.read(spark, "/savepoints/savepoint-5f01de-2a34")
        counts = savepoint.read_keyed_state("counts", ValueStateDescriptor("count", Types.LONG()), Types.STRING())
        counts.where("value > 100").show()

    Keyed state is read by tasks of Spark, by key groups; on the driver, only metadata. A DataFrame reads its state
    whenever it is computed, and is invalid once the savepoint is removed.
    """

    @staticmethod
    def read(
        env: SparkSession | StreamExecutionEnvironment, path: str, state_backend: StateBackend | None = None
    ) -> SavepointReader:
        """Opens a savepoint, a checkpoint, or the last checkpoint in the directory of a job.

        :param env: the Spark session, or an environment whose Spark session and configuration are used.
        :param path: a directory or URL.
        :param state_backend: where state is kept while it is read: with `EmbeddedRocksDBStateBackend()`, key groups may
            be larger than memory. A checkpoint of RocksDB databases is read with RocksDB in any case.
        """
        place = Place.of(env, state_backend)
        return SavepointReader(Savepoint.read(path, place.configuration), place)

    def as_stream(self, env: StreamExecutionEnvironment) -> StreamSavepointReader:
        """Returns a reader with the same methods, whose results are bounded streams of any Python objects."""
        if not isinstance(env, StreamExecutionEnvironment):
            raise TypeError(f"as_stream: expected a StreamExecutionEnvironment, got {env!r}")
        return StreamSavepointReader(self._savepoint, self._place, env)

    def _returned(self, shares: list[Share], reading: Reading, type_info: Any, what: str, *names: str) -> DataFrame:
        from flintstream.state_processor.frames import read_frame

        if type_info is None and names:
            raise TypeError(
                f"{what}: the columns {' and '.join(names)} need types, and not both are declared or stored: give "
                "them, such as Types.STRING() and Types.LONG()"
            )
        if type_info is None:
            raise TypeError(
                f"{what}: a DataFrame needs the type of its columns, and none is declared or stored: give one, such "
                'as Types.ROW_NAMED(["key", "count"], [Types.STRING(), Types.LONG()])'
            )
        return read_frame(self._place.spark, shares, reading, Columns.of(type_info, what, names or None))


class StreamSavepointReader(_Reader["DataStream"]):
    """A SavepointReader whose results are streams."""

    def __init__(self, savepoint: Savepoint, place: Place, env: StreamExecutionEnvironment) -> None:
        super().__init__(savepoint, place)
        self._env = env

    def _returned(self, shares: list[Share], reading: Reading, type_info: Any, what: str, *names: str) -> DataStream:
        from flintstream.state_processor.frames import read_frame

        frame = read_frame(self._place.spark, shares, reading, None)
        stream = self._env.from_spark(frame, source_name="Savepoint")
        return stream.flat_map(_objects, output_type=type_info).name(what)


def _objects(row: Any) -> Any:
    import pickle

    return pickle.loads(row[0])


def _checked(method: str, type_info: Any) -> TypeInformation | None:
    if type_info is not None and not isinstance(type_info, TypeInformation):
        raise TypeError(f"{method}: expected a type such as Types.LONG(), got {type_info!r}")
    return type_info
