"""A driver whose Spark tries a failed task four times; its jobs have tasks that fail at their first attempt.

Prints a line of JSON for each job.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path

from pyspark import TaskContext

from flintstream.common import Configuration, WatermarkStrategy
from flintstream.datastream import MapFunction, StreamExecutionEnvironment
from flintstream.datastream.connectors.number_seq import NumberSequenceSource
from flintstream.spark import epoch
from flintstream.spark.exchange import LevelTask

RECORDS = 1000


class Note(MapFunction):
    def __init__(self, directory):
        self.directory = directory

    def open(self, runtime_context):
        self.file = (self.directory / f"seen-{os.getpid()}").open("a", buffering=1)

    def map(self, value):
        self.file.write(f"{value}\n")
        return value


def failing_task(directory, way, place, at_level):
    def fail():
        if way == "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError("this task fails at its first attempt")

    class FailingTask(LevelTask):
        def __call__(self, batches):
            context = TaskContext.get()
            concerned = self.level == at_level and context.partitionId() == 0
            if concerned:
                with (directory / "attempts").open("a") as file:
                    file.write(f"{context.attemptNumber()}\n")
            fails = concerned and context.attemptNumber() == 0
            if fails and place == "before its hello":
                fail()
            for batch in super().__call__(batches):
                if fails and place == "before its output":
                    fail()
                yield batch
            if fails and place == "behind its output":
                fail()

    return FailingTask


def run(case, directory, way, place, level):
    directory.mkdir()
    epoch.LevelTask = failing_task(directory, way, place, level)
    configuration = Configuration()
    configuration.set_string("spark.master", "local[2,4]")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    numbers = env.from_source(NumberSequenceSource(1, RECORDS), WatermarkStrategy.no_watermarks(), "numbers")
    noted = numbers.key_by(lambda n: n).map(Note(directory)).rebalance()
    noted.filter(lambda n: False).print()
    client = env.execute_async(case)
    error = client.get_job_execution_result().exception()
    seen = Counter(line for file in directory.glob("seen-*") for line in file.read_text().split())
    attempts = [int(line) for line in (directory / "attempts").read_text().split()]
    return {
        "case": case,
        "attempts": attempts[:2],
        "status": client.get_job_status().result().name,
        "error": str(error),
        "seen": len(seen),
        "most often seen": max(seen.values(), default=1),
    }


def main():
    base = Path(sys.argv[1])
    cases = [
        ("raises", "before its output", 0),
        ("raises", "behind its output", 1),
        ("is killed", "before its output", 1),
        ("is killed", "behind its output", 0),
        ("raises", "before its hello", 0),
        ("raises", "before its hello", 1),
    ]
    for number, (way, place, level) in enumerate(cases):
        print(json.dumps(run(f"{way} {place} {level}", base / str(number), way, place, level)), flush=True)


main()
