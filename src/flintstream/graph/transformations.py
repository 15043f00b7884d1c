"""Transformations: the lazy graph recorded by the API calls of a program.

Union, partitioning and side-output selection are *virtual*: they have no operator and become properties of the edges of
the stream graph.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from flintstream.graph.partitioners import StreamPartitioner

if TYPE_CHECKING:
    from flintstream.common.typeinfo import TypeInformation

UPPER_BOUND_MAX_PARALLELISM = 1 << 15
"""The maximum number of key groups of an operator, as in Flink."""

_ids = itertools.count(1)


class InvalidProgramException(ValueError):
    """The program is invalid; the message names the operators, the option and what to do."""


class ChainingStrategy(Enum):
    """Whether an operator may be chained to its neighbours."""

    ALWAYS = "ALWAYS"
    """Chain with predecessor and successors where possible."""
    NEVER = "NEVER"
    """Chain with neither predecessor nor successors (`disable_chaining`)."""
    HEAD = "HEAD"
    """Chain with successors only (`start_new_chain`)."""


class Transformation:
    """A step of the program. Settings that are None are inherited from the environment or from the inputs.

    Ids increase with creation and inputs are fixed at creation, so an input's id is always smaller: sorting by id is a
    topological order, and cycles are impossible. What is fed back to an iteration is not among its inputs.
    """

    def __init__(
        self, name: str, inputs: Sequence[Transformation] = (), output_type: TypeInformation | None = None
    ) -> None:
        self.id = next(_ids)
        self.name = name
        self.inputs: tuple[Transformation, ...] = tuple(inputs)
        self.output_type = output_type
        self.uid: str | None = None
        self.uid_hash: str | None = None
        self.description: str | None = None
        self.slot_sharing_group: str | None = None
        self.chaining = ChainingStrategy.ALWAYS
        self.buffer_timeout: int | None = None
        self._parallelism: int | None = None
        self._max_parallelism: int | None = None
        self._non_parallel = False

    @property
    def parallelism(self) -> int | None:
        """The operator's own parallelism; None for the environment's default."""
        return self._parallelism

    @parallelism.setter
    def parallelism(self, value: int | None) -> None:
        if value is not None and (not isinstance(value, int) or value < 1):
            raise InvalidProgramException(
                f"The parallelism of operator '{self.name}' must be an integer of at least 1, got {value!r}."
            )
        if self._non_parallel and value != 1:
            raise InvalidProgramException(
                f"The parallelism of operator '{self.name}' is fixed to 1 because it is not parallel, got {value!r}."
            )
        self._parallelism = value

    @property
    def max_parallelism(self) -> int | None:
        """The number of key groups, which is the upper bound of rescaling; None for the environment's default."""
        return self._max_parallelism

    @max_parallelism.setter
    def max_parallelism(self, value: int | None) -> None:
        if value is not None and (not isinstance(value, int) or not 1 <= value <= UPPER_BOUND_MAX_PARALLELISM):
            raise InvalidProgramException(
                f"The max parallelism of operator '{self.name}' must be an integer from 1 to "
                f"{UPPER_BOUND_MAX_PARALLELISM}, got {value!r}."
            )
        if self._non_parallel and value != 1:
            raise InvalidProgramException(
                f"The max parallelism of operator '{self.name}' is fixed to 1 because it is not parallel, "
                f"got {value!r}."
            )
        self._max_parallelism = value

    @property
    def non_parallel(self) -> bool:
        """Whether the parallelism is fixed at 1."""
        return self._non_parallel

    def force_non_parallel(self) -> None:
        """Fixes parallelism and max parallelism at 1; changing them later is an error."""
        self._parallelism = self._max_parallelism = 1
        self._non_parallel = True

    def __repr__(self) -> str:
        return f"{type(self).__name__}(id={self.id}, name={self.name!r}, parallelism={self._parallelism})"


class PhysicalTransformation(Transformation):
    """A transformation that becomes an operator. `operator` belongs to the runtime and is opaque here."""

    def __init__(
        self,
        name: str,
        operator: Any,
        inputs: Sequence[Transformation] = (),
        output_type: TypeInformation | None = None,
    ) -> None:
        super().__init__(name, inputs, output_type)
        self.operator = operator


class SourceTransformation(PhysicalTransformation):
    """A source of records; `source` is opaque here."""

    def __init__(
        self,
        name: str,
        operator: Any,
        source: Any,
        bounded: bool,
        output_type: TypeInformation | None = None,
    ) -> None:
        super().__init__(name, operator, (), output_type)
        self.source = source
        self.bounded = bounded


