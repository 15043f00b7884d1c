"""Counts visits by visitor; prints the counts and where its slots live, as a line of JSON.

Arguments: a module of the user's to ship, and, to stop in the middle of an epoch, a directory.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.jobmaster.errors import JobExecutionError


@dataclass(frozen=True)
class Visitor:
    name: str


@dataclass(frozen=True)
class Visit:
    visitor: Visitor
    page: int


class CountVisits(KeyedProcessFunction):
    def __init__(self, stop: Path | None):
        self.stop = stop

    def open(self, runtime_context):
        import flintstream

        self.counts = Counter()
        self.where = {"pid": os.getpid(), "cwd": os.getcwd(), "package": flintstream.__file__}

    def process_element(self, value, ctx):
        import pages  # shipped by add_python_file

        self.counts[ctx.get_current_key()] += 1
        if self.stop is not None and value.page == 500:
            (self.stop / "reached").write_text(json.dumps(self.where))
            deadline = time.monotonic() + 60
            while not (self.stop / "open").exists() and time.monotonic() < deadline:
                time.sleep(0.02)
        yield value.visitor, pages.title(value.page), self.counts[value.visitor], self.where


def main():
    module, stop = sys.argv[1], Path(sys.argv[2]) if len(sys.argv) > 2 else None
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    env.add_python_file(module)
    names = ["ann", "bob", "cem", "dora", "eve"]
    visits = env.from_collection([Visit(Visitor(names[page % 5]), page) for page in range(1000)])
    counted = visits.rebalance().map(lambda visit: visit).key_by(lambda visit: visit.visitor).process(CountVisits(stop))
    try:
        with counted.execute_and_collect() as results:
            found = list(results)
    except JobExecutionError as error:
        print(json.dumps({"failed": str(error)}))
        return
    slots = {where["pid"]: where for _, _, _, where in found}
    totals = Counter(visitor.name for visitor, _, _, _ in found)
    titles = sorted({title for _, title, _, _ in found})[:3]
    last = {visitor.name: count for visitor, _, count, _ in found}
    print(json.dumps({"last": last, "totals": totals, "titles": titles, "slots": list(slots.values())}))


main()
