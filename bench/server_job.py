"""The job of the benchmark `server`: an endless running count, whose results nobody wants."""

from __future__ import annotations

import sys

from bench.functions import key_of, to_pair
from bench.jobs import RunningCount, environment, numbers

_ENDLESS = 10**12


def main(name: str) -> None:
    """Runs until it is cancelled."""
    env = environment()
    env.set_parallelism(1)
    env.enable_checkpointing(5000)
    counts = numbers(env, _ENDLESS).map(to_pair).key_by(key_of).process(RunningCount())
    counts.filter(lambda count: False).print()
    env.execute(name)


if __name__ == "__main__":
    main(sys.argv[1])
