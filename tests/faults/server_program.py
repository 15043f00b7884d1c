"""A job for the job server, `server_program.py OUT COUNT`: counts numbers by key, and writes each count once.

It ends when it is told to, by a file OUT.end: a slow machine can hurt it in time, and a fast one need not wait.
"""

from __future__ import annotations

import os
import sys
import time

from flintstream.common import Encoder, Types
from flintstream.datastream import SourceFunction, StreamExecutionEnvironment
from flintstream.datastream.connectors.file_system import FileSink
from flintstream.datastream.functions import ListCheckpointed

KEYS = 7


class Numbers(SourceFunction, ListCheckpointed):
    """Emits the numbers below `count`, a hundred a second; then nothing until the file is there."""

    def __init__(self, count: int, end: str) -> None:
        super().__init__()
        self.count, self.end = count, end
        self.next = 0
        self.running = True

    def run(self, ctx):
        while self.running and not (self.next == self.count and os.path.exists(self.end)):
            if self.next < self.count:
                with ctx.get_checkpoint_lock():
                    ctx.collect(self.next)
                    self.next += 1
            time.sleep(0.01)

    def cancel(self):
        self.running = False

    def snapshot_state(self, checkpoint_id, timestamp):
        return [self.next]

    def restore_state(self, state):
        (self.next,) = state


def main():
    out, count = sys.argv[1], int(sys.argv[2])
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.enable_checkpointing(300)
    sink = FileSink.for_row_format(out, Encoder.simple_string_encoder()).build()
    (
        env.add_source(Numbers(count, f"{out}.end"), "numbers", Types.LONG())
        .map(lambda number: (number % KEYS, 1))
        .key_by(lambda pair: pair[0])
        .reduce(lambda one, other: (one[0], one[1] + other[1]))
        .map(lambda pair: f"{pair[0]} {pair[1]}", Types.STRING())
        .sink_to(sink)
    )
    env.execute("counts")


if __name__ == "__main__":
    main()
