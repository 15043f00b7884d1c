"""The DataStream API.

    from flintstream.common import Types
    from flintstream.datastream import StreamExecutionEnvironment

    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection(["to", "be", "or", "not", "to", "be"], Types.STRING()) \\
        .map(lambda word: (word, 1), Types.TUPLE([Types.STRING(), Types.INT()])) \\
        .key_by(lambda pair: pair[0]) \\
        .sum(1) \\
        .print()
    env.execute("word count")
"""

from flintstream.datastream.async_data_stream import AsyncDataStream
from flintstream.datastream.checkpoint_config import CheckpointConfig
from flintstream.datastream.checkpoint_storage import (
    CheckpointStorage,
    CustomCheckpointStorage,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)
from flintstream.datastream.checkpointing_mode import CheckpointingMode
from flintstream.datastream.data_stream import (
    AllWindowedStream,
    BroadcastConnectedStream,
    BroadcastStream,
    CachedDataStream,
    CloseableIterator,
    CoGroupedStreams,
    ConnectedIterativeStreams,
    ConnectedStreams,
    DataStream,
    DataStreamSink,
    IntervalJoin,
    IntervalJoined,
    IterativeStream,
    JoinedStreams,
    KeyedStream,
    WindowedStream,
)
from flintstream.datastream.execution_mode import RuntimeExecutionMode
from flintstream.datastream.externalized_checkpoint_retention import ExternalizedCheckpointRetention
from flintstream.datastream.functions import (
    AggregateFunction,
    AsyncFunction,
    AsyncRetryPredicate,
    AsyncRetryStrategy,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoGroupFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatJoinFunction,
    FlatMapFunction,
    GenericWriteAheadSink,
    JoinFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ParallelSourceFunction,
    Partitioner,
    ProcessFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
    ReduceFunction,
    RichParallelSourceFunction,
    RichSinkFunction,
    RichSourceFunction,
    RuntimeContext,
    SinkFunction,
    SourceFunction,
    TwoPhaseCommitSinkFunction,
    WindowFunction,
)
from flintstream.datastream.output_tag import OutputTag, SideOutput
from flintstream.datastream.queryable_stream import QueryableStateStream
from flintstream.datastream.slot_sharing_group import MemorySize, SlotSharingGroup
from flintstream.datastream.state_backend import (
    CustomStateBackend,
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    PredefinedOptions,
    StateBackend,
)
from flintstream.datastream.stream_execution_environment import StreamExecutionEnvironment
from flintstream.datastream.time_domain import TimeCharacteristic, TimeDomain
from flintstream.datastream.timerservice import TimerService
from flintstream.datastream.window import (
    CountWindow,
    GlobalWindow,
    MergingWindowAssigner,
    TimeWindow,
    Trigger,
    TriggerResult,
    Window,
    WindowAssigner,
)

__all__ = [
    "AggregateFunction",
    "AllWindowedStream",
    "AsyncDataStream",
    "AsyncFunction",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "BroadcastConnectedStream",
    "BroadcastProcessFunction",
    "BroadcastStream",
    "CachedDataStream",
    "CheckpointConfig",
    "CheckpointStorage",
    "CheckpointingMode",
    "CloseableIterator",
    "CoFlatMapFunction",
    "CoGroupFunction",
    "CoGroupedStreams",
    "CoMapFunction",
    "CoProcessFunction",
    "ConnectedIterativeStreams",
    "ConnectedStreams",
    "CountWindow",
    "CustomCheckpointStorage",
    "CustomStateBackend",
    "DataStream",
    "DataStreamSink",
    "EmbeddedRocksDBStateBackend",
    "ExternalizedCheckpointRetention",
    "FileSystemCheckpointStorage",
    "FilterFunction",
    "FlatJoinFunction",
    "FlatMapFunction",
    "GenericWriteAheadSink",
    "GlobalWindow",
    "HashMapStateBackend",
    "IntervalJoin",
    "IntervalJoined",
    "IterativeStream",
    "JobManagerCheckpointStorage",
    "JoinFunction",
    "JoinedStreams",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStream",
    "MapFunction",
    "MemorySize",
    "MergingWindowAssigner",
    "OutputTag",
    "ParallelSourceFunction",
    "Partitioner",
    "PredefinedOptions",
    "ProcessFunction",
    "ProcessJoinFunction",
    "ProcessWindowFunction",
    "QueryableStateStream",
    "ReduceFunction",
    "RichParallelSourceFunction",
    "RichSinkFunction",
    "RichSourceFunction",
    "RuntimeContext",
    "RuntimeExecutionMode",
    "SideOutput",
    "SinkFunction",
    "SlotSharingGroup",
    "SourceFunction",
    "StateBackend",
    "StreamExecutionEnvironment",
    "TimeCharacteristic",
    "TimeDomain",
    "TimeWindow",
    "TimerService",
    "Trigger",
    "TriggerResult",
    "TwoPhaseCommitSinkFunction",
    "Window",
    "WindowAssigner",
    "WindowFunction",
    "WindowedStream",
]
