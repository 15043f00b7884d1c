"""The stream graph: the operators of a program and the edges between them, before chaining.

`StreamGraphGenerator` creates it from transformations: virtual ones become properties of edges, and all defaults
(parallelism, partitioners, slot sharing groups, operator ids) are resolved here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from flintstream.common.keys import default_max_parallelism
from flintstream.graph.operator_ids import assign_operator_ids
from flintstream.graph.partitioners import ForwardPartitioner, RebalancePartitioner, StreamPartitioner
from flintstream.graph.transformations import (
    CacheTransformation,
    ChainingStrategy,
    FeedbackTransformation,
    InvalidProgramException,
    PartitionTransformation,
    PhysicalTransformation,
    SideOutputTransformation,
    SinkTransformation,
    SourceTransformation,
    Transformation,
    TwoInputTransformation,
    UnionTransformation,
)

if TYPE_CHECKING:
    from flintstream.common.typeinfo import TypeInformation

DEFAULT_SLOT_SHARING_GROUP = "default"
DEFAULT_JOB_NAME = "Flintstream Streaming Job"

NodeKind = Literal["source", "operator", "sink", "iteration head", "iteration tail"]


@dataclass(frozen=True)
class StreamGraphConfig:
    """The environment's settings for all operators; each field names its Flink option."""

    job_name: str = DEFAULT_JOB_NAME
    parallelism: int = 1
    """`parallelism.default`, for operators that set none."""
    max_parallelism: int | None = None
    """`pipeline.max-parallelism`, for operators that set none; if neither is set it is derived from the parallelism."""
    chaining: bool = True
    """`pipeline.operator-chaining.enabled`."""
    chain_different_max_parallelism: bool = True
    """`pipeline.operator-chaining.chain-operators-with-different-max-parallelism`."""
    auto_generate_uids: bool = True
    """`pipeline.auto-generate-uids`; if false, each operator must have a uid."""
    fills_caches: bool = False
    """Whether cached streams are written into their caches, as in batch mode; caches that are filled are always read."""


@dataclass(frozen=True)
class StreamEdge:
    """An edge from the output of one operator to an input of another.

    `side_tag` is None for the main output; `index` is the edge's index in `StreamGraph.edges`.
    """

    source_id: int
    target_id: int
    input_index: int
    partitioner: StreamPartitioner = field(compare=False)
    side_tag: str | None = None
    index: int = 0
    partition_id: int | None = field(default=None, compare=False)
    """The operator name with which plans show the keys of a keyed stream."""
    values_id: int | None = field(default=None, compare=False)
    """The operator name with which plans show where keys are stripped again: in a union, before a sink."""


@dataclass
class StreamNode:
    """An operator with all its settings resolved."""

    id: int
    kind: NodeKind
    name: str
    operator: Any
    parallelism: int
    max_parallelism: int
    slot_sharing_group: str
    chaining: ChainingStrategy
    source: Any = None
    bounded: bool = False
    uid: str | None = None
    uid_hash: str | None = None
    description: str = ""
    output_type: TypeInformation | None = None
    buffer_timeout: int | None = None
    """The milliseconds that what it writes may wait in a block that is not full; None as the job's settings say."""
    two_inputs: bool = False
    max_parallelism_set: bool = False
    """Whether the program sets it; otherwise a restored job adopts the stored one."""
    operator_id: str = ""
    """32 hexadecimal digits, by which the operator's state is stored."""
    side_output_types: dict[str, TypeInformation | None] = field(default_factory=dict)
    """The declared type of each side output that is consumed."""
    iteration: int | None = None
    """Of a head or a tail: the iteration that both belong to."""
    max_wait_seconds: float = 0.0
    """Of a head: how long it waits for feedback; 0 for as long as there may be some."""
    in_edges: list[StreamEdge] = field(default_factory=list)
    out_edges: list[StreamEdge] = field(default_factory=list)


