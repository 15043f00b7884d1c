"""Basic definitions used by all layers: types, rows, time, configuration, watermark strategies, serialisation schemas."""

from .accumulators import Accumulator
from .completable_future import CompletableFuture
from .config_options import ConfigOption, ConfigOptions
from .configuration import Configuration, load_configuration
from .execution_config import ExecutionConfig, ExecutionMode
from .input_dependency_constraint import InputDependencyConstraint
from .job_client import JobClient
from .job_execution_result import JobExecutionResult
from .job_id import JobID
from .job_status import JobStatus
from .restart_strategy import RestartStrategies, RestartStrategyConfiguration
from .serialization import (
    ByteArraySchema,
    DeserializationSchema,
    Encoder,
    SerializationSchema,
    SimpleStringSchema,
)
from .serializer import TypeSerializer
from .time import Duration, Instant, Time
from .typeinfo import TypeInformation, Types
from .types import Row, RowKind
from .watermark_strategy import (
    AssignerWithPeriodicWatermarksWrapper,
    TimestampAssigner,
    WatermarkGenerator,
    WatermarkStrategy,
)

__all__ = [
    "Accumulator",
    "AssignerWithPeriodicWatermarksWrapper",
    "ByteArraySchema",
    "CompletableFuture",
    "ConfigOption",
    "ConfigOptions",
    "Configuration",
    "DeserializationSchema",
    "Duration",
    "Encoder",
    "ExecutionConfig",
    "ExecutionMode",
    "InputDependencyConstraint",
    "Instant",
    "JobClient",
    "JobExecutionResult",
    "JobID",
    "JobStatus",
    "RestartStrategies",
    "RestartStrategyConfiguration",
    "Row",
    "RowKind",
    "SerializationSchema",
    "SimpleStringSchema",
    "Time",
    "TimestampAssigner",
    "TypeInformation",
    "TypeSerializer",
    "Types",
    "WatermarkGenerator",
    "WatermarkStrategy",
    "load_configuration",
]
