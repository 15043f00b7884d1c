"""Spark connectors: any DataFrame as a source, any writer as a sink."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flintstream.common.typeinfo import TypeInformation
from flintstream.common.types import Row
from flintstream.common.watermark_strategy import WatermarkStrategy
from flintstream.datastream.connectors.base import Sink, Source
from flintstream.runtime.operators.base import Operator
from flintstream.runtime.operators.sinks import SparkWriterOperator
from flintstream.runtime.operators.source import SourceHead, SparkSourceOperator

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["SparkDataFrameSource", "SparkSink"]


class SparkDataFrameSource(Source[Row]):
    """Reads the rows of a Spark DataFrame, as Rows with its column names.

    A batch DataFrame is bounded. A streaming one is read by its own StreamingQuery; `trigger` holds the arguments of
    Spark's `DataStreamWriter.trigger`, e.g. `{"availableNow": True}`.

        env.from_source(SparkDataFrameSource(spark.read.parquet("clicks")), WatermarkStrategy.no_watermarks(), "clicks")
    """

    def __init__(self, frame: DataFrame, trigger: dict[str, Any] | None = None) -> None:
        from pyspark.sql import DataFrame

        if not isinstance(frame, DataFrame):
            raise TypeError(f"SparkDataFrameSource needs a Spark DataFrame, got {frame!r}")
        if not frame.columns:
            raise ValueError("SparkDataFrameSource: the DataFrame has no columns")
        if trigger and not frame.isStreaming:
            raise ValueError(f"SparkDataFrameSource: trigger={trigger!r} is for streaming DataFrames")
        self.frame = frame
        self.trigger = trigger or {}
        self.bounded = not frame.isStreaming or bool({"availableNow", "once"} & self.trigger.keys())

    def create_operator(self, watermark_strategy: WatermarkStrategy | None) -> SourceHead:
        if watermark_strategy is not None and watermark_strategy.alignment is not None:
            warnings.warn(
                "with_watermark_alignment() is not supported for a Spark DataFrame, whose reading Spark controls",
                stacklevel=3,
            )
        return SparkSourceOperator(tuple(self.frame.columns), watermark_strategy, not self.frame.isStreaming)


class SparkSink(Sink):
    """Writes with any Spark writer: `write(frame, number)` is called on the driver.

        stream.sink_to(SparkSink(lambda frame, number: frame.write.mode("overwrite").parquet(f"out/part={number}")))

    With checkpoints no record is lost, and an idempotent `write` writes each record exactly once. It is called after
    each completed checkpoint that has records, with the checkpoint's number; after a failure it may be called again
    with the same number and the same records. With `by_checkpoint=False` it is called after each epoch, with the
    epoch's number: at least once. Without checkpoints it is, too, and a job that fails has written some epochs and not
    others.

    The columns are the fields of the stream's type (`Types.ROW_NAMED`, `Types.TUPLE`, ...). Without a type, names and
    types are inferred from the first record, and a record with other fields is refused.
    """

    def __init__(self, write: Callable[[Any, int], Any], by_checkpoint: bool = True) -> None:
        if not callable(write):
            raise TypeError(f"SparkSink needs a function of (DataFrame, number), got {write!r}")
        self.write = write
        self.by_checkpoint = by_checkpoint

    def create_operator(self, input_type: TypeInformation | None) -> Operator:
        return SparkWriterOperator(self.write, input_type, self.by_checkpoint)
