"""Caches a stream, waits until the executors are gone, and reads the stream again; prints what was computed and read.

Arguments: a module of the user's to ship, and a directory for what the slots see.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from flintstream.datastream import MapFunction, RuntimeExecutionMode, StreamExecutionEnvironment

LAST = 2000


class Seen(MapFunction):
    """Adds a line to a file for each record."""

    def __init__(self, directory: str, what: str):
        self.path = f"{directory}/{what}"

    def open(self, runtime_context):
        self.file = open(f"{self.path}-{os.getpid()}", "a")

    def map(self, value):
        self.file.write(f"{value}\n")
        return value

    def close(self):
        self.file.close()


def seen(directory: Path, what: str) -> list[int]:
    return sorted(int(line) for path in directory.glob(f"{what}-*") for line in path.read_text().split())


def main():
    directory = Path(sys.argv[2])
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    cached = env.from_sequence(1, LAST).map(Seen(str(directory), "computed")).cache()
    for number in range(3):
        cached.map(Seen(str(directory), f"read{number}"))
        env.execute()
        if number == 1:
            assert seen(directory, "computed") == [*range(1, LAST + 1)]
            (directory / "filled").touch()
            deadline = time.monotonic() + 120
            while not (directory / "killed").exists() and time.monotonic() < deadline:
                time.sleep(0.05)
    for number in range(2):
        assert seen(directory, f"read{number}") == [*range(1, LAST + 1)]
    # The last job may have read some before it failed, and was run again.
    assert {*seen(directory, "read2")} == {*range(1, LAST + 1)}
    print(json.dumps({"computed": len(seen(directory, "computed"))}))


if __name__ == "__main__":
    main()
