"""The state processor: savepoints and checkpoints read, changed and written as data.

savepoint = SavepointReader.read(spark, "/savepoints/savepoint-5f01de-2a34")
savepoint.read_keyed_state("counts", ValueStateDescriptor("count", Types.LONG()), Types.STRING()).show()
"""

from flintstream.state_processor.bootstrap import (
    KeyedStateTransformation,
    OneInputStateTransformation,
    OperatorTransformation,
    StateBootstrapTransformation,
    WindowedStateTransformation,
)
from flintstream.state_processor.functions import (
    BroadcastStateBootstrapFunction,
    Collector,
    KeyedStateBootstrapFunction,
    KeyedStateReaderFunction,
    StateBootstrapFunction,
    WindowReaderFunction,
)
from flintstream.state_processor.operator_identifier import OperatorIdentifier
from flintstream.state_processor.reader import SavepointReader, StreamSavepointReader
from flintstream.state_processor.savepoint import StateKindError, StateNotFoundError
from flintstream.state_processor.window_reader import WindowSavepointReader
from flintstream.state_processor.writer import SavepointWriter

__all__ = [
    "BroadcastStateBootstrapFunction",
    "Collector",
    "KeyedStateBootstrapFunction",
    "KeyedStateReaderFunction",
    "KeyedStateTransformation",
    "OneInputStateTransformation",
    "OperatorIdentifier",
    "OperatorTransformation",
    "SavepointReader",
    "SavepointWriter",
    "StateBootstrapFunction",
    "StateBootstrapTransformation",
    "StateKindError",
    "StateNotFoundError",
    "StreamSavepointReader",
    "WindowReaderFunction",
    "WindowSavepointReader",
    "WindowedStateTransformation",
]