class OneInputTransformation(PhysicalTransformation):
    """An operator with one input."""

    def __init__(
        self, input: Transformation, name: str, operator: Any, output_type: TypeInformation | None = None
    ) -> None:
        super().__init__(name, operator, (input,), output_type)


class TwoInputTransformation(PhysicalTransformation):
    """An operator with two distinct inputs (`connect`)."""

    def __init__(
        self,
        input1: Transformation,
        input2: Transformation,
        name: str,
        operator: Any,
        output_type: TypeInformation | None = None,
    ) -> None:
        super().__init__(name, operator, (input1, input2), output_type)


class SinkTransformation(PhysicalTransformation):
    """A sink of records."""

    def __init__(self, input: Transformation, name: str, operator: Any) -> None:
        self.values_id = next(_ids)
        """The operator name with which plans show the records of a keyed input without their keys."""
        super().__init__(name, operator, (input,), None)


class PartitionTransformation(Transformation):
    """Virtual: the partitioning of the next operator's input. The last one before an operator applies."""

    def __init__(self, input: Transformation, partitioner: StreamPartitioner) -> None:
        super().__init__("Partition", (input,), input.output_type)
        self.partitioner = partitioner


class UnionTransformation(Transformation):
    """Virtual: several streams as one input."""

    def __init__(self, inputs: Sequence[Transformation]) -> None:
        if not inputs:
            raise InvalidProgramException("A union needs at least one stream, got none.")
        self.values_ids = [next(_ids) for _ in inputs]
        """The operator name with which plans show the records of each input without their keys."""
        super().__init__("Union", inputs, inputs[0].output_type)


class SideOutputTransformation(Transformation):
    """Virtual: the side output `tag_id` of the input instead of its main output."""

    def __init__(self, input: Transformation, tag_id: str, output_type: TypeInformation | None = None) -> None:
        super().__init__("SideOutput", (input,), output_type)
        self.tag_id = tag_id


class Cache(Protocol):
    """What the graph needs to know of a cache."""

    def available(self) -> bool:
        """Returns whether it has the records of the stream."""

    @property
    def parallelism(self) -> int | None:
        """Returns the number of subtasks that produced them."""


class CacheTransformation(Transformation):
    """Virtual: the input, whose records are written into a cache, or the cache if it has them."""

    def __init__(self, input: Transformation, cache: Cache, writing: Any, reading: Any) -> None:
        producer = input.inputs[0] if isinstance(input, SideOutputTransformation) else input
        if not isinstance(producer, PhysicalTransformation):
            raise InvalidProgramException(
                "cache() applies to the output of an operator or to a side output: call it before the union or the "
                "partitioning"
            )
        self.cache = cache
        self._producer = producer
        self._writer = OneInputTransformation(input, "CacheWrite", writing)
        self._reader = SourceTransformation("CacheRead", reading, cache, True, input.output_type)
        for each in (self._writer, self._reader):
            each.uid = f"cache {each.id}"  # Never restored by it; programs may require that all operators have one.
        super().__init__("Cache", (input,), input.output_type)

    def reader(self) -> Transformation:
        """Returns the source that reads the cache, with the parallelism of the operator that filled it."""
        self._reader.parallelism = self.cache.parallelism
        return self._reader

    def writer(self) -> Transformation:
        """Returns the operator that fills the cache, with the parallelism of the one whose output it is."""
        self._writer.parallelism = self._producer.parallelism
        return self._writer


class FeedbackTransformation(Transformation):
    """Virtual: the start of an iteration. Its records are those of its input, and what its feedback streams give back.

    The graph stays free of cycles: a head, which has no input, emits what was fed back, and each feedback stream leads to a
    tail. Operators are opaque here: `head` creates that of the head from the partitioners of the feedback streams, `tail`
    that of a tail from its number.
    """

    def __init__(
        self,
        input: Transformation,
        max_wait_seconds: float,
        head: Callable[[int, list[StreamPartitioner]], Any],
        tail: Callable[[int, int], Any],
        output_type: TypeInformation | None,
        with_input: bool = True,
    ) -> None:
        super().__init__("Feedback", (input,), output_type)
        self.max_wait_seconds = max_wait_seconds
        self.head = head
        self.tail = tail
        self.with_input = with_input
        """Whether the records of the input are part of this stream, instead of a second one (connected iterations)."""
        self.feedback: list[Transformation] = []
        """The streams that are fed back."""
        self._tail_ids: list[int] = []

    def add_feedback(self, feedback: Transformation) -> None:
        """Adds a stream that is fed back."""
        self.feedback.append(feedback)

    def tail_id(self, number: int) -> int:
        """Returns the id of a tail, always the same one."""
        while number >= len(self._tail_ids):
            self._tail_ids.append(next(_ids))
        return self._tail_ids[number]
