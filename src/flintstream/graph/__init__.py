"""The transformations, the stream graph, the job graph and the execution graph of a program, and their printers."""

from flintstream.graph.execution_graph import ExecutionGraph, Subtask
from flintstream.graph.job_graph import JobEdge, JobGraph, JobVertex, build_job_graph
from flintstream.graph.operator_ids import operator_id_of_uid
from flintstream.graph.partitioners import (
    BroadcastPartitioner,
    CustomPartitioner,
    ForwardPartitioner,
    GlobalPartitioner,
    KeyGroupPartitioner,
    RebalancePartitioner,
    RescalePartitioner,
    ShufflePartitioner,
    StreamPartitioner,
)
from flintstream.graph.printers import to_dot, to_json, to_text
from flintstream.graph.stream_graph import (
    StreamEdge,
    StreamGraph,
    StreamGraphConfig,
    StreamGraphGenerator,
    StreamNode,
)
from flintstream.graph.transformations import (
    ChainingStrategy,
    FeedbackTransformation,
    InvalidProgramException,
    OneInputTransformation,
    PartitionTransformation,
    PhysicalTransformation,
    SideOutputTransformation,
    SinkTransformation,
    SourceTransformation,
    Transformation,
    TwoInputTransformation,
    UnionTransformation,
)

__all__ = [
    "BroadcastPartitioner",
    "ChainingStrategy",
    "CustomPartitioner",
    "ExecutionGraph",
    "FeedbackTransformation",
    "ForwardPartitioner",
    "GlobalPartitioner",
    "InvalidProgramException",
    "JobEdge",
    "JobGraph",
    "JobVertex",
    "KeyGroupPartitioner",
    "OneInputTransformation",
    "PartitionTransformation",
    "PhysicalTransformation",
    "RebalancePartitioner",
    "RescalePartitioner",
    "ShufflePartitioner",
    "SideOutputTransformation",
    "SinkTransformation",
    "SourceTransformation",
    "StreamEdge",
    "StreamGraph",
    "StreamGraphConfig",
    "StreamGraphGenerator",
    "StreamNode",
    "StreamPartitioner",
    "Subtask",
    "Transformation",
    "TwoInputTransformation",
    "UnionTransformation",
    "build_job_graph",
    "operator_id_of_uid",
    "to_dot",
    "to_json",
    "to_text",
]
