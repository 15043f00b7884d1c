"""A source without an end, written as a SourceFunction: a thermometer that is read ten times a second.

The job has no end of its own: the program takes thirty results and cancels it.
"""

import math
import time
from itertools import islice

from flintstream.common import Types
from flintstream.datastream import SourceFunction, StreamExecutionEnvironment


class Thermometer(SourceFunction):
    """`run` has a thread of its own in the slot; `cancel` is called from another one."""

    def __init__(self, per_second):
        super().__init__()
        self.per_second = per_second
        self.running = True

    def run(self, ctx):
        number = 0
        while self.running:
            degrees = 20 + 5 * math.sin(number / 10)
            # The lock makes emitting a record and moving on one step, as a checkpoint sees it.
            with ctx.get_checkpoint_lock():
                ctx.collect_with_timestamp((number, round(degrees, 1)), time.time_ns() // 1_000_000)
                number += 1
            time.sleep(1 / self.per_second)

    def cancel(self):
        self.running = False


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    readings = env.add_source(Thermometer(10), "thermometer", Types.TUPLE([Types.INT(), Types.DOUBLE()]))
    warmest = readings.map(lambda reading: reading[1], Types.DOUBLE()).key_by(lambda degrees: "all").max()

    with warmest.execute_and_collect("thermometer") as results:
        for degrees in islice(results, 30):
            print("warmest so far:", degrees)
    # Leaving the block has cancelled the job. One started by env.execute_async() is cancelled by client.cancel().
    print("the job is", results.get_job_client().get_job_status().result().name)


if __name__ == "__main__":
    main()
