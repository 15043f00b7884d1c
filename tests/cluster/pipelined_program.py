"""Counts numbers by key, with checkpoints; prints the counts and where its slots live, as a line of JSON.

Arguments: a module of the user's, which is not needed, and a directory for checkpoints and files. In the middle the source
waits until the directory has a file `open`; when a checkpoint is complete, a file `begun` lists the processes of the slots.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from pathlib import Path

from flintstream.common import Configuration, Types
from flintstream.datastream import KeyedProcessFunction, SourceFunction, StreamExecutionEnvironment
from flintstream.datastream.functions import CheckpointedFunction
from flintstream.datastream.state import ListStateDescriptor, ValueStateDescriptor

LAST = 3000
MIDDLE = 2000


class Numbers(SourceFunction, CheckpointedFunction):
    """Emits numbers, slowly; continues from its checkpoint."""

    def __init__(self, gate: Path) -> None:
        self.gate = gate
        self.next, self.running = 0, True

    def initialize_state(self, context):
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("next", Types.INT()))
        self.next = max(self.state.get(), default=0)

    def snapshot_state(self, context):
        self.state.update([self.next])

    def run(self, ctx):
        while self.running and self.next < LAST:
            if self.next < MIDDLE or self.gate.exists():
                with ctx.get_checkpoint_lock():
                    for _ in range(50):
                        ctx.collect(self.next)
                        self.next += 1
            time.sleep(0.01)

    def cancel(self):
        self.running = False


class Count(KeyedProcessFunction):
    """Gives (key, how many of the key so far, the process, its directory)."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield ctx.get_current_key(), count, os.getpid(), os.getcwd()


def main():
    directory = Path(sys.argv[2])
    configuration = Configuration()
    configuration.set_string("flint.transport", "pipelined")
    configuration.set_string("restart-strategy.type", "fixed-delay")
    configuration.set_string("restart-strategy.fixed-delay.attempts", "5")
    configuration.set_string("restart-strategy.fixed-delay.delay", "10 ms")
    configuration.set_string("execution.checkpointing.dir", (directory / "checkpoints").as_uri())
    configuration.set_string("execution.checkpointing.interval", "200 ms")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    counted = env.add_source(Numbers(directory / "open")).key_by(lambda n: n % 10).process(Count())
    most, homes = Counter(), {}
    results = 0
    with counted.execute_and_collect("counts") as found:
        for key, count, slot, home in found:
            most[key] = max(most[key], count)
            homes[slot] = home
            results += 1
            if results == MIDDLE:
                (directory / "begun").write_text(json.dumps([*homes]))
    print(json.dumps({"results": results, "most": sorted(most.items()), "slots": [*homes], "homes": [*homes.values()]}))


if __name__ == "__main__":
    main()