@dataclass
class StreamGraph:
    """Operators by id, in topological order, and the edges between them."""

    config: StreamGraphConfig
    nodes: dict[int, StreamNode] = field(default_factory=dict)
    edges: list[StreamEdge] = field(default_factory=list)

    @property
    def job_name(self) -> str:
        return self.config.job_name

    @property
    def is_bounded(self) -> bool:
        """Returns whether all sources, and so the job, are bounded."""
        return all(node.bounded for node in self.sources)

    @property
    def sources(self) -> list[StreamNode]:
        return [node for node in self.nodes.values() if node.kind == "source"]

    @property
    def sinks(self) -> list[StreamNode]:
        return [node for node in self.nodes.values() if node.kind == "sink"]


@dataclass(frozen=True)
class _Output:
    """The resolved output of a transformation: an operator's output, perhaps with a partitioner."""

    node_id: int
    partition: PartitionTransformation | None = None
    side_tag: str | None = None
    values_id: int | None = None

    @property
    def partitioner(self) -> StreamPartitioner | None:
        return None if self.partition is None else self.partition.partitioner


class StreamGraphGenerator:
    """Creates a `StreamGraph` from recorded transformations and all their inputs."""

    def __init__(self, transformations: Iterable[Transformation], config: StreamGraphConfig | None = None) -> None:
        self._transformations = list(transformations)
        self._config = config or StreamGraphConfig()
        self._graph = StreamGraph(self._config)
        self._outputs: dict[int, list[_Output]] = {}
        self._cached: dict[int, Transformation] = {}
        """The cached streams that are read from their caches, by id: their sources."""

    def generate(self) -> StreamGraph:
        """Returns the graph; raises an `InvalidProgramException` if the program is invalid."""
        if not self._transformations:
            raise InvalidProgramException(
                "The program defines no operators, so there is nothing to execute. "
                "Add at least one transformation or sink before calling execute()."
            )
        self._graph = StreamGraph(self._config)
        reachable = self._reachable()
        for transformation in reachable:
            self._outputs[transformation.id] = self._translate(transformation)
        for transformation in reachable:
            if isinstance(transformation, FeedbackTransformation):
                self._add_tails(transformation)
        assign_operator_ids(self._graph)
        self._check_queryable_names()
        return self._graph

    def _reachable(self) -> list[Transformation]:
        """Returns the transformations and all their inputs, each once, inputs first."""
        found: dict[int, Transformation] = {}
        pending = list(self._transformations)
        while pending:
            transformation = pending.pop()
            if transformation.id in found:
                continue
            found[transformation.id] = transformation
            if isinstance(transformation, CacheTransformation):
                if transformation.cache.available():
                    self._cached[transformation.id] = transformation.reader()
                elif self._config.fills_caches:
                    pending.append(transformation.writer())
            if isinstance(transformation, FeedbackTransformation):
                pending.extend(transformation.feedback)
            pending.extend(self._inputs(transformation))
        return [found[id] for id in sorted(found)]

    def _inputs(self, transformation: Transformation) -> tuple[Transformation, ...]:
        cached = self._cached.get(transformation.id)
        return transformation.inputs if cached is None else (cached,)

    def _check_queryable_names(self) -> None:
        """Refuses two operators with queryable states of one name, as far as the graph knows them."""
        known: dict[str, StreamNode] = {}
        for node in self._graph.nodes.values():
            name = getattr(node.operator, "queryable_name", None)
            if name is None:
                continue
            if name in known:
                raise InvalidProgramException(
                    f"Operators '{known[name].name}' and '{node.name}' both have a queryable state {name!r}: "
                    "give each a name of its own."
                )
            known[name] = node

    def _translate(self, transformation: Transformation) -> list[_Output]:
        if isinstance(transformation, UnionTransformation):
            united = zip(transformation.inputs, transformation.values_ids, strict=True)
            return [replace(o, values_id=o.values_id or id) for input, id in united for o in self._outputs[input.id]]
        inputs = [output for input in self._inputs(transformation) for output in self._outputs[input.id]]
        if isinstance(transformation, PhysicalTransformation):
            self._add_node(transformation)
            return [_Output(transformation.id)]
        if isinstance(transformation, PartitionTransformation):
            return [_Output(o.node_id, transformation, o.side_tag) for o in inputs]
        if isinstance(transformation, CacheTransformation):
            return inputs
        if isinstance(transformation, SideOutputTransformation):
            for output in inputs:
                self._declare_side_output(self._graph.nodes[output.node_id], transformation)
            return [replace(output, side_tag=transformation.tag_id) for output in inputs]
        if isinstance(transformation, FeedbackTransformation):
            self._add_head(transformation, inputs)
            return [_Output(transformation.id), *(inputs if transformation.with_input else ())]
        raise TypeError(f"Unknown kind of transformation: {transformation!r}")

    def _declare_side_output(self, node: StreamNode, side: SideOutputTransformation) -> None:
        known = node.side_output_types.get(side.tag_id)
        if known is not None and side.output_type is not None and known != side.output_type:
            raise InvalidProgramException(
                f"Side output '{side.tag_id}' of operator '{node.name}' is read with two different types: "
                f"{known} and {side.output_type}. Use one OutputTag for it."
            )
        node.side_output_types[side.tag_id] = side.output_type or known

    def _add_node(self, t: PhysicalTransformation) -> None:
        input_outputs = [self._outputs[input.id] for input in t.inputs]
        if isinstance(t, SinkTransformation):
            input_outputs = [[replace(o, values_id=o.values_id or t.values_id) for o in input_outputs[0]]]
        predecessors = [self._graph.nodes[output.node_id] for outputs in input_outputs for output in outputs]
        name = _display_name(t)
        parallelism = t.parallelism or self._config.parallelism
        node = StreamNode(
            id=t.id,
            kind=_kind(t),
            name=name,
            operator=t.operator,
            parallelism=parallelism,
            max_parallelism=self._max_parallelism(t, name, parallelism),
            slot_sharing_group=t.slot_sharing_group or _inherited_group(predecessors),
            chaining=t.chaining,
            source=t.source if isinstance(t, SourceTransformation) else None,
            bounded=t.bounded if isinstance(t, SourceTransformation) else False,
            uid=t.uid,
            uid_hash=t.uid_hash,
            description=t.description or name,
            output_type=t.output_type,
            buffer_timeout=t.buffer_timeout,
            two_inputs=isinstance(t, TwoInputTransformation),
            max_parallelism_set=bool(t.max_parallelism or self._config.max_parallelism),
        )
        self._graph.nodes[t.id] = node
        for input_index, outputs in enumerate(input_outputs):
            for output in outputs:
                self._add_edge(output, node, input_index)

    # --- iterations ---

    def _add_head(self, t: FeedbackTransformation, inputs: list[_Output]) -> None:
        """Adds the head of an iteration, with the parallelism of its input; its operator follows with the tails."""
        sources = [self._graph.nodes[output.node_id] for output in inputs]
        parallelism = t.parallelism or sources[0].parallelism
        group = t.slot_sharing_group or _inherited_group(sources)
        self._graph.nodes[t.id] = self._iteration_node(t, "iteration head", t.id, parallelism, group)

    def _add_tails(self, t: FeedbackTransformation) -> None:
        """Adds a tail for each stream that is fed back, in the slots of the head."""
        head = self._graph.nodes[t.id]
        outputs = [output for feedback in t.feedback for output in self._outputs[feedback.id]]
        if not outputs:
            raise InvalidProgramException(
                f"Iteration '{head.name}' has no feedback. Call close_with() on the stream that iterate() or "
                "with_feedback_type() has returned."
            )
        sources = [self._graph.nodes[output.node_id] for output in outputs]
        head.slot_sharing_group = t.slot_sharing_group or _inherited_group(sources)
        partitioners = []
        for number, (output, source) in enumerate(zip(outputs, sources)):
            if source.parallelism != head.parallelism:
                raise InvalidProgramException(
                    f"The parallelism of a feedback stream must be that of its iteration: '{source.name}' has parallelism "
                    f"{source.parallelism}, '{head.name}' has {head.parallelism}, as the input of iterate() unless set. "
                    "Call set_parallelism() on the feedback's operator, or on the stream that iterate() has returned."
                )
            tail = self._iteration_node(
                t, "iteration tail", t.tail_id(number), head.parallelism, head.slot_sharing_group, number
            )
            self._graph.nodes[tail.id] = tail
            self._add_edge(output, tail, 0)
            partitioners.append(tail.in_edges[0].partitioner)
        head.operator = t.head(t.id, partitioners)

    def _iteration_node(
        self, t: FeedbackTransformation, kind: NodeKind, id: int, parallelism: int, group: str, number: int = 0
    ) -> StreamNode:
        is_head = kind == "iteration head"
        given = t.uid or t.uid_hash
        name = f"Iteration{'Source' if is_head else 'Sink'}-{t.id if t.name == 'Feedback' else t.name}"
        return StreamNode(
            id=id,
            kind=kind,
            name=name,
            operator=None if is_head else t.tail(t.id, number),
            parallelism=parallelism,
            max_parallelism=self._max_parallelism(t, name, parallelism),
            slot_sharing_group=group,
            chaining=ChainingStrategy.NEVER if is_head else ChainingStrategy.ALWAYS,
            uid=t.uid if is_head or given is None else f"{given}-feedback-{number}",
            uid_hash=t.uid_hash if is_head else None,
            description=t.description or name,
            output_type=t.output_type if is_head else None,
            max_parallelism_set=bool(t.max_parallelism or self._config.max_parallelism),
            max_wait_seconds=t.max_wait_seconds,
            iteration=t.id,
        )

    def _max_parallelism(self, t: Transformation, name: str, parallelism: int) -> int:
        max_parallelism = t.max_parallelism or self._config.max_parallelism or default_max_parallelism(parallelism)
        if parallelism > max_parallelism:
            raise InvalidProgramException(
                f"The parallelism {parallelism} of operator '{name}' is greater than its max parallelism "
                f"{max_parallelism}. Lower the parallelism, or raise set_max_parallelism() on the operator "
                f"or on the environment."
            )
        return max_parallelism

    def _add_edge(self, output: _Output, target: StreamNode, input_index: int) -> None:
        source = self._graph.nodes[output.node_id]
        partitioner = output.partitioner
        if partitioner is None:
            same = source.parallelism == target.parallelism
            partitioner = ForwardPartitioner() if same else RebalancePartitioner()
        elif isinstance(partitioner, ForwardPartitioner) and source.parallelism != target.parallelism:
            raise InvalidProgramException(
                f"forward() cannot change the parallelism: operator '{source.name}' has parallelism "
                f"{source.parallelism}, its successor '{target.name}' has parallelism {target.parallelism}. "
                f"Use rebalance(), rescale() or another partitioning between them, or make them equal."
            )
        edge = StreamEdge(
            source.id,
            target.id,
            input_index,
            partitioner,
            output.side_tag,
            len(self._graph.edges),
            None if output.partition is None else output.partition.id,
            output.values_id,
        )
        self._graph.edges.append(edge)
        source.out_edges.append(edge)
        target.in_edges.append(edge)


def _kind(t: PhysicalTransformation) -> NodeKind:
    if isinstance(t, SourceTransformation):
        return "source"
    return "sink" if isinstance(t, SinkTransformation) else "operator"


def _display_name(t: PhysicalTransformation) -> str:
    prefix = {"source": "Source: ", "sink": "Sink: "}.get(_kind(t), "")
    return t.name if t.name.startswith(prefix) else prefix + t.name


def _inherited_group(predecessors: list[StreamNode]) -> str:
    groups = {node.slot_sharing_group for node in predecessors}
    return groups.pop() if len(groups) == 1 else DEFAULT_SLOT_SHARING_GROUP
