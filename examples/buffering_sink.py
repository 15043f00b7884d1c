"""A sink that writes in bulk: it gathers records and writes them when there are enough, and what is left at the end.

Gathered records are state that belongs to no key: it is the sink's own, one list in each subtask. As a
CheckpointedFunction the sink says what a checkpoint has to hold, and takes it over when a job is restored from one.

python examples/buffering_sink.py [FILE]
"""

import sys
import tempfile
from pathlib import Path

from flintstream.common import Types
from flintstream.datastream import SinkFunction, StreamExecutionEnvironment
from flintstream.datastream.functions import CheckpointedFunction
from flintstream.datastream.state import ListStateDescriptor

RECORDS = [("spark", 3), ("hadoop", 5), ("hive", 7), ("flume", 9), ("kafka", 11)]
RECORD = Types.TUPLE([Types.STRING(), Types.INT()])


class BufferingSink(SinkFunction, CheckpointedFunction):
    """Appends a line to a file for every `threshold` records."""

    def __init__(self, path, threshold):
        super().__init__()
        self.path = path
        self.threshold = threshold
        self.buffer = []

    def invoke(self, value, context):
        self.buffer.append(value)
        if len(self.buffer) >= self.threshold:
            self.write()

    def finish(self):
        """The input has ended. close() would be no place for this: it is called after a failure too."""
        if self.buffer:
            self.write()

    def write(self):
        with open(self.path, "a") as file:
            file.write(", ".join(f"{name}: {number}" for name, number in self.buffer) + "\n")
        self.buffer.clear()

    def initialize_state(self, context):
        """Called before the first record. After a restore the state holds what a checkpoint has kept."""
        self.kept = context.get_operator_state_store().get_list_state(ListStateDescriptor("buffer", RECORD))
        self.buffer.extend(self.kept)

    def snapshot_state(self, context):
        """Called by each checkpoint: what is gathered and not written must survive."""
        self.kept.update(self.buffer)


def main():
    with tempfile.TemporaryDirectory() as directory:
        path = Path(sys.argv[1] if len(sys.argv) > 1 else f"{directory}/records.txt").absolute()
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(1)
        env.from_collection(RECORDS, RECORD).add_sink(BufferingSink(str(path), threshold=2))
        env.execute("buffering sink")
        print(path.read_text(), end="")


if __name__ == "__main__":
    main()
