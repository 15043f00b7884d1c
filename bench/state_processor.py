"""state_processor: a savepoint with many keys made by Spark, and read into DataFrames that are counted."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.jobs import PARALLELISM
from bench.report import Result, Row
from bench.timing import MeasurementError
from flintstream.common import Types
from flintstream.datastream import RuntimeContext
from flintstream.datastream.state import ValueStateDescriptor
from flintstream.spark.session import get_or_create_session
from flintstream.state_processor import (
    KeyedStateBootstrapFunction,
    KeyedStateReaderFunction,
    OperatorTransformation,
    SavepointReader,
    SavepointWriter,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEYS = 5_000_000
LEAST_KEYS_PER_SECOND = 300_000
COUNT = ValueStateDescriptor("count", Types.LONG())


class MakeCount(KeyedStateBootstrapFunction[int, Any]):
    """A count for each key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(COUNT)

    def process_element(self, value: Any, ctx: KeyedStateBootstrapFunction.Context) -> None:
        self._count.update(value.id + 1)


class ReadCount(KeyedStateReaderFunction[int, Any]):
    """Key and count."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._count = runtime_context.get_state(COUNT)

    def read_key(self, key: int, ctx: KeyedStateReaderFunction.Context, out: Any) -> None:
        out.collect((key, self._count.value()))


def run(quick: bool) -> Result:
    """Writing once; then both ways of reading, in turn."""
    keys = KEYS // 10 if quick else KEYS
    spark = get_or_create_session({"spark.master": f"local[{PARALLELISM}]"})
    with tempfile.TemporaryDirectory(prefix="flint-bench-") as directory:
        path = str(Path(directory) / "savepoint")
        counts = OperatorTransformation.bootstrap_with(spark.range(keys)).key_by(lambda row: row.id)
        started = time.perf_counter()
        SavepointWriter.new_savepoint(spark, 128).with_operator("counts", counts.transform(MakeCount())).write(path)
        written = time.perf_counter() - started
        pair = Types.ROW_NAMED(["key", "count"], [Types.LONG(), Types.LONG()])
        by_function: list[float] = []
        by_descriptor: list[float] = []
        for _ in range(1 if quick else 3):
            savepoint = SavepointReader.read(spark, path)
            by_function.append(_counted(savepoint.read_keyed_state("counts", ReadCount(), out_type_info=pair), keys))
            by_descriptor.append(_counted(savepoint.read_keyed_state("counts", COUNT, Types.LONG()), keys))
    rows = [
        Row(f"{keys:,} keys written", keys / written, "keys/s"),
        Row("read by a function, and counted", keys / min(by_function), "keys/s"),
        Row("read by the descriptor, and counted", keys / min(by_descriptor), "keys/s"),
        Row(
            "a million keys read by a function",
            min(by_function) / keys * 1e6,
            "s",
            most=None if quick else round(1e6 / LEAST_KEYS_PER_SECOND, 2),
        ),
    ]
    details = {"written": written, "by function": by_function, "by descriptor": by_descriptor}
    return Result("state_processor", f"Keyed state as a DataFrame, {PARALLELISM} cores", rows, details)


def _counted(frame: DataFrame, keys: int) -> float:
    """The seconds in which all rows are read and counted."""
    started = time.perf_counter()
    found = frame.count()
    seconds = time.perf_counter() - started
    if found != keys:
        raise MeasurementError(f"{found} keys were read, not {keys}")
    return seconds
