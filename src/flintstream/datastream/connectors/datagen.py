"""DataGeneratorSource: generates records from their index, at a limited rate."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from flintstream.common.arguments import positive
from flintstream.common.type_variables import T_co
from flintstream.common.typeinfo import TypeInformation
from flintstream.datastream.basic_functions import Mapper
from flintstream.datastream.connectors.base import SplitBasedSource
from flintstream.runtime.batch import Batch
from flintstream.runtime.captured import capture
from flintstream.runtime.detach import detached
from flintstream.runtime.faults import record_at_fault
from flintstream.runtime.operators.base import bound_method
from flintstream.runtime.source import SourceError, SourceReader, Split, SplitReader

if TYPE_CHECKING:
    from flintstream.runtime.context import RuntimeContext

__all__ = ["DataGeneratorSource", "RateLimiterStrategy"]

_BURST_SECONDS = 1.0
"""The maximum backlog that is caught up at once after a wait."""


@dataclass(frozen=True)
class RateLimiterStrategy:
    """Limits the rate of a source, over all its subtasks.

    Example::

        RateLimiterStrategy.per_second(1000)
    """

    records_per_second: float | None = None
    records_per_checkpoint: int | None = None

    @staticmethod
    def per_second(records_per_second: float) -> RateLimiterStrategy:
        """Limits the rate to a number of records per second, shared evenly by the subtasks."""
        if isinstance(records_per_second, bool) or not isinstance(records_per_second, (int, float)):
            raise TypeError(f"per_second: expected a number, got {records_per_second!r}")
        if not records_per_second > 0:
            raise ValueError(f"per_second: the rate must be greater than 0, got {records_per_second}")
        return RateLimiterStrategy(float(records_per_second))

    @staticmethod
    def no_op() -> RateLimiterStrategy:
        """Sets no limit."""
        return RateLimiterStrategy()

    @staticmethod
    def per_checkpoint(records_per_checkpoint: int) -> RateLimiterStrategy:
        """Limits the number of records between two completed checkpoints, shared evenly by the subtasks: each has at least
        one, so it must be at least the parallelism. Without checkpoints nothing would follow the first of them, so the job
        fails.
        """
        return RateLimiterStrategy(
            records_per_checkpoint=positive("per_checkpoint: records_per_checkpoint", records_per_checkpoint)
        )


class DataGeneratorSource(SplitBasedSource[T_co]):
    """Records made by a function from their index: 0, 1, 2, and so on.

        rate = RateLimiterStrategy.per_second(100)
        source = DataGeneratorSource(lambda index: f"Number: {index}", 1000, rate, Types.STRING())
        env.from_source(source, WatermarkStrategy.no_watermarks(), "Generator")

    :param generator_function: creates a record from its index: a function, or an object with `map(index)`. It must be
    deterministic, so that the source can be replayed after a failure.
    :param count: the total number of records; None for an unbounded source. A bounded source assigns each subtask a
    contiguous range of indices, an unbounded one assigns subtask i of n the indices i, i + n, i + 2 n, and so on.
    :param rate_limiter_strategy: the rate limit; none by default.
    :param type_info: the type of the records.
    """

    def __init__(
        self,
        generator_function: Mapper[int, T_co],
        count: int | None,
        rate_limiter_strategy: RateLimiterStrategy | None = None,
        type_info: TypeInformation | None = None,
    ) -> None:
        bound_method(generator_function, "map")  # raises if it is not callable
        if count is not None:
            positive("DataGeneratorSource: count", count, least=0)
        if rate_limiter_strategy is not None and not isinstance(rate_limiter_strategy, RateLimiterStrategy):
            raise TypeError(
                "DataGeneratorSource: rate_limiter_strategy must be a RateLimiterStrategy, got "
                f"{rate_limiter_strategy!r}"
            )
        if type_info is not None and not isinstance(type_info, TypeInformation):
            raise TypeError(f"DataGeneratorSource: type_info must be a type, such as Types.INT(), not {type_info!r}")
        self._function = capture(generator_function)
        self._count = count
        self._limits = rate_limiter_strategy or RateLimiterStrategy.no_op()
        self._type = type_info
        self.bounded = count is not None

    @property
    def produced_type(self) -> TypeInformation | None:
        return self._type

    def discover(self, parallelism: int, known: frozenset[str]) -> Iterable[Split]:
        count = self._count
        if count is None:
            return [
                Split(f"every {parallelism} from {first}", _Indices(first, None, parallelism, parallelism))
                for first in range(parallelism)
            ]
        parts = min(parallelism, count)
        bounds = [count * part // parts for part in range(parts + 1)] if parts else []
        return [Split(f"{low}-{high - 1}", _Indices(low, high, 1, parts)) for low, high in pairwise(bounds)]

    def create_reader(self, split: Split, position: Any) -> SplitReader:
        indices: _Indices = split.content
        generate = bound_method(self._function, "map")
        pace = self._pace(indices.parts)
        return _GeneratorReader(generate, indices, indices.first if position is None else position, pace, self._type)

    def _pace(self, parts: int) -> _Pace | _Gate | None:
        limits = self._limits
        if limits.records_per_second is not None:
            return _Pace(limits.records_per_second / parts)
        return None if limits.records_per_checkpoint is None else _Gate(limits.records_per_checkpoint // parts)

    def create_source_reader(self, runtime_context: RuntimeContext) -> SourceReader:
        limit = self._limits.records_per_checkpoint
        if limit is not None:
            parallelism = runtime_context.get_number_of_parallel_subtasks()
            if limit < parallelism:
                raise SourceError(
                    f"per_checkpoint({limit}): must be at least the parallelism of the source, {parallelism}"
                )
            if not runtime_context.is_checkpointing_enabled():
                raise SourceError(f"per_checkpoint({limit}): the job takes no checkpoints; enable_checkpointing() does")
        return super().create_source_reader(runtime_context)


@dataclass(frozen=True)
class _Indices:
    first: int
    end: int | None
    step: int
    parts: int
    """The number of splits that share the rate."""


class _Pace:
    """Computes how many records are due: the n-th one n / rate seconds after the start."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._start: float | None = None
        self._given = 0

    def due(self) -> int:
        now = time.time()
        if self._start is None or now < self._start:
            self._start, self._given = now, 0
        late = now - (self._start + self._given / self._rate)
        if late > _BURST_SECONDS:
            self._start += late - _BURST_SECONDS
        return int((now - self._start) * self._rate + 1e-6) + 1 - self._given

    def give(self, count: int) -> None:
        self._given += count

    def next_due(self) -> float:
        return 0.0 if self._start is None else self._start + self._given / self._rate


