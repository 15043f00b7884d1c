"""A driver with a running job, to be ended from outside: `driver_program.py DIRECTORY WAY`.

The job's slots write into DIRECTORY; the driver prints their process ids when the job runs.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from tests.faults.helpers import ENOUGH_SECONDS, Gate, Tap, numbers, reached, seen, wait_until

from flintstream.datastream import StreamExecutionEnvironment


def main():
    directory, way = Path(sys.argv[1]), sys.argv[2]
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    if way == "between epochs":
        (directory / "tap-0").touch()
        env.add_source(Tap(directory)).key_by(lambda n: n).map(Gate(directory, None)).print()
    else:
        numbers(env, 1, 1000).key_by(lambda n: n).map(Gate(directory, 500)).print()
    if way == "in execute":
        threading.Thread(target=announce, args=(directory, None), daemon=True).start()
        env.execute()
        return
    client = env.execute_async()
    announce(directory, client)
    if way != "end of program":
        client.get_job_execution_result().result()


def announce(directory, client):
    """Says that the job is where it should be."""
    if client is not None and (directory / "tap-0").exists():
        wait_until(lambda: seen(directory) == [0])
    else:
        reached(directory, 2 * ENOUGH_SECONDS)  # Spark may have to start first.
    print("running", flush=True)


if __name__ == "__main__":
    main()
