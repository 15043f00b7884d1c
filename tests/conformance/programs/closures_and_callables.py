# compare: exact
# Functions of many kinds; what they refer to is captured when the operator is added.
import functools
import math

from flintstream.common import Types
from flintstream.datastream import StreamExecutionEnvironment

FACTOR = 10
seen = []


def scale(value, by):
    return value * by


class Adder:
    def __init__(self, amount):
        self.amount = amount

    def __call__(self, value):
        return value + self.amount

    def method(self, value):
        return value - self.amount

    @staticmethod
    def static(value):
        return -value


def make_counter():
    count = 0

    def counter(value):
        nonlocal count
        count += 1
        return value, count

    return counter


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
ds = env.from_collection([1, 2, 3], Types.INT())
out = (
    ds.map(lambda v: v * FACTOR)
    .map(functools.partial(scale, by=2))
    .map(Adder(5))
    .map(Adder(1).method)
    .map(Adder.static)
    .map(math.fabs)
    .map(lambda v: (seen.append(v), v)[1])
    .map(make_counter())
)
FACTOR = 1000
for value in out.execute_and_collect():
    print(value)
print("the program's own list stays empty:", seen)
