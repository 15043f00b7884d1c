"""A driver that is interrupted while Spark starts, and tries again: `start_program.py`."""

from __future__ import annotations

import os

from tests.faults.helpers import descendants, numbers

from flintstream.datastream import StreamExecutionEnvironment


def main():
    print("starting", flush=True)
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    try:
        list(numbers(env, 1, 10).execute_and_collect())
    except KeyboardInterrupt:
        left = [process.name() for process in descendants(os.getpid())]
        print("interrupted, left:", left, flush=True)
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(1)
        print("again:", len(list(numbers(env, 1, 10).execute_and_collect())), flush=True)


if __name__ == "__main__":
    main()
