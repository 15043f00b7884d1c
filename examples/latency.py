"""How long a record takes from its source to its sink in a pipelined job, as a histogram.

A source emits 1,000 records a second, each with the time at which it was made; a keyed function passes them on, and the last
one compares that time with the clock. The first half, in which Python and Java warm up, is left out.

    flint demo latency
"""

import sys
import time
from collections import Counter

from flintstream.common import Configuration
from flintstream.datastream import KeyedProcessFunction, SourceFunction, StreamExecutionEnvironment

RATE = 1000
BOUNDS = [1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000]


class Clock(SourceFunction):
    """Emits (key, time) at a steady rate."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.running = True

    def run(self, ctx):
        started = time.time()
        for number in range(RATE * self.seconds):
            if not self.running:
                return
            time.sleep(max(0.0, started + number / RATE - time.time()))
            ctx.collect((number % 100, time.time()))

    def cancel(self):
        self.running = False


class PassOn(KeyedProcessFunction):
    """Emits each record as it comes, behind an exchange by key."""

    def process_element(self, value, ctx):
        yield value


def age(record):
    now = time.time()
    return now, (now - record[1]) * 1000


def show(ages):
    """Prints how many records took how long."""
    ages = sorted(ages)
    below = Counter(next((bound for bound in BOUNDS if milliseconds < bound), BOUNDS[-1] + 1) for milliseconds in ages)
    for bound in [*BOUNDS, BOUNDS[-1] + 1]:
        if below[bound]:
            name = f"below {bound:5,} ms" if bound in BOUNDS else f"{BOUNDS[-1]:5,} ms or more"
            print(f"{name}  {below[bound]:7,}  {'█' * round(60 * below[bound] / len(ages))}")
    median, most = ages[len(ages) // 2], ages[len(ages) * 99 // 100]
    print(f"{len(ages):,} records: half within {median:.1f} ms, 99 of 100 within {most:.1f} ms")


def main():
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 16
    configuration = Configuration()
    configuration.set_string("flint.transport", "pipelined")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)

    passed_on = env.add_source(Clock(seconds)).key_by(lambda record: record[0]).process(PassOn())
    with passed_on.map(age).execute_and_collect() as results:
        arrived = sorted(results)
    show([milliseconds for _, milliseconds in arrived[len(arrived) // 2 :]])


if __name__ == "__main__":
    main()