class _Gate:
    """Lets a number of records pass, and then none until a checkpoint is complete."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._left = capacity

    def due(self) -> int:
        return self._left

    def give(self, count: int) -> None:
        self._left -= count

    def next_due(self) -> float | None:
        return 0.0 if self._left else None

    def checkpoint_complete(self) -> None:
        self._left = self._capacity


class _GeneratorReader(SplitReader):
    def __init__(
        self,
        generate: Callable[[int], Any],
        indices: _Indices,
        position: int,
        pace: _Pace | _Gate | None,
        type_info: TypeInformation | None,
    ) -> None:
        self._generate = generate
        self._indices = indices
        self._position = position
        self._pace = pace
        self._type = type_info
        self.finished = indices.end is not None and position >= indices.end

    @property
    def position(self) -> int:
        return self._position

    def read(self, limit: int) -> Batch:
        if self._pace is not None:
            limit = min(limit, self._pace.due())
        if limit <= 0:
            return Batch([])
        stop = self._position + limit * self._indices.step
        if self._indices.end is not None:
            stop = min(stop, self._indices.end)
        indices = range(self._position, stop, self._indices.step)
        values = self._generated(indices)
        self._position = stop
        self.finished = stop == self._indices.end
        if self._pace is not None:
            self._pace.give(len(values))
        return Batch(values)

    def next_due(self) -> float | None:
        return 0.0 if self._pace is None or self.finished else self._pace.next_due()

    def notify_checkpoint_complete(self) -> None:
        if isinstance(self._pace, _Gate):
            self._pace.checkpoint_complete()

    def _generated(self, indices: range) -> list[Any]:
        generate, remaining = self._generate, iter(indices)
        try:
            values = [detached(generate(index)) for index in remaining]
        except Exception as error:
            index = record_at_fault(indices, remaining)  # type: ignore[arg-type]
            raise SourceError(f"the generator function failed for index {index}: {error!r}") from error
        if self._type is None:
            return values
        try:
            return self._type.coerce(values)
        except TypeError as error:
            span = f"{indices[0]} to {indices[-1]}"
            raise SourceError(f"the generator function, for an index from {span}: {error}") from error
