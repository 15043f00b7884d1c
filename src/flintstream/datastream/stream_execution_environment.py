"""StreamExecutionEnvironment: the entry point of a program, which builds its streams and runs its jobs."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from flintstream.common.basic_typeinfo import wrapping
from flintstream.common.configuration import Configuration
from flintstream.common.environment_variables import PLAN_FILE, PLAN_ONLY
from flintstream.common.io import InputFormat
from flintstream.common.job_client import JobClient
from flintstream.common.job_execution_result import JobExecutionResult
from flintstream.common.type_variables import R
from flintstream.common.typeinfo import RowTypeInfo, TypeInformation, Types
from flintstream.common.types import Row
from flintstream.common.watermark_strategy import WatermarkStrategy
from flintstream.datastream.connectors.base import Source
from flintstream.datastream.data_stream import DataStream
from flintstream.datastream.environment_settings import EnvironmentSettings, effective_configuration, running_spark
from flintstream.datastream.execution_mode import RuntimeExecutionMode
from flintstream.datastream.ingestion_time import INGESTION_TIME
from flintstream.datastream.io_functions import ParallelSourceFunction, SourceFunction, declared_type
from flintstream.datastream.settings import check_watermark_strategy, declared_output_type
from flintstream.datastream.time_domain import TimeCharacteristic
from flintstream.graph.execution_graph import ExecutionGraph
from flintstream.graph.guarantees import guarantees_text
from flintstream.graph.job_graph import JobGraph, build_job_graph
from flintstream.graph.printers import to_json, to_text
from flintstream.graph.stream_graph import (
    DEFAULT_JOB_NAME,
    StreamGraph,
    StreamGraphConfig,
    StreamGraphGenerator,
)
from flintstream.graph.transformations import (
    InvalidProgramException,
    PhysicalTransformation,
    SourceTransformation,
    Transformation,
)
from flintstream.runtime.operators.cache import StreamCache
from flintstream.runtime.operators.source_function import SourceFunctionOperator

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flintstream.jobmaster.settings import JobSettings

__all__ = ["StreamExecutionEnvironment"]

_log = logging.getLogger(__name__)


class StreamExecutionEnvironment(EnvironmentSettings):
    """Creates streams from sources, records the transformations applied to them, and runs them as a job.

    Example::

        env = StreamExecutionEnvironment.get_execution_environment()
        env.from_collection(["a", "b", "a"]).map(lambda word: (word, 1)).print()
        env.execute("words")
    """

    def __init__(self, configuration: Configuration | None = None) -> None:
        super().__init__(configuration)
        self._transformations: list[Transformation] = []
        self._caches: list[StreamCache] = []
        """Those of all cached streams of this environment."""

    @staticmethod
    def get_execution_environment(configuration: Configuration | None = None) -> StreamExecutionEnvironment:
        """Returns an environment configured by the configuration file, the command line and `configuration`.

        Later sources override earlier ones: `get_execution_environment(Configuration.from_dict({"parallelism.default":
        4}))`.
        """
        return StreamExecutionEnvironment(effective_configuration(configuration))

    # --- sources ---

    @overload
    def from_collection(self, collection: Iterable[Any], type_info: RowTypeInfo) -> DataStream[Row]: ...
    @overload
    def from_collection(self, collection: Iterable[R], type_info: TypeInformation | None = None) -> DataStream[R]: ...
    def from_collection(self, collection: Iterable[Any], type_info: TypeInformation | None = None) -> DataStream:
        """Returns a stream of the elements of a collection, in order, read by one subtask.

        As in PyFlink, integers that do not fit into a declared BYTE, SHORT or INT wrap around here; results of functions
        that do not fit are refused.

        Example::

            env.from_collection([1, 2], Types.INT())
        """
        from flintstream.datastream.connectors.collection import CollectionSource

        declared = declared_output_type("from_collection", type_info)
        try:
            values = list(collection)
        except TypeError as error:
            raise TypeError(f"from_collection: expected a collection, got {collection!r}: {error}") from error
        if declared is not None:
            try:
                values = wrapping(declared).coerce(values)
            except (TypeError, ValueError) as error:
                raise type(error)(f"from_collection: an element does not fit {declared}: {error}") from error
        source = CollectionSource(values)
        operator = source.create_operator(self._strategy(None))
        return self._add_source("Collection Source", operator, source, True, declared, False)

    def from_source(
        self,
        source: Source[R],
        watermark_strategy: WatermarkStrategy,
        source_name: str,
        type_info: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Returns a stream of the records of a connector's source.

        Example::

            env.from_source(NumberSequenceSource(1, 100), WatermarkStrategy.no_watermarks(), "numbers")
        """
        if not isinstance(source, Source):
            raise TypeError(f"from_source: expected a Source of flintstream.datastream.connectors, got {source!r}")
        check_watermark_strategy("from_source", watermark_strategy)
        declared = declared_output_type("from_source", type_info) or source.produced_type
        operator = source.create_operator(self._strategy(watermark_strategy))
        operator.emits_declared_type = source.exact and declared == source.produced_type
        return self._add_source(source_name, operator, source, source.bounded, declared, source.parallel)

    def add_source(
        self,
        source_func: SourceFunction[R],
        source_name: str = "Custom Source",
        type_info: TypeInformation | None = None,
    ) -> DataStream[R]:
        """Returns a stream of the records of a source function in Python: `env.add_source(Numbers(), "numbers",
        Types.LONG())`.

        The source has one subtask, unless it is a `ParallelSourceFunction`.
        """
        if not isinstance(source_func, SourceFunction):
            raise TypeError(f"add_source: expected a SourceFunction, got {source_func!r}")
        source = source_func.as_source()
        if source is not None:
            return self.from_source(source, WatermarkStrategy.no_watermarks(), source_name, type_info)
        if type(source_func).run is SourceFunction.run:
            raise TypeError(f"add_source: {type(source_func).__name__} does not define run(self, ctx)")
        declared = declared_output_type("add_source", type_info) or declared_type(source_func)
        operator = SourceFunctionOperator(source_func, self._strategy(None))
        parallel = isinstance(source_func, ParallelSourceFunction)
        return self._add_source(source_name, operator, source_func, False, declared, parallel)

    def from_sequence(self, start: int, end: int) -> DataStream[int]:
        """Returns a stream of the integers from `start` to `end`, both inclusive: `env.from_sequence(1, 1000)`."""
        from flintstream.datastream.connectors.number_seq import NumberSequenceSource

        source = NumberSequenceSource(start, end)
        return self.from_source(source, WatermarkStrategy.no_watermarks(), "Sequence Source")

    def generate_sequence(self, start: int, end: int) -> DataStream[int]:
        """Alias of `from_sequence`, under its older name."""
        return self.from_sequence(start, end)

    def from_spark(
        self,
        df: DataFrame,
        watermark_strategy: WatermarkStrategy | None = None,
        source_name: str = "Spark DataFrame",
        type_info: TypeInformation | None = None,
    ) -> DataStream[Row]:
        """Returns a stream of the rows of a Spark DataFrame: `env.from_spark(spark.read.parquet("/data/orders"))`."""
        from flintstream.datastream.connectors.spark import SparkDataFrameSource

        strategy = watermark_strategy or WatermarkStrategy.no_watermarks()
        return self.from_source(SparkDataFrameSource(df), strategy, source_name, type_info)

    def socket_text_stream(
        self, hostname: str, port: int, delimiter: str = "\n", max_retry: int = 0
    ) -> DataStream[str]:
        r"""Returns a stream of the lines received from a TCP socket: `env.socket_text_stream("localhost", 9999)`, with
        `nc -lk 9999` on the other side.

        `max_retry` is the number of seconds to keep reconnecting after the connection is closed: 0 for none, -1 for no
        limit. After a failure, lines already received cannot be read again.
        """
        from flintstream.datastream.connectors.socket import SocketTextSource

        source = SocketTextSource(hostname, port, delimiter, max_retry)
        stream = self.from_source(source, WatermarkStrategy.no_watermarks(), "Socket Stream", Types.STRING())
        return stream.force_non_parallel()

    def read_text_file(self, file_path: str, charset_name: str = "UTF-8") -> DataStream[str]:
        """Returns a stream of the lines of a file, or of all files in a directory:
        `env.read_text_file("/data/words.txt")`.
        """
        from flintstream.datastream.connectors.file_system import FileSource, StreamFormat

        line_format = StreamFormat.text_line_format(charset_name)
        source = FileSource.for_record_stream_format(line_format, file_path).build()
        return self.from_source(source, WatermarkStrategy.no_watermarks(), "Text File Source", Types.STRING())

    def create_input(self, input_format: InputFormat[R], type_info: TypeInformation | None = None) -> DataStream:
        """Returns a stream of the records of an `InputFormat` written in Python, or of files by an `AvroInputFormat` or a
        `FileInputFormat`: `env.create_input(FileInputFormat("/data/in", OrcFormat()))`.
        """
        from flintstream.datastream.connectors.input_format import InputFormatSource

        if not isinstance(input_format, InputFormat):
            raise TypeError(
                f"create_input: expected an InputFormat, got {input_format!r}; a format of files needs their path: "
                "FileInputFormat(path, format)"
            )
        source = input_format.as_source() or InputFormatSource(input_format)
        return self.from_source(source, WatermarkStrategy.no_watermarks(), "Custom Source", type_info)

    def _strategy(self, given: WatermarkStrategy | None) -> WatermarkStrategy | None:
        """Returns the strategy of a source: the given one or, if it says nothing, that of the time characteristic."""
        if self.get_stream_time_characteristic() is not TimeCharacteristic.IngestionTime:
            return given
        says_nothing = given is None or (given.timestamp_assigner is None and not given.emits_watermarks)
        return INGESTION_TIME if says_nothing else given

    def _add_source(
        self,
        name: str,
        operator: Any,
        source: Any,
        bounded: bool,
        output_type: TypeInformation | None,
        parallel: bool,
    ) -> DataStream:
        if not isinstance(name, str) or not name:
            raise ValueError(f"The name of a source must be a non-empty string, got {name!r}.")
        transformation = SourceTransformation(name, operator, source, bounded, output_type)
        if not parallel:
            transformation.force_non_parallel()
        return DataStream(self, transformation)

    # --- graphs ---

    def _record(self, transformation: PhysicalTransformation) -> None:
        """Records an operator for the next job."""
        self._transformations.append(transformation)

    def generate_stream_graph(self, clear_transformations: bool = False, job_name: str | None = None) -> StreamGraph:
        """Returns the stream graph of the operators recorded so far, with all defaults resolved."""
        max_parallelism = self.get_max_parallelism()
        config = StreamGraphConfig(
            job_name=job_name or self._configuration.get_string("pipeline.name", None) or DEFAULT_JOB_NAME,
            parallelism=self.get_parallelism(),
            max_parallelism=None if max_parallelism == -1 else max_parallelism,
            chaining=self.is_chaining_enabled(),
            chain_different_max_parallelism=(self.is_chaining_of_operators_with_different_max_parallelism_enabled()),
            auto_generate_uids=self._execution_config.has_auto_generated_uids_enabled(),
            fills_caches=self._runtime_mode() is not RuntimeExecutionMode.STREAMING,
        )
        graph = StreamGraphGenerator(self._transformations, config).generate()
        if config.fills_caches and not graph.is_bounded:
            graph = StreamGraphGenerator(self._transformations, replace(config, fills_caches=False)).generate()
        if clear_transformations:
            self._transformations.clear()
        return graph

    def get_job_graph(self, job_name: str | None = None) -> JobGraph:
        """Returns the operators recorded so far, chained into tasks; `to_text(env.get_job_graph())` draws the graph."""
        return build_job_graph(self.generate_stream_graph(job_name=job_name))

    def get_execution_plan(self) -> str:
        """Returns the operators recorded so far as JSON, in Flink's format.

        json.loads(env.get_execution_plan())["nodes"]
        """
        return to_json(self.generate_stream_graph())

    # --- running ---

    def execute(self, job_name: str | None = None) -> JobExecutionResult:
        """Runs the recorded job and waits until it ends; raises the job's failure: `env.execute("my job")`.

        Control-C cancels the job. A job that fails because records of a cached stream were lost while it ran is run again,
        and computes them again.
        """
        recorded = list(self._transformations)
        graph = self.generate_stream_graph(True, job_name)
        client = self._submit(graph)
        try:
            result: JobExecutionResult = client.get_job_execution_result().result()
        except KeyboardInterrupt:
            client.cancel().result()
            raise
        except Exception as error:
            caches = [node.source for node in graph.sources if isinstance(node.source, StreamCache)]
            if all(cache.available() for cache in caches):
                raise
            _log.warning("records of a cached stream were lost, so they are computed again: %s", error)
            self._transformations[:0] = recorded
            return self.execute(job_name)
        return result

    def execute_async(self, job_name: str | None = None) -> JobClient:
        """Starts the recorded job and returns a client at once: `client = env.execute_async("my job")`."""
        return self._submit(self.generate_stream_graph(True, job_name))

    def _submit(self, graph: StreamGraph) -> JobClient:
        batch_mode = self._is_batch(graph)
        settings = self._job_settings(graph.job_name, batch_mode)
        settings.check()
        self._checkpoint_config.get_checkpointing_mode()  # Raises for an unknown mode.
        if os.environ.get(PLAN_ONLY) == "1":
            checkpointing = self._checkpoint_config.is_checkpointing_enabled() and not batch_mode
            execution_graph = ExecutionGraph(build_job_graph(graph))
            settings.restored(execution_graph)  # Refuses state that does not fit.
            if PLAN_FILE in os.environ:
                Path(os.environ[PLAN_FILE]).write_text(to_json(execution_graph), encoding="utf-8")
            print(to_text(execution_graph), end="")
            print(guarantees_text(graph, checkpointing), end="", flush=True)
            raise SystemExit(0)
        from flintstream.jobmaster.progress import starting_spark

        with starting_spark(settings.job_name, settings.show_progress and running_spark() is None):
            # Imported here because loading PySpark is slow.
            from flintstream.jobmaster.submission import submit

            return submit(graph, settings)

    def close(self) -> None:
        """Discards the recorded operators, and the records of cached streams. Running jobs continue, and the Spark session
        stays for other environments.
        """
        self._transformations.clear()
        for cache in self._caches:
            cache.invalidate()

    def _is_batch(self, graph: StreamGraph) -> bool:
        mode = self._runtime_mode()
        if mode is RuntimeExecutionMode.BATCH and not graph.is_bounded:
            names = ", ".join(f"'{node.name}'" for node in graph.sources if not node.bounded)
            raise InvalidProgramException(
                f"The runtime mode is BATCH, which requires bounded sources; these are unbounded: {names}. "
                "Set execution.runtime-mode to STREAMING or AUTOMATIC."
            )
        batch_mode = mode is not RuntimeExecutionMode.STREAMING and graph.is_bounded
        iteration = next((node.name for node in graph.nodes.values() if node.kind == "iteration head"), None)
        if batch_mode and iteration is not None:
            raise InvalidProgramException(
                f"Iterations are not supported in BATCH mode, which the runtime mode {mode.name} means for bounded sources: "
                f"'{iteration}'. Set execution.runtime-mode to STREAMING, in which the job also ends by itself."
            )
        return batch_mode

    def _job_settings(self, job_name: str, batch_mode: bool) -> JobSettings:
        from flintstream.jobmaster.settings import JobSettings

        configured = self._configuration
        return JobSettings(
            job_name=job_name,
            configuration=configured.to_dict(),
            batch_mode=batch_mode,
            parameters=self._execution_config.get_global_job_parameters(),
            python_files=[*_listed(configured, "python.files"), *self._python_files],
            python_requirements=self._python_requirements or _configured_requirements(configured),
            python_archives=[
                *(_with_target(entry) for entry in _listed(configured, "python.archives")),
                *self._python_archives,
            ],
            python_executable=self._python_executable or configured.get_string("python.executable", None),
            cached_files=dict(self._cached_files),
            executable_files=frozenset(self._executable_files),
        )


def _listed(configuration: Configuration, key: str) -> list[str]:
    text = configuration.get_string(key, None) or ""
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def _with_target(entry: str) -> tuple[str, str | None]:
    """Formats `path#target` as Flink does."""
    path, _, target = entry.partition("#")
    return path, target or None


def _configured_requirements(configuration: Configuration) -> tuple[str, str | None] | None:
    text = configuration.get_string("python.requirements", None)
    return _with_target(text) if text else None
